//! A store that is away, answers that are lost, leases that run out.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{Source, Store};
use windlass_engine::core::time::Clock;
use windlass_engine::{BreakerPolicy, Context, Failure, Worker};

use crate::faulty::Faulty;
use crate::stage::{Note, Stage};

fn faulty(stage: &Stage) -> (Arc<Faulty>, Worker) {
    let faulty = Faulty::new(stage.store.clone());
    let worker = stage.dress(Worker::from_source(faulty.clone()));
    (faulty, worker)
}

/// Fault 2: a claim whose answer was lost is asked again with the same id and
/// gives the same leases: nothing waits for a lease to run out.
#[tokio::test]
async fn fault_2_a_lost_answer_of_a_claim() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let id = stage.enqueue("once").await;
    faulty.swallow.store(1, Ordering::SeqCst);
    let running = stage.start(worker.handle(async |_: Note, _: Context| Ok(())));
    let job = stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.crashes, job.fence), (1, 0, 1));
    running.stop().await;
}

/// The same when the store is away for seconds: the claim is asked until its leases must have run out.
#[tokio::test]
async fn fault_2_an_answer_that_is_lost_again_and_again() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let id = stage.enqueue("once").await;
    faulty.swallow.store(12, Ordering::SeqCst);
    let running = stage.start(worker.handle(async |_: Note, _: Context| Ok(())));
    let job = stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.crashes, job.fence), (1, 0, 1));
    running.stop().await;
}

/// Fault 3: a settlement whose answer was lost is sent again and is fine.
#[tokio::test]
async fn fault_3_a_lost_answer_of_a_settlement() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let id = stage.enqueue("once").await;
    let runs = Arc::new(AtomicU32::new(0));
    let worker = worker.handle({
        let (faulty, runs) = (faulty.clone(), runs.clone());
        move |_: Note, _: Context| {
            // From here on the next answer is that of the settlement.
            faulty.swallow.store(1, Ordering::SeqCst);
            runs.fetch_add(1, Ordering::SeqCst);
            async { Ok(()) }
        }
    });
    let running = stage.start(worker);
    stage.until_state(id, StateName::Completed).await;
    let summary = running.stop().await;
    assert_eq!((summary.settled, summary.lost, runs.load(Ordering::SeqCst)), (1, 0, 1));
}

/// A result that the store cannot take is of its own job alone: those that end together with it are settled.
#[tokio::test]
async fn one_that_cannot_be_stored_costs_no_other() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let mut ids = Vec::new();
    for n in 0..20 {
        ids.push(stage.enqueue(&format!("n{n}")).await);
    }
    let bad = ids.remove(7);
    *faulty.unfit.lock().unwrap() = Some(bad);
    // All of them end at once.
    let together = Arc::new(tokio::sync::Barrier::new(20));
    let worker = worker.slots(20).housekeeping(false).handle(move |_: Note, _: Context| {
        let together = together.clone();
        async move {
            together.wait().await;
            Ok(())
        }
    });
    let running = stage.start(worker);
    for id in ids {
        let job = stage.until_state(id, StateName::Completed).await;
        assert_eq!((job.attempt, job.crashes, job.fence), (1, 0, 1));
    }
    assert!(faulty.settles.lock().unwrap().iter().any(|count| *count > 1), "they came together");
    assert_eq!(stage.store.get(bad).await.unwrap().unwrap().state.name(), StateName::Running);
    let summary = running.stop().await;
    assert_eq!(summary.settled, 19);
}

