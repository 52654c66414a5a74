//! Ends: by a signal, whatever the server does meanwhile, and how soon somebody else goes on.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::doc;
use windlass_testkit::eventually::answered_within;
use windlass_testkit::mongo::ReplicaSet;

use crate::ledger;
use crate::owners::{Writer, check_all};
use crate::scene::{Instance, Scene};

/// How long an end may take.
const END: Duration = Duration::from_secs(5);

/// Ends an instance by SIGTERM; answers how it ended, or nothing where that took too long.
async fn ended(instance: Instance) -> Option<std::process::ExitStatus> {
    instance.program.signal(libc::SIGTERM);
    let wait = tokio::task::spawn_blocking(move || instance.program.wait());
    tokio::time::timeout(END, wait).await.ok().map(Result::unwrap)
}

/// T22: the server is away: an end is an end all the same, within five seconds and with exit 0. What was not written
/// is a successor's, once the server is back and the locks have run out.
#[tokio::test(flavor = "multi_thread")]
async fn t22_an_end_without_a_server_is_an_end() {
    let scene = Scene::on(Arc::new(ReplicaSet::one().await)).await;
    scene.listener("all", doc! { "operationType": ["insert"], "statusField": "metadata.listener" }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    people.insert_many((0..2_000).map(|n| doc! { "n": n })).await.unwrap();
    scene.set.kill(0).await;
    let status = ended(one).await.unwrap_or_else(|| panic!("it does not end\n{}", scene.last_words()));
    assert!(status.success(), "{status:?}\n{}", scene.last_words());
    scene.set.start(0).await;
    scene.set.primary().await;
    let two = scene.start("two").await;
    scene.live(&["all"], &[&two]).await;
    scene.settled("all", &people).await;
    let entries = scene.ledger().await;
    let wanted: Vec<_> = entries.iter().filter(|entry| entry.operation == "insert").collect();
    ledger::exact("all", &wanted, &scene.rows("all").await);
}

/// How soon one that stands by goes on.
const SUCCESSOR: Duration = Duration::from_secs(1);

/// T22: one that stands by hears that a lock was let go, and goes on within a second, however seldom it looks.
#[tokio::test(flavor = "multi_thread")]
async fn t22_one_that_stands_by_goes_on_within_a_second() {
    let mut scene = Scene::new().await;
    for (name, seconds) in [("LOCK", "30"), ("HEARTBEAT", "10"), ("CLAIM", "15")] {
        scene.set(&format!("LISTENER_{name}_SECONDS"), seconds);
    }
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let a = scene.start("a").await;
    scene.live(&["all"], &[&a]).await;
    let b = scene.start("b").await;
    let people = scene.people();
    let writer = Writer::start(people.clone());
    scene.until("all", 100).await;
    let status = ended(a).await.unwrap_or_else(|| panic!("it does not end\n{}", scene.last_words()));
    assert!(status.success(), "{status:?}");
    let owned =
        answered_within(u32::MAX, async || scene.owner("all").await.filter(|owner| owner.starts_with("b-")));
    let owned = tokio::time::timeout(SUCCESSOR, owned).await;
    assert!(owned.is_ok(), "nobody takes it within {SUCCESSOR:?}\n{}", scene.last_words());
    people.insert_one(doc! { "_id": "then" }).await.unwrap();
    let row = doc! { "data.documentId": "then" };
    let row = answered_within(u32::MAX, async || scene.own("jobs").find_one(row.clone()).await.unwrap());
    let row = tokio::time::timeout(SUCCESSOR, row).await;
    assert!(row.is_ok(), "nobody goes on within {SUCCESSOR:?}\n{}", scene.last_words());
    writer.end().await;
    check_all(&scene, "all").await;
    drop(b);
}
