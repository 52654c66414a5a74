//! An outage is no crash: attempts that cannot be renewed are held still, and
//! go on when the store answers, or end when the job was lost.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_engine::core::id::JobId;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::Store;
use windlass_engine::core::time::Clock;
use windlass_engine::{Context, Housekeeper, Worker};

use crate::faulty::Faulty;
use crate::stage::{Note, Running, Stage};

/// A worker behind a line that can be cut, and a handler that notes each moment at which it does something.
struct Scene {
    stage: Stage,
    line: Arc<Faulty>,
    beats: Arc<Mutex<Vec<u64>>>,
    begun: Arc<AtomicU32>,
    finish: Arc<AtomicBool>,
}

impl Scene {
    fn new() -> Self {
        let stage = Stage::new();
        let line = Faulty::new(stage.store.clone());
        let (beats, begun, finish) = (Arc::default(), Arc::default(), Arc::default());
        Self { stage, line, beats, begun, finish }
    }

    fn start(&self, change: impl FnOnce(Worker) -> Worker) -> Running {
        let worker = change(self.stage.dress(Worker::from_source(self.line.clone())));
        let (world, beats) = (self.stage.world().clone(), self.beats.clone());
        let (begun, finish) = (self.begun.clone(), self.finish.clone());
        let worker = worker.handle(move |_: Note, ctx: Context| {
            begun.fetch_add(1, Ordering::SeqCst);
            let (world, beats, finish) = (world.clone(), beats.clone(), finish.clone());
            async move {
                while !finish.load(Ordering::SeqCst) {
                    beats.lock().unwrap().push(world.boot_ms());
                    ctx.sleep(Duration::from_millis(100)).await?;
                }
                Ok(())
            }
        });
        self.stage.start(worker)
    }

    async fn began(&self, id: JobId) {
        self.stage.until_state(id, StateName::Running).await;
        self.stage.until("it works", async || self.beats() > 3).await;
    }

    fn beats(&self) -> usize {
        self.beats.lock().unwrap().len()
    }

    fn now(&self) -> u64 {
        self.stage.world().boot_ms()
    }

    async fn pass(&self, ms: u64) {
        let later = self.now() + ms;
        while self.now() < later {
            self.stage.world().advance(Duration::from_millis(50)).await;
        }
    }

    /// For how long the handler did nothing from `since` on, and when it did the last thing before that.
    fn stood(&self, since: u64) -> (u64, u64) {
        let beats = self.beats.lock().unwrap();
        let gaps = beats.windows(2).filter(|pair| pair[1] > since).map(|pair| (pair[1] - pair[0], pair[0]));
        gaps.max().unwrap_or_default()
    }

    fn cut(&self, cut: bool) {
        self.line.cut_off.store(cut, Ordering::SeqCst);
    }
}

/// Fault D of the issue: the store is away for 9 s, and a lease lasts 5 s. The job goes on where it was: it is not
/// booked as crashed, and its handler begins once.
#[tokio::test]
async fn a_store_that_was_away_is_no_crash() {
    for away_ms in [9_000, 60_000, 400_000] {
        let scene = Scene::new();
        let id = scene.stage.enqueue("long").await;
        let running = scene.start(|worker| worker.lease(Duration::from_secs(5)));
        scene.began(id).await;
        scene.cut(true);
        let since = scene.now();
        scene.pass(away_ms).await;
        scene.cut(false);
        let before = scene.beats();
        scene.stage.until("it goes on", async || scene.beats() > before + 3).await;
        let (stood_ms, last_ms) = scene.stood(since);
        // Renewed 1.7 s before the cut at the latest, it stands still half a second before the end.
        let went_on_ms = last_ms - since;
        assert!((2_700..=4_600).contains(&went_on_ms), "went on for {went_on_ms} ms");
        assert!(
            stood_ms >= away_ms - 4_600 && stood_ms <= away_ms - 2_700 + 1_700,
            "stood for {stood_ms} ms"
        );
        scene.pass(10_000).await;
        scene.finish.store(true, Ordering::SeqCst);
        let job = scene.stage.until_state(id, StateName::Completed).await;
        assert_eq!((job.attempt, job.crashes, job.fence, job.history.len()), (1, 0, 1, 0), "{away_ms}");
        assert_eq!(scene.begun.load(Ordering::SeqCst), 1);
        let summary = running.stop().await;
        assert_eq!((summary.claimed, summary.settled, summary.lost), (1, 1, 0));
    }
}