/// Faults 24, 25, 36: a worker that cannot renew holds its attempt still shortly
/// before the end of the lease, before the store could give the job to another; when
/// it hears that the job was taken back, the attempt is dropped and nothing is written.
#[tokio::test]
async fn fault_24_25_36_a_worker_that_is_cut_off_stands_still_by_itself() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let id = stage.enqueue("cut off").await;
    let stopped_at = Arc::new(Mutex::new(None));
    let worked = Arc::new(Mutex::new(0));
    let worker = worker.housekeeping(false).handle({
        let (stage, stopped_at, worked) = (stage.clone(), stopped_at.clone(), worked.clone());
        move |_: Note, ctx: Context| {
            let guard = OnDrop(stage.clone(), stopped_at.clone());
            let (worked_at, ctx_world) = (worked.clone(), stage.world().clone());
            async move {
                let _guard = guard;
                while ctx.stop().is_none() {
                    *worked_at.lock().unwrap() = ctx_world.wall().ms();
                    ctx.sleep(Duration::from_millis(100)).await?;
                }
                Ok(())
            }
        }
    });
    let running = stage.start(worker);
    let job = stage.until_state(id, StateName::Running).await;
    faulty.cut_off.store(true, Ordering::SeqCst);
    let started_ms = job.started_at.unwrap().ms();
    let passed = async |ms: i64| stage.world().wall().ms() >= started_ms + ms;
    stage.until("the first look", async || passed(20_000).await).await;
    assert_eq!(stage.store.expire().await.unwrap().marked, 1);
    stage.until("the end of the lease", async || passed(30_000).await).await;
    let ran = *worked.lock().unwrap() - started_ms;
    assert!((27_000..=27_500).contains(&ran), "ran for {ran} ms of a lease of 30000");
    assert!(stopped_at.lock().unwrap().is_none(), "it stands still, and is there");
    assert_eq!(stage.store.expire().await.unwrap().jobs, [id], "the store takes it back");
    stage.policy(|policy| policy.limit = Some(1)).await;
    stage.store.pause_queue(Default::default(), true).await.unwrap();
    faulty.cut_off.store(false, Ordering::SeqCst);
    stage.until("the attempt is dropped", async || stopped_at.lock().unwrap().is_some()).await;
    assert_eq!(*worked.lock().unwrap() - started_ms, ran, "it did nothing more");
    let summary = running.stop().await;
    assert_eq!((summary.lost, summary.settled), (1, 0));
    assert_eq!(stage.job(id).await.state.name(), StateName::Queued, "nothing was written");
}

struct OnDrop(Stage, Arc<Mutex<Option<i64>>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        *self.1.lock().unwrap() = Some(self.0.world().wall().ms());
    }
}

/// A renewal that takes longer than we wait before we ask again counts all the same: a store that is slow for everybody loses
/// nobody's lease.
#[tokio::test]
async fn a_renewal_that_is_slow_counts() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    // A third of a lease of 30 s passes before it is asked for, and the tenth is waited for.
    *faulty.slow_renewals.lock().unwrap() = Some((stage.world().clone(), 5_000));
    let id = stage.enqueue("long").await;
    let worker = worker.handle(async |_: Note, ctx: Context| ctx.sleep(Duration::from_secs(120)).await);
    let running = stage.start(worker);
    let job = stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.crashes), (1, 0));
    let renewals = faulty.renewals.load(Ordering::SeqCst);
    assert!((8..=40).contains(&renewals), "{renewals} renewals in 120 s");
    running.stop().await;
}

/// Fault 37: a renewal that hangs is asked again; the lease is kept.
#[tokio::test]
async fn fault_37_a_renewal_that_hangs() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let id = stage.enqueue("long").await;
    let done = Arc::new(AtomicBool::new(false));
    let worker = worker.handle({
        let done = done.clone();
        move |_: Note, ctx: Context| {
            let done = done.clone();
            async move {
                while !done.load(Ordering::SeqCst) {
                    ctx.sleep(Duration::from_millis(1_000)).await?;
                }
                Ok(())
            }
        }
    });
    let running = stage.start(worker);
    stage.until_state(id, StateName::Running).await;
    faulty.hang_renewals.store(true, Ordering::SeqCst);
    let later = stage.world().boot_ms() + 14_000;
    while stage.world().boot_ms() < later {
        stage.world().advance(Duration::from_millis(100)).await;
    }
    faulty.hang_renewals.store(false, Ordering::SeqCst);
    stage.until("it is renewed several times", async || faulty.renewals.load(Ordering::SeqCst) >= 3).await;
    done.store(true, Ordering::SeqCst);
    let job = stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.crashes), (1, 0));
    running.stop().await;
}

