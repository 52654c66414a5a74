//! Invariant (b): killed at any operation of the store, nothing is lost and at most the call in flight is repeated.

use std::time::Duration;

use windlass_bitcoin_news::jobs::{Update, Work};
use windlass_engine::Job;

use crate::dying::{Death, Dying};
use crate::scene::{Scene, empty};

/// How many articles there are, on two pages.
const ARTICLES: i64 = 4;
/// A page that fails once.
const FAILS: i64 = 2;

/// A process that fetches and works until it dies, or for a while. Answers whether it died.
async fn process(scene: &Scene, death: Option<Death>) -> bool {
    let store = Dying::new(scene.store.clone(), death);
    let life = async {
        let staff = scene.staff_on(store.clone()).await;
        staff.archive.repair().await.unwrap();
        staff.archive.client.enqueue(Update::asked_for()).await.unwrap();
        let world = scene.world.clone();
        let a_while = async move { world.advance(Duration::from_secs(5)).await };
        staff.worker(true).unwrap().run_until(a_while).await.unwrap();
    };
    tokio::select! { biased; () = store.died() => true, () = life => false }
}

fn scene() -> Scene {
    let scene = Scene::new(&[("MAX_ARTICLES_PER_RUN", "2"), ("RETRY_LADDER", "1s"), ("LEASE", "1s")]);
    scene.publish(1..=ARTICLES);
    scene.fail_page(FAILS, vec![empty()]);
    scene
}

async fn check(death: Death) -> bool {
    let scene = scene();
    let died = process(&scene, Some(death)).await;
    // Another process comes in its place.
    assert!(!process(&scene, None).await);
    scene.work().await;
    assert_eq!(scene.count("done").await, ARTICLES.unsigned_abs(), "{death:?}");
    let repeated = |count: usize, usual: usize| count.saturating_sub(usual);
    let pages = repeated(scene.asked_pages().len(), ARTICLES.unsigned_abs() as usize + 1);
    let sentiments = repeated(scene.asked_model("sentiment"), ARTICLES.unsigned_abs() as usize);
    let summaries = repeated(scene.asked_model("summary"), ARTICLES.unsigned_abs() as usize);
    // Two articles were in hand, each with one call.
    assert!(pages + sentiments + summaries <= 2, "{death:?}: {pages} {sentiments} {summaries}");
    let left = windlass_engine::testing::enqueued::<Work>(&scene.store).await;
    assert!(left.is_empty(), "{death:?}: jobs are left of {}: {left:?}", Work::KIND);
    died
}

#[tokio::test]
async fn a_process_that_is_not_killed_does_all_of_it() {
    let scene = scene();
    assert!(!process(&scene, None).await);
    assert_eq!(scene.count("done").await, ARTICLES.unsigned_abs());
}

#[tokio::test]
async fn killed_at_every_operation_of_the_store() {
    for done in [false, true] {
        let mut at = 1;
        // Until the process no longer lives long enough to die.
        while at < 2_000 && check(Death { at, done }).await {
            at += 1;
        }
        assert!(at > 60, "only {at} operations: the process did not do its work");
    }
}