/// An attempt that is held still while it stores a step keeps nothing that its renewal waits for: the step is written without it,
/// and it goes on.
#[tokio::test]
async fn an_attempt_that_stands_still_holds_nothing_of_the_store() {
    let scene = Scene::new();
    let id = scene.stage.enqueue("steps").await;
    let worker = scene.stage.dress(Worker::from_source(scene.line.clone()));
    let begun = scene.begun.clone();
    let worker = worker.lease(Duration::from_secs(5)).handle(move |_: Note, ctx: Context| {
        begun.fetch_add(1, Ordering::SeqCst);
        async move { ctx.step("fetch", async || Ok(7)).await.map(drop) }
    });
    scene.line.frozen.send_replace(true);
    let running = scene.stage.start(worker);
    scene.stage.until("it begins", async || scene.begun.load(Ordering::SeqCst) == 1).await;
    scene.pass(9_000).await;
    scene.line.frozen.send_replace(false);
    let job = scene.stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.crashes, job.fence, job.steps.len()), (1, 0, 1, 1));
    let summary = running.stop().await;
    assert_eq!((summary.settled, summary.lost), (1, 0));
}

/// A server that was frozen carries out a claim when the worker has asked again and was given nothing: what it gave is heard of, and
/// the jobs are not booked as crashed.
#[tokio::test]
async fn a_claim_that_is_carried_out_late_is_heard_of() {
    let scene = Scene::new();
    scene.line.put_off.store(1, Ordering::SeqCst);
    let running = scene.start(|worker| worker.slots(2).lease(Duration::from_secs(5)));
    let asked = async || scene.line.claims.lock().unwrap().len() >= 2;
    scene.stage.until("it asks again", asked).await;
    scene.pass(100).await;
    scene.cut(true);
    let ids = [scene.stage.enqueue("one").await, scene.stage.enqueue("two").await];
    assert_eq!(scene.line.carry_out().await, 2);
    scene.cut(false);
    scene.finish.store(true, Ordering::SeqCst);
    for id in ids {
        let job = scene.stage.until_state(id, StateName::Completed).await;
        assert_eq!((job.attempt, job.crashes, job.fence, job.history.len()), (1, 0, 1, 0));
    }
    // Nothing is in doubt any more: each question has an id of its own again.
    let first = scene.line.claims.lock().unwrap()[0].request_id;
    let id = scene.stage.enqueue("three").await;
    scene.stage.until_state(id, StateName::Completed).await;
    assert_ne!(scene.line.claims.lock().unwrap().last().unwrap().request_id, first);
    let summary = running.stop().await;
    assert_eq!((summary.claimed, summary.settled, summary.lost), (3, 3, 0));
}

/// What a claim gave that was carried out long ago has run out by the time that it is heard of, and begins nothing: leases count from
/// when the store was last known to have given nothing, not from the question by which they are heard of.
#[tokio::test]
async fn a_claim_that_was_carried_out_long_ago_begins_nothing() {
    let scene = Scene::new();
    scene.line.put_off.store(1, Ordering::SeqCst);
    let running = scene.start(|worker| worker.slots(1).lease(Duration::from_secs(5)));
    let asked = async || scene.line.claims.lock().unwrap().len() >= 2;
    scene.stage.until("it asks again", asked).await;
    scene.pass(100).await;
    scene.cut(true);
    let id = scene.stage.enqueue("long ago").await;
    assert_eq!(scene.line.carry_out().await, 1);
    // Longer than a question is asked over and over: another takes its place, under the same id.
    scene.pass(7_000).await;
    scene.cut(false);
    scene.finish.store(true, Ordering::SeqCst);
    let job = scene.stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.crashes, job.fence), (1, 0, 2), "it was given back, and claimed anew");
    assert_eq!(scene.begun.load(Ordering::SeqCst), 1);
    running.stop().await;
}