/// Fault 15: the store is away while attempts run and end; nothing is lost and
/// nothing runs twice.
#[tokio::test]
async fn fault_15_a_store_that_comes_back() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let runs = Arc::new(AtomicU32::new(0));
    let mut ids = Vec::new();
    for at in 0..20 {
        ids.push(stage.enqueue(&at.to_string()).await);
    }
    let worker = worker.slots(5).handle({
        let (faulty, runs) = (faulty.clone(), runs.clone());
        move |note: Note, ctx: Context| {
            let (faulty, runs) = (faulty.clone(), runs.clone());
            async move {
                runs.fetch_add(1, Ordering::SeqCst);
                if note.text == "7" {
                    faulty.cut_off.store(true, Ordering::SeqCst);
                }
                ctx.step("while it is away", async || Ok(())).await
            }
        }
    });
    let running = stage.start(worker);
    stage.until("it is cut off", async || faulty.cut_off.load(Ordering::SeqCst)).await;
    let later = stage.world().boot_ms() + 5_000;
    while stage.world().boot_ms() < later {
        stage.world().advance(Duration::from_millis(100)).await;
    }
    faulty.cut_off.store(false, Ordering::SeqCst);
    for id in ids {
        let job = stage.until_state(id, StateName::Completed).await;
        assert_eq!((job.attempt, job.crashes, job.steps.len()), (1, 0, 1), "{job:?}");
    }
    running.stop().await;
    assert_eq!(runs.load(Ordering::SeqCst), 20);
}

