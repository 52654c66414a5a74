//! What a worker of the table costs its database while there is nothing to do: a count of transactions over a stretch of real
//! time, since what is counted is how often somebody asks. The worker is the engine's, on the table itself: the program of Nurse
//! Tour asks as often as `WORKER_POLL_INTERVAL_MS` says.

use std::sync::Arc;

use windlass_engine::Worker;
use windlass_engine::process::Command;
use windlass_engine::world::{RealWorld, World};
use windlass_nurse_tour::mapping::{KIND, QUEUE};
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::{Pooler, Server};

use crate::inside::table_at;
use crate::scene::Scene;

/// Until it has found out that nothing happens.
const SETTLES_MS: u64 = 45_000;
/// How long is counted, and how often at most: a loaded machine settles later.
const COUNTED_MS: u64 = 60_000;
const WINDOWS_MAX: u32 = 3;

/// An idle worker, on a server that nobody else uses; then a message comes, and is found.
async fn rests(pooled: bool, transactions_max: i64) {
    let server = Arc::new(Server::own().await);
    server.sql("ALTER SYSTEM SET autovacuum = off").await;
    server.sql("SELECT pg_reload_conf()").await;
    let scene = Scene::on(server.clone()).await;
    scene.migrate().await;
    let pooler = Pooler::before(&server.authority(), "").await;
    let url = if pooled { pooler.url(scene.database.name()) } else { scene.database.url() };
    let worker = Worker::from_source(table_at(&scene, &url, None).await)
        .name("w")
        .queues([QUEUE])
        .handle_command(KIND, Command::new(["true"]).unwrap());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run_until(async { drop(stopped.await) }));
    let world = RealWorld::new();
    world.sleep_ms(SETTLES_MS).await;
    let mut counts = Vec::new();
    while counts.len() < WINDOWS_MAX as usize && counts.last().is_none_or(|count| *count > transactions_max) {
        let before = scene.database.transactions().await;
        world.sleep_ms(COUNTED_MS).await;
        counts.push(scene.database.transactions().await - before);
    }
    eprintln!("behind a pooler: {pooled}, {counts:?} transactions in {COUNTED_MS} ms each");
    let fits = counts.last().is_some_and(|count| (1..=transactions_max).contains(count));
    assert!(fits, "behind a pooler: {pooled}, {counts:?} transactions of at most {transactions_max}");
    scene.message("SM1").await;
    let found = "SELECT count(*) FROM whatsapp_inbound_messages WHERE processing_status <> 'READY'";
    eventually("the message is found", async || {
        (scene.client.query_one(found, &[]).await.unwrap().get::<_, i64>(0) == 1).then_some(())
    })
    .await;
    let _ = stop.send(());
    let _ = running.await;
}

/// One transaction a second where nobody can be told, and one in five seconds where somebody is.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_of_an_adopted_table_is_cheap() {
    let both = [(true, COUNTED_MS as i64 / 1_000), (false, COUNTED_MS as i64 / 5_000)];
    let both = both.map(|(pooled, max)| tokio::spawn(rests(pooled, max)));
    for counting in both {
        counting.await.unwrap();
    }
}