/// Only the writes of this worker fail, and others look at its lease: it is held still in time, and ended when it
/// hears that the job was lost.
#[tokio::test]
async fn a_worker_that_is_cut_off_alone_stands_still_and_loses_its_job() {
    let scene = Scene::new();
    let id = scene.stage.enqueue("cut off").await;
    let running = scene.start(|worker| worker.housekeeping(false));
    let house = Housekeeper::new(scene.stage.store.clone()).in_world(Arc::new(scene.stage.world().clone()));
    let house = tokio::spawn(async move { house.run().await });
    scene.began(id).await;
    scene.cut(true);
    let job = scene.stage.until_state(id, StateName::Queued).await;
    assert_eq!(job.crashes, 1, "for the others it has crashed");
    let last_ms = *scene.beats.lock().unwrap().last().unwrap();
    let taken_ms = scene.now();
    assert!(
        last_ms + 1_500 <= taken_ms,
        "it stood still at {last_ms}, before it was taken back at {taken_ms}"
    );
    // The line is back: it hears that it is lost, and claims the job anew.
    scene.cut(false);
    scene.stage.until("it begins again", async || scene.begun.load(Ordering::SeqCst) == 2).await;
    scene.finish.store(true, Ordering::SeqCst);
    let job = scene.stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.fence), (2, 2));
    let summary = running.stop().await;
    assert_eq!((summary.settled, summary.lost), (1, 1));
    house.abort();
}

/// What was held still for too long is ended, and given back when the store is there again: no attempt is counted.
#[tokio::test]
async fn an_attempt_is_not_held_still_for_ever() {
    let scene = Scene::new();
    let id = scene.stage.enqueue("for ever").await;
    let running = scene.start(|worker| worker.still(Duration::from_secs(120)).housekeeping(false));
    scene.began(id).await;
    scene.cut(true);
    scene.pass(27_500 + 120_000 + 1_000).await;
    assert_eq!(scene.stage.job(id).await.state.name(), StateName::Running, "nobody could be told");
    let beats = scene.beats();
    scene.pass(60_000).await;
    assert_eq!(scene.beats(), beats, "it is gone");
    scene.cut(false);
    scene.stage.until("it begins again", async || scene.begun.load(Ordering::SeqCst) == 2).await;
    let job = scene.stage.job(id).await;
    assert_eq!((job.attempt, job.crashes, job.fence), (1, 0, 2), "released, and claimed again");
    scene.finish.store(true, Ordering::SeqCst);
    scene.stage.until_state(id, StateName::Completed).await;
    running.stop().await;
}

/// A step is something new: from two thirds of the lease on it waits for the store, and is run then.
#[tokio::test]
async fn a_step_waits_for_a_store_that_is_away() {
    let stage = Stage::new();
    let line = Faulty::new(stage.store.clone());
    let id = stage.enqueue("steps").await;
    let (line_in, stepped) = (line.clone(), Arc::new(AtomicU32::new(0)));
    let worker = stage.dress(Worker::from_source(line.clone())).handle({
        let stepped = stepped.clone();
        move |_: Note, ctx: Context| {
            let (line, stepped) = (line_in.clone(), stepped.clone());
            async move {
                line.cut_off.store(true, Ordering::SeqCst);
                ctx.sleep(Duration::from_secs(21)).await?;
                ctx.step("new", async || {
                    stepped.fetch_add(1, Ordering::SeqCst);
                    Ok(())
                })
                .await
            }
        }
    });
    let running = stage.start(worker);
    stage.until("it is cut off", async || line.cut_off.load(Ordering::SeqCst)).await;
    let later = stage.world().boot_ms() + 50_000;
    while stage.world().boot_ms() < later {
        stage.world().advance(Duration::from_millis(100)).await;
    }
    assert_eq!(stepped.load(Ordering::SeqCst), 0, "nothing new is begun");
    line.cut_off.store(false, Ordering::SeqCst);
    let job = stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.crashes, job.steps.len(), stepped.load(Ordering::SeqCst)), (1, 0, 1, 1));
    running.stop().await;
}