/// With a source that can, a second claim is under way while claims come back full; slots are kept all the same.
#[tokio::test]
async fn two_claims_at_once_keep_the_slots() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    faulty.claims_at_once.store(2, Ordering::SeqCst);
    let mut ids = Vec::new();
    for at in 0..100 {
        ids.push(stage.enqueue(&at.to_string()).await);
    }
    let (runs, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let worker = worker.slots(8).claim_max(3).handle({
        let (runs, most) = (runs.clone(), most.clone());
        move |_: Note, ctx: Context| {
            let (runs, most) = (runs.clone(), most.clone());
            async move {
                most.fetch_max(runs.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                ctx.sleep(Duration::from_millis(2)).await?;
                runs.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        }
    });
    let running = stage.start(worker);
    for id in ids {
        assert_eq!(stage.until_state(id, StateName::Completed).await.attempt, 1);
    }
    let summary = running.stop().await;
    assert_eq!((summary.claimed, summary.settled, summary.lost), (100, 100, 0));
    assert!(most.load(Ordering::SeqCst) <= 8, "{most:?} ran at once with 8 slots");
    assert_eq!(faulty.claims_together.load(Ordering::SeqCst), 2);
}

/// Many attempts that end together are settled in few commits.
#[tokio::test]
async fn settlements_are_grouped() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    for at in 0..400 {
        stage.enqueue(&at.to_string()).await;
    }
    let barrier = Arc::new(tokio::sync::Barrier::new(100));
    let worker = worker.slots(100).handle(move |_: Note, _: Context| {
        let barrier = barrier.clone();
        async move {
            barrier.wait().await;
            Ok(())
        }
    });
    let ended = tokio::spawn(worker.run_until_idle());
    stage.until("the worker ends", async || ended.is_finished()).await;
    assert_eq!(ended.await.unwrap().unwrap().settled, 400);
    let settles = faulty.settles.lock().unwrap();
    assert_eq!(settles.iter().sum::<usize>(), 400);
    assert!(settles.len() <= 200, "{} commits", settles.len());
}

/// Fault 39: while all attempts of a kind fail, its jobs wait without using attempts.
#[tokio::test]
async fn fault_39_the_breaker_saves_attempts() {
    let stage = Stage::new();
    stage.policy(|policy| policy.ladder = "1s 1s 1s 1s".parse().unwrap()).await;
    let down = Arc::new(AtomicBool::new(true));
    let calls = Arc::new(AtomicU32::new(0));
    let mut ids = Vec::new();
    for at in 0..40 {
        ids.push(stage.enqueue(&at.to_string()).await);
    }
    let breaker = BreakerPolicy { failures: 5, rest_ms: 10_000, rest_ms_max: 60_000 };
    let worker = stage.worker().slots(1).breaker(breaker).handle({
        let (down, calls) = (down.clone(), calls.clone());
        move |_: Note, _: Context| {
            calls.fetch_add(1, Ordering::SeqCst);
            let down = down.load(Ordering::SeqCst);
            async move { if down { Err(Failure::retry("upstream is down")) } else { Ok(()) } }
        }
    });
    let running = stage.start(worker);
    stage.until("the breaker has seen enough", async || calls.load(Ordering::SeqCst) >= 5).await;
    let minute = stage.world().boot_ms() + 60_000;
    while stage.world().boot_ms() < minute {
        stage.world().advance(Duration::from_millis(100)).await;
    }
    let while_down = calls.load(Ordering::SeqCst);
    assert!(while_down <= 12, "{while_down} calls in a minute of failing");
    down.store(false, Ordering::SeqCst);
    for id in ids {
        stage.until_state(id, StateName::Completed).await;
    }
    running.stop().await;
}

/// Fault 31: the worker's clock is two hours off the store's. Only the store's
/// judges; the worker goes by lengths of time.
#[tokio::test]
async fn fault_31_clocks_that_disagree() {
    let stage = Stage::new();
    for skew_ms in [7_200_000, -7_200_000] {
        let workers = stage.world().beside(9);
        workers.jump_wall(skew_ms);
        let id = stage.enqueue("skewed").await;
        let worker = Worker::new(stage.store.clone()).in_world(Arc::new(workers.clone()));
        let done = Arc::new(AtomicBool::new(false));
        let worker = worker.name("skewed").handle({
            let done = done.clone();
            move |_: Note, ctx: Context| {
                let done = done.clone();
                async move {
                    while !done.load(Ordering::SeqCst) {
                        ctx.sleep(Duration::from_millis(500)).await?;
                    }
                    Ok(())
                }
            }
        });
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let running = tokio::spawn(worker.run_until(async move {
            let _ = stopped.await;
        }));
        // Two leases long.
        stage.world().advance(Duration::from_secs(60)).await;
        let job = stage.job(id).await;
        assert_eq!(
            (job.state.name(), job.attempt, job.crashes),
            (StateName::Running, 1, 0),
            "skew {skew_ms}"
        );
        done.store(true, Ordering::SeqCst);
        stage.until_state(id, StateName::Completed).await;
        let _ = stop.send(());
        running.await.unwrap().unwrap();
    }
}

/// A lease whose answer came so late that it has run out is not begun: another may have the job.
#[tokio::test]
async fn a_lease_that_came_too_late_is_not_begun() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let id = stage.enqueue("late").await;
    *faulty.late.lock().unwrap() = Some((stage.world().clone(), Duration::from_secs(31)));
    let begun = Arc::new(AtomicU32::new(0));
    let worker = worker.handle({
        let (faulty, begun) = (faulty.clone(), begun.clone());
        move |_: Note, ctx: Context| {
            begun.fetch_add(1, Ordering::SeqCst);
            let on_time = ctx.fence() > 1 && faulty.late.lock().unwrap().is_none();
            async move { if on_time { Ok(()) } else { Err(Failure::permanent("begun too late")) } }
        }
    });
    let running = stage.start(worker);
    stage.until("the late claim was made", async || !faulty.claims.lock().unwrap().is_empty()).await;
    *faulty.late.lock().unwrap() = None;
    let job = stage.until_state(id, StateName::Completed).await;
    let found = (begun.load(Ordering::SeqCst), job.attempt, job.crashes, job.fence);
    assert_eq!(found, (1, 1, 0, 2), "the first lease was given back unused, which costs no attempt");
    running.stop().await;
}

/// However often the store calls, cancels are asked for at a pace.
#[tokio::test]
async fn cancels_are_asked_for_at_a_pace() {
    let stage = Stage::new();
    let (faulty, worker) = faulty(&stage);
    let worker = worker.slots(1).handle(async |note: Note, ctx: Context| match note.text.as_str() {
        "long" => ctx.sleep(Duration::from_secs(2)).await,
        _ => Ok(()),
    });
    let long = stage.enqueue("long").await;
    let running = stage.start(worker);
    stage.until_state(long, StateName::Running).await;
    for at in 0..500 {
        // Each of these calls every worker.
        stage.enqueue(&format!("{at}")).await;
        stage.world().advance(Duration::from_millis(2)).await;
    }
    let asked = faulty.cancels.load(Ordering::SeqCst);
    assert!((2..=25).contains(&asked), "asked {asked} times within a second");
    stage.until_state(long, StateName::Completed).await;
    running.stop().await;
}
