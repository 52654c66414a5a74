//! A Postgres that freezes, with real programs: fault D of "the promises hold when the store freezes".

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use windlass::core::state::StateName;
use windlass::core::store::Store;
use windlass::core::time::Clock;
use windlass::postgres::PostgresStore;
use windlass::process::Command;
use windlass::world::RealWorld;
use windlass::{Client, Housekeeper, JobRequest, Worker};
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::Server;

const LEASE: Duration = Duration::from_secs(5);
const FROZEN_MS: u64 = 9_000;
/// Says when it begins, and ends when a file says so.
const SCRIPT: &str = r#"cd "$FOLDER"; echo $$ >> begun; while [ ! -e finish ]; do sleep 0.05; done"#;

/// The letter of a process's state; nothing when it is gone.
fn state_of(pid: &str) -> String {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    let rest = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    rest.chars().take(1).collect()
}

/// The store is frozen for 9 s, with a lease of 5 s and others who look for lost leases: the healthy job goes on, is not
/// booked as crashed, and its program is started once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_postgres_that_freezes_is_no_crash() {
    let server = Arc::new(Server::own().await);
    let database = server.fresh_database().await;
    let folder = tempfile::tempdir().unwrap();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    let other = PostgresStore::connect(&database.url()).await.unwrap();
    let house = tokio::spawn(async move { Housekeeper::new(other).run().await });
    let command = Command::new(["/bin/sh", "-c", SCRIPT]).unwrap().env("FOLDER", folder.path());
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::new(store.clone()).lease(LEASE).handle_command("run", command);
    let working = tokio::spawn(worker.run_until(async move {
        let _ = stopped.await;
    }));
    let job = JobRequest::new("run", &serde_json::Value::Null);
    let id = Client::new(store.clone()).enqueue(job).await.unwrap().id();
    let begun = || std::fs::read_to_string(folder.path().join("begun")).unwrap_or_default();
    let pid = eventually("the program begins", async || begun().lines().next().map(str::to_owned)).await;

    let clock = RealWorld::new();
    let frozen_at = clock.boot_ms();
    server.freeze();
    eventually("the program stands still", async || (state_of(&pid) == "T").then_some(())).await;
    eventually("nine seconds", async || (clock.boot_ms() >= frozen_at + FROZEN_MS).then_some(())).await;
    assert_eq!(state_of(&pid), "T", "still");
    server.thaw();
    eventually("the program goes on", async || (state_of(&pid) != "T").then_some(())).await;
    // Long enough for a second look, had nobody renewed.
    let back_at = clock.boot_ms();
    eventually("three seconds", async || (clock.boot_ms() >= back_at + 3_000).then_some(())).await;
    let job = store.get(id).await.unwrap().unwrap();
    assert_eq!((job.state.name(), job.attempt, job.crashes, job.fence), (StateName::Running, 1, 0, 1));

    std::fs::write(folder.path().join("finish"), "").unwrap();
    let job = eventually("the job is completed", async || {
        store.get(id).await.unwrap().filter(|job| job.state.name() == StateName::Completed)
    })
    .await;
    assert_eq!((job.attempt, job.crashes, job.history.len()), (1, 0, 0));
    assert_eq!(begun().lines().count(), 1, "its program is started once");
    let _ = stop.send(());
    let summary = working.await.unwrap().unwrap();
    assert_eq!((summary.settled, summary.lost), (1, 0));
    house.abort();
}