/// Time that an attempt was held still is no part of its timeout.
#[tokio::test]
async fn a_timeout_does_not_run_while_an_attempt_stands_still() {
    let scene = Scene::new();
    let id = scene.stage.enqueue_with("timed", |job| job.timeout(Duration::from_secs(60))).await;
    let running = scene.start(|worker| worker);
    scene.began(id).await;
    scene.cut(true);
    scene.pass(300_000).await;
    scene.cut(false);
    let before = scene.beats();
    scene.stage.until("it goes on", async || scene.beats() > before + 3).await;
    scene.finish.store(true, Ordering::SeqCst);
    let job = scene.stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.history.len()), (1, 0));
    running.stop().await;
}

/// A worker that is told to end while the store is away ends after its grace, and leaves the job as it is.
#[tokio::test]
async fn a_worker_ends_while_the_store_is_away() {
    let scene = Scene::new();
    let id = scene.stage.enqueue("left").await;
    let running = scene.start(|worker| worker);
    scene.began(id).await;
    scene.cut(true);
    scene.pass(40_000).await;
    let before = scene.now();
    running.stop().await;
    assert!(scene.now() - before <= 11_000, "its grace, and no more");
    assert_eq!(scene.stage.store.get(id).await.unwrap().unwrap().state.name(), StateName::Running);
}

/// The store comes back without its newest commits. One of these may have given the job to somebody else after the lease
/// was over, so an attempt that stood still goes on when whoever that is has surely ended.
#[tokio::test]
async fn an_attempt_that_stood_still_waits_for_the_end_of_a_pause() {
    let scene = Scene::new();
    let id = scene.stage.enqueue("long").await;
    let running = scene.start(|worker| worker.lease(Duration::from_secs(5)));
    scene.began(id).await;
    scene.cut(true);
    scene.pass(9_000).await;
    turn(&scene);
    scene.cut(false);
    let (since, before) = (scene.now(), scene.beats());
    scene.pass(29_000).await;
    assert_eq!(scene.beats(), before, "the queue's leases last 30 s");
    scene.stage.until("it goes on", async || scene.beats() > before + 3).await;
    let went_on_ms = scene.now() - since;
    assert!((29_000..=32_000).contains(&went_on_ms), "went on after {went_on_ms} ms");
    scene.finish.store(true, Ordering::SeqCst);
    let job = scene.stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.crashes, job.fence), (1, 0, 1));
    running.stop().await;
}

/// One that never stood still held its lease all the time: it goes on. And a worker that hears of another epoch renews all
/// that it holds, however long its leases are.
#[tokio::test]
async fn another_epoch_renews_all_leases_at_once() {
    let scene = Scene::new();
    let first = scene.stage.enqueue("long").await;
    let running = scene.start(|worker| worker.lease(Duration::from_secs(3_600)));
    scene.began(first).await;
    scene.pass(30_000).await;
    let claimed = scene.stage.store.get(first).await.unwrap().unwrap().lease().unwrap().expires_at;
    turn(&scene);
    scene.pass(40_000).await;
    let counted = scene.stage.store.get(first).await.unwrap().unwrap().lease().unwrap().expires_at;
    assert!(counted > claimed, "the beginning of an epoch counts as a renewal");
    scene.stage.enqueue("heard").await;
    scene.pass(2_000).await;
    let renewed = scene.stage.store.get(first).await.unwrap().unwrap().lease().unwrap().expires_at;
    assert!(renewed > counted, "and is followed by one as soon as it is heard of");
    scene.finish.store(true, Ordering::SeqCst);
    let job = scene.stage.until_state(first, StateName::Completed).await;
    assert_eq!((job.attempt, job.crashes), (1, 0));
    running.stop().await;
}

/// The store loses its newest commits.
fn turn(scene: &Scene) {
    let now = scene.stage.world().wall();
    scene.stage.store.book().turn(uuid::Uuid::from_u128(u128::MAX / 3), 7, true, now);
}
