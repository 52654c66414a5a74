//! Workers that end by themselves: after so many jobs, or when nothing is due.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use windlass_engine::core::time::Clock;
use windlass_engine::{Context, Failure, JobRequest, StateName, Summary, Worker};

use crate::stage::{Note, Stage, note};

async fn nothing(_: Note, _: Context) -> Result<(), Failure> {
    Ok(())
}

async fn never(worker: Worker) -> Summary {
    worker.run_until(std::future::pending()).await.unwrap()
}

async fn completed(stage: &Stage, ids: &[windlass_engine::JobId]) -> usize {
    let mut count = 0;
    for id in ids {
        count += usize::from(stage.job(*id).await.state.name() == StateName::Completed);
    }
    count
}

/// Neither its slots nor what the store could hand over let it take more.
#[tokio::test]
async fn so_many_jobs_and_no_more() {
    for (slots, most) in [(10, 3), (1, 3), (2, 7), (3, 1)] {
        let stage = Stage::new();
        let mut ids = Vec::new();
        for n in 0..10 {
            ids.push(stage.enqueue(&n.to_string()).await);
        }
        let worker = stage.worker().slots(slots).jobs_max(most).handle(nothing);
        let Summary { claimed, settled, .. } = never(worker).await;
        assert_eq!((claimed, settled), (most, most), "{slots} slots");
        assert_eq!(completed(&stage, &ids).await as u64, most, "the others wait for somebody else");
    }
}

/// They are of all its queues together.
#[tokio::test]
async fn so_many_of_all_queues_together() {
    let stage = Stage::new();
    for n in 0..10 {
        let queue = if n % 2 == 0 { "slow" } else { "default" };
        stage.client.enqueue(JobRequest::new("note", note("n"))).queue(queue).await.unwrap();
    }
    let worker = stage.worker().slots(4).queue("slow", 4).jobs_max(5).handle(nothing);
    assert_eq!(never(worker).await.settled, 5);
}

/// It waits for its jobs, also for those that come later, and lets each of them end by itself.
#[tokio::test]
async fn what_is_missing_is_waited_for() {
    let stage = Stage::new();
    let first = stage.enqueue("now").await;
    let second = stage.enqueue_with("later", |job| job.delay(Duration::from_secs(3_600))).await;
    let third = stage.enqueue_with("too late", |job| job.delay(Duration::from_secs(7_200))).await;
    let stops = Arc::new(AtomicUsize::new(0));
    let worker = stage.worker().jobs_max(2).state(stops.clone()).handle(
        async |_: Note, ctx: Context<Arc<AtomicUsize>>| -> Result<(), Failure> {
            ctx.sleep(Duration::from_secs(60)).await?;
            ctx.state().fetch_add(usize::from(ctx.stop().is_some()), Ordering::SeqCst);
            Ok(())
        },
    );
    let summary = worker.run_until(std::future::pending()).await.unwrap();
    assert_eq!((summary.settled, completed(&stage, &[first, second]).await), (2, 2));
    assert_eq!(stage.job(third).await.state.name(), StateName::Queued);
    assert_eq!(stops.load(Ordering::SeqCst), 0, "nobody was told to stop");
}

/// A claim that gives less than was asked for uses up no more than it gave.
#[tokio::test]
async fn jobs_one_by_one_count_one_each() {
    let stage = Stage::new();
    let client = stage.client.clone();
    client.enqueue(note("3")).await.unwrap();
    let worker = stage.worker().jobs_max(4).state(client).handle(
        async |job: Note, ctx: Context<windlass_engine::Client>| -> Result<(), Failure> {
            let left: u32 = job.text.parse()?;
            if let Some(next) = left.checked_sub(1) {
                ctx.state().enqueue(note(&next.to_string())).await?;
            }
            Ok(())
        },
    );
    assert_eq!(worker.run_until(std::future::pending()).await.unwrap().settled, 4);
}

/// What becomes due later is left for the next worker; one that waits until idle would wait for it.
#[tokio::test]
async fn nothing_due_is_the_end() {
    let stage = Stage::new();
    stage.policy(|policy| policy.ladder = "1h".parse().unwrap()).await;
    let begun = stage.world().boot_ms();
    let flaky = stage.enqueue("flaky").await;
    let later = stage.enqueue_with("later", |job| job.delay(Duration::from_secs(7_200))).await;
    let worker = stage.worker().due_only().jobs_max(5);
    let worker = worker.handle(async |_: Note, _: Context| -> Result<(), Failure> { Err("not yet")? });
    assert_eq!(never(worker).await.settled, 1);
    for id in [flaky, later] {
        assert_eq!(stage.job(id).await.state.name(), StateName::Queued);
    }
    assert!(stage.world().boot_ms() - begun < 3_600_000, "it has not waited for the ladder");
    // With nothing at all it ends at once.
    assert_eq!(never(stage.worker().due_only().handle(nothing)).await, Summary::default());
}

#[tokio::test]
async fn no_jobs_at_all_make_no_worker() {
    let stage = Stage::new();
    let refused = stage.worker().jobs_max(0).handle(nothing).run_until_idle().await.unwrap_err();
    assert!(refused.to_string().contains("jobs_max"), "{refused}");
}
