//! Ends: by a signal, whatever the server does meanwhile, and how soon somebody else goes on.

use std::sync::Arc;
use std::time::Duration;

use mongodb::bson::doc;
use windlass_testkit::mongo::ReplicaSet;

use crate::ledger;
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
