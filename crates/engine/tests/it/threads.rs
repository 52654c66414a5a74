//! Handlers that hold on to their threads: the engine on a thread of its own, in
//! a world whose time is moved by hand while they spin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use windlass_engine::core::state::StateName;
use windlass_engine::{Context, Failure, Stop, Worker};

use crate::faulty::Faulty;
use crate::stage::{Note, Stage};

/// Fault 33: a handler that never yields is settled without it, and keeps its
/// slot out of use until it ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_33_a_handler_that_never_yields_keeps_its_slot() {
    let stage = Stage::with_threads();
    let go_on = Arc::new(AtomicBool::new(true));
    let stuck = stage.enqueue("spin").await;
    let worker = stage.worker().slots(1).handle_blocking({
        let go_on = go_on.clone();
        move |note: Note, _: Context| {
            while note.text == "spin" && go_on.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            Ok(())
        }
    });
    let running = stage.start(worker);
    stage.until_state(stuck, StateName::Running).await;
    stage.client.cancel(stuck).await.unwrap();
    stage.until_state(stuck, StateName::Canceled).await;
    let next = stage.enqueue("next").await;
    for _ in 0..50 {
        stage.pass().await;
    }
    assert_eq!(stage.job(next).await.state.name(), StateName::Queued, "its slot is not free yet");
    go_on.store(false, Ordering::SeqCst);
    stage.until_state(next, StateName::Completed).await;
    assert_eq!(stage.job(stuck).await.state.name(), StateName::Canceled, "a late end changes nothing");
    running.stop().await;
}

/// Fault 33: handlers that never yield cannot starve the leases.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fault_33_spinning_handlers_do_not_starve_renewals() {
    let stage = Stage::with_threads();
    let faulty = Faulty::new(stage.store.clone());
    let worker = stage.dress(Worker::from_source(faulty.clone()));
    let enough = Arc::new(AtomicBool::new(false));
    let ids = [stage.enqueue("a").await, stage.enqueue("b").await];
    // The handlers spin on a runtime of their own, both of its threads; the
    // test's runtime is left to the test.
    let handlers =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let worker = worker.slots(2).handle({
        let enough = enough.clone();
        move |_: Note, _: Context| {
            let enough = enough.clone();
            async move {
                while !enough.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
                Ok(())
            }
        }
    });
    let ended = handlers.spawn(worker.run_until_idle());
    for id in ids {
        stage.until_state(id, StateName::Running).await;
    }
    stage.until("five renewals", async || faulty.renewals.load(Ordering::SeqCst) >= 5).await;
    enough.store(true, Ordering::SeqCst);
    stage.until("the worker ends", async || ended.is_finished()).await;
    for id in ids {
        let job = stage.job(id).await;
        assert_eq!((job.state.name(), job.attempt, job.crashes), (StateName::Completed, 1, 0));
    }
    handlers.shutdown_background();
}

/// A blocking handler cannot be held still: it is told, and one that ends because of it gives its job back, which costs
/// neither an attempt nor a crash.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocking_handler_is_told_of_an_outage() {
    let stage = Stage::with_threads();
    let line = Faulty::new(stage.store.clone());
    let worker = stage.dress(Worker::from_source(line.clone())).housekeeping(false);
    let id = stage.enqueue("blocking").await;
    let told = Arc::new(AtomicBool::new(false));
    let worker = worker.handle_blocking({
        let told = told.clone();
        move |_: Note, ctx: Context| {
            while ctx.fence() == 1 {
                if let Some(stop) = ctx.stop() {
                    assert_eq!(stop, Stop::LeaseLost);
                    told.store(true, Ordering::SeqCst);
                    return Err(Failure::LeaseLost);
                }
                std::thread::yield_now();
            }
            Ok(())
        }
    });
    let running = stage.start(worker);
    stage.until_state(id, StateName::Running).await;
    line.cut_off.store(true, Ordering::SeqCst);
    stage.until("it is told", async || told.load(Ordering::SeqCst)).await;
    line.cut_off.store(false, Ordering::SeqCst);
    let job = stage.until_state(id, StateName::Completed).await;
    assert_eq!((job.attempt, job.crashes), (1, 0));
    // Time goes on while threads get to run, so a claim may be given back as too late to begin, which costs nothing either.
    assert!(job.fence > 1, "it was claimed anew");
    running.stop().await;
}
