//! Cancel, timeout, shutdown: told, waited for, stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{CancelAnswer, Store};
use windlass_engine::{Context, Failure, Stop};

use crate::stage::{Note, Stage};

/// A canceled job that listens ends at once.
#[tokio::test]
async fn cancel_is_heard_at_once() {
    let stage = Stage::new();
    let id = stage.enqueue("listens").await;
    let worker = stage.worker().handle(async |_: Note, ctx: Context| {
        ctx.canceled().await;
        ctx.go_on().await
    });
    let running = stage.start(worker);
    stage.until_state(id, StateName::Running).await;
    let asked = stage.store.now().await.unwrap();
    assert_eq!(stage.client.cancel(id).await.unwrap(), CancelAnswer::Requested);
    let job = stage.until_state(id, StateName::Canceled).await;
    let took = job.state.ended_at().unwrap().ms_since(asked);
    assert!(took < 1_000, "took {took} ms");
    assert_eq!(running.stop().await.stuck, 0);
}

/// One that does not listen is stopped when its grace is over: its future is dropped.
#[tokio::test]
async fn cancel_ends_with_the_grace() {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let stage = Stage::new();
    let dropped = Arc::new(AtomicBool::new(false));
    let id = stage.enqueue("deaf").await;
    let worker = stage.worker().handle({
        let dropped = dropped.clone();
        move |_: Note, _: Context| {
            let guard = Dropped(dropped.clone());
            async move {
                let _guard = guard;
                std::future::pending::<()>().await;
                Ok(())
            }
        }
    });
    let running = stage.start(worker);
    stage.until_state(id, StateName::Running).await;
    let asked = stage.store.now().await.unwrap();
    stage.client.cancel(id).await.unwrap();
    let job = stage.until_state(id, StateName::Canceled).await;
    let took = job.state.ended_at().unwrap().ms_since(asked);
    assert!((10_000..11_000).contains(&took), "took {took} ms");
    stage.until("the future is dropped", async || dropped.load(Ordering::SeqCst)).await;
    assert_eq!(running.stop().await.stuck, 1);
}

#[tokio::test]
async fn a_timeout_costs_an_attempt() {
    let stage = Stage::new();
    stage.policy(|policy| policy.ladder = "1s".parse().unwrap()).await;
    let id = stage.enqueue_with("slow", |job| job.timeout(Duration::from_secs(5))).await;
    let worker = stage.worker().grace(Duration::from_secs(2)).handle(async |_: Note, ctx: Context| {
        if ctx.attempt() == 1 {
            // Deaf the first time, polite the second.
            std::future::pending::<()>().await;
        }
        ctx.stopping().await;
        assert_eq!(ctx.stop(), Some(Stop::Timeout));
        ctx.go_on().await
    });
    let running = stage.start(worker);
    let job = stage.until_state(id, StateName::Failed).await;
    running.stop().await;
    let errors: Vec<_> = job.history.iter().map(|entry| entry.error.clone().unwrap()).collect();
    assert_eq!(errors, ["timed out after 5000 ms", "timed out after 5000 ms"]);
    let first = &job.history[0];
    let took = first.at.ms_since(first.started_at.unwrap());
    assert!((7_000..8_000).contains(&took), "timeout and grace took {took} ms");
}

/// Fault 53: a shutdown tells the handlers, waits, gives back what still runs
/// without costing it an attempt, and keeps the leases to the end.
#[tokio::test]
async fn fault_53_shutdown_releases_what_still_runs() {
    let stage = Stage::new();
    let polite = stage.enqueue("polite").await;
    let deaf = stage.enqueue("deaf").await;
    let waiting = stage.enqueue_with("waiting", |job| job.delay(Duration::from_secs(3600))).await;
    let worker = stage.worker().slots(2).handle(async |note: Note, ctx: Context| {
        if note.text == "deaf" {
            std::future::pending::<()>().await;
        }
        ctx.stopping().await;
        Err::<(), _>(Failure::Released)
    });
    let running = stage.start(worker);
    stage.until_state(polite, StateName::Running).await;
    stage.until_state(deaf, StateName::Running).await;
    let summary = running.stop().await;
    assert_eq!((summary.claimed, summary.settled, summary.lost), (2, 2, 0));
    for id in [polite, deaf, waiting] {
        let job = stage.job(id).await;
        assert_eq!((job.state.name(), job.attempt, job.crashes), (StateName::Queued, 0, 0));
    }
    let took = stage.job(deaf).await.run_at.ms_since(stage.job(polite).await.run_at);
    assert!((9_000..11_000).contains(&took), "the deaf one was waited for {took} ms");
}

/// A handler that finishes within the grace period of a shutdown has finished.
#[tokio::test]
async fn shutdown_lets_handlers_finish() {
    let stage = Stage::new();
    let id = stage.enqueue("finishes").await;
    let worker = stage.worker().handle(async |_: Note, ctx: Context| {
        ctx.stopping().await;
        Ok(())
    });
    let running = stage.start(worker);
    stage.until_state(id, StateName::Running).await;
    running.stop().await;
    assert_eq!(stage.job(id).await.state.name(), StateName::Completed);
}

/// A program may run a worker for each request that it gets: what they registered at the store goes with them.
#[tokio::test]
async fn workers_that_have_ended_leave_nothing_at_the_store() {
    let stage = Stage::new();
    for _ in 0..1_000 {
        let worker = stage.worker().handle(async |_: Note, _: Context| Ok(()));
        worker.run_until_idle().await.unwrap();
    }
    assert_eq!(stage.store.registered(), 0);
}
