//! Partitions: one listener over several owners, and split anew while it is written to.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mongodb::bson::{Document, doc};
use windlass_testkit::eventually::eventually;

use crate::ledger;
use crate::scene::{Instance, Scene};

/// Inserts and updates until it is told to end.
struct Writer {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Writer {
    fn start(people: mongodb::Collection<Document>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let task = tokio::spawn(async move {
            for n in 0_i32.. {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                people.insert_one(doc! { "_id": n }).await.unwrap();
                let again = doc! { "_id": n % 50 };
                people.update_one(again, doc! { "$set": { "n": n } }).await.unwrap();
            }
        });
        Self { stop, task }
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}

/// Waits until all parts are followed, by whomever.
async fn followed(scene: &Scene, instances: &[&Instance], parts: usize) {
    let what = format!("{parts} parts are followed");
    eventually(&what, async || {
        let mut lanes = std::collections::BTreeSet::new();
        for instance in instances {
            let (_, status) = scene.get(instance, "/status").await?;
            let all = status["report"]["lanes"].as_array()?.clone();
            let live = all.iter().filter(|lane| lane["live"]["following"] == "live");
            lanes.extend(live.filter_map(|lane| lane["lane"].as_str().map(str::to_owned)));
        }
        (lanes.len() == parts).then_some(())
    })
    .await;
}

async fn split(scene: &Scene, parts: i32) {
    let edit = doc! { "$set": { "partitions": parts } };
    scene.own("listeners").update_one(doc! { "_id": "all" }, edit).await.unwrap();
}

async fn check(scene: &Scene) {
    let entries = scene.ledger().await;
    let wanted: Vec<_> = entries.iter().filter(|entry| entry.collection == "people").collect();
    scene.until("all", wanted.len() as u64).await;
    ledger::exact("all", &wanted, &scene.rows("all").await);
}

/// A listener is split anew, and anew, while it is written to, and an owner is killed just before an edit: no change is
/// lost, none has two jobs, and those of a document are in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_is_split_anew_loses_nothing() {
    let scene = Scene::new().await;
    scene.listener("all", doc! {}).await;
    let (a, b) = (scene.start("a").await, scene.start("b").await);
    followed(&scene, &[&a, &b], 1).await;
    let writer = Writer::start(scene.people());
    scene.until("all", 100).await;
    split(&scene, 4).await;
    followed(&scene, &[&a, &b], 4).await;
    // Whatever part it had is behind the others, and nobody puts it down.
    a.program.kill();
    split(&scene, 2).await;
    followed(&scene, &[&b], 2).await;
    let c = scene.start("c").await;
    split(&scene, 3).await;
    followed(&scene, &[&b, &c], 3).await;
    // Two edits at once: nobody comes to be a part of the first.
    split(&scene, 2).await;
    split(&scene, 1).await;
    followed(&scene, &[&b, &c], 1).await;
    let now = scene.count("all").await;
    scene.until("all", now + 100).await;
    writer.end().await;
    check(&scene).await;
    eventually("lanes of before are forgotten", async || {
        let positions =
            scene.own("listener_positions").count_documents(doc! { "listener": "all" }).await.unwrap();
        let seats =
            scene.own("listener_partitions").count_documents(doc! { "listener": "all" }).await.unwrap();
        ((positions, seats) == (1, 0)).then_some(())
    })
    .await;
    assert_eq!(scene.own("listener_gaps").count_documents(doc! {}).await.unwrap(), 0);
}

/// Partitions: one listener over two instances, each document in its place, all exact.
#[tokio::test(flavor = "multi_thread")]
async fn partitions_split_a_listener_over_instances() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "partitions": 4 }).await;
    let (a, b) = (scene.start("a").await, scene.start("b").await);
    eventually("each instance has two parts", async || {
        let mut lanes = Vec::new();
        for instance in [&a, &b] {
            let (_, status) = scene.get(instance, "/status").await?;
            let all = status["report"]["lanes"].as_array()?.clone();
            lanes.push(all.iter().filter(|lane| lane["live"]["following"] == "live").count());
        }
        (lanes == [2, 2]).then_some(())
    })
    .await;
    let people = scene.people();
    for n in 0..300_i32 {
        people.insert_one(doc! { "_id": n }).await.unwrap();
        people.update_one(doc! { "_id": n / 2 }, doc! { "$set": { "n": n } }).await.unwrap();
    }
    check(&scene).await;
}
