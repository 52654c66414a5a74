//! `windlass serve --sample`: a worker inside the server and a modest stream
//! of jobs, so that every page of the dashboard has something to show.
//!
//! Its kinds, queues, budget and schedule all begin with `sample`, its
//! finished jobs are kept for a day, and the stream waits while jobs pile up.

mod jobs;
mod stage;
mod stream;

use std::sync::Arc;

use anyhow::Context as _;
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_engine::Worker;
use windlass_engine::core::id::{BudgetName, Kind, QueueName, ScheduleName};
use windlass_engine::core::job::JobSpec;
use windlass_engine::core::json::Json;
use windlass_engine::core::policy::budget::BudgetPolicy;
use windlass_engine::core::policy::queue::QueuePolicy;
use windlass_engine::core::policy::schedule::{Missed, Overlap, SchedulePolicy};
use windlass_engine::core::query::{WORKER_ALIVE_MS, WorkerStatus};
use windlass_engine::core::store::Store;

pub use stage::Stage;

/// The queue of quick jobs.
const QUICK: &str = "sample";
/// The queue of slow jobs: two at once.
const SLOW: &str = "sample-slow";
/// What calls to an upstream cost.
const BUDGET: &str = "sample-api";
/// The worker's name.
const WORKER: &str = "sample-worker";
/// The worker's own slots.
const SLOTS: usize = 6;
/// Finished jobs that are kept.
const FINISHED_MAX: u64 = 5_000;

/// The kinds of its jobs.
pub fn kinds() -> anyhow::Result<Vec<Kind>> {
    jobs::KINDS.iter().map(|kind| Ok(Kind::new(*kind)?)).collect()
}

/// Runs the sample until `stop` is true.
async fn run(store: Arc<dyn Store>, stop: watch::Receiver<bool>) {
    if let Err(error) = prepare(&*store).await {
        tracing::warn!("the sample did not start: {error:#}");
        return;
    }
    match rival(&*store).await {
        Ok(None) => {}
        Ok(Some(name)) => {
            tracing::warn!("the sample did not start: the worker {name} knows its kinds; stop it first");
            return;
        }
        Err(error) => {
            tracing::warn!("the sample did not start: {error:#}");
            return;
        }
    }
    let mut tasks = JoinSet::new();
    let worker = jobs::handlers(Worker::new(store.clone()))
        .name(WORKER)
        .queues([QUICK, SLOW])
        .slots(SLOTS)
        .housekeeping(false);
    let ended = stopped(stop.clone());
    tasks.spawn(async move {
        if let Err(error) = worker.run_until(ended).await {
            tracing::warn!("the worker of the sample ended: {error}");
        }
    });
    tasks.spawn(async move {
        tokio::select! {
            error = stream::run(store) => tracing::warn!("the stream of the sample ended: {error:#}"),
            () = stopped(stop) => {}
        }
    });
    tasks.join_all().await;
}

async fn stopped(mut stop: watch::Receiver<bool>) {
    // Whoever could say so has gone: that is a stop, too.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A living worker of somebody else that would get jobs of the sample.
async fn rival(store: &dyn Store) -> anyhow::Result<Option<String>> {
    let now = store.now().await?;
    let knows = |worker: &WorkerStatus| match &worker.kinds {
        Some(kinds) => kinds.iter().any(|kind| jobs::KINDS.contains(&kind.as_str())),
        None => worker.queues.iter().any(|queue| [QUICK, SLOW].contains(&queue.as_str())),
    };
    let workers = store.workers().await?.into_iter();
    let mut others = workers.filter(|worker| worker.name.as_str() != WORKER && knows(worker));
    let alive = others.find(|worker| now.ms_since(worker.seen_at) <= WORKER_ALIVE_MS);
    Ok(alive.map(|worker| worker.name.to_string()))
}

/// Policies, a budget and a schedule; setting them again changes nothing.
async fn prepare(store: &dyn Store) -> anyhow::Result<()> {
    let policy = |limit| -> anyhow::Result<QueuePolicy> {
        Ok(QueuePolicy {
            limit: Some(limit),
            ladder: "3s 8s 20s".parse()?,
            retention_days: 1,
            finished_max: FINISHED_MAX,
            ..QueuePolicy::default()
        })
    };
    store.put_queue(QueueName::new(QUICK)?, policy(4)?).await?;
    store.put_queue(QueueName::new(SLOW)?, policy(2)?).await?;
    let budget =
        BudgetPolicy { slots: Some(2), per_second: Some(2), per_minute: Some(100), per_day: Some(20_000) };
    store.put_budget(BudgetName::new(BUDGET)?, budget).await?;
    let report =
        JobSpec::new(Kind::new(jobs::REPORT)?, QueueName::new(SLOW)?, Json::payload(r#"{"rows": 12}"#)?);
    let schedule = SchedulePolicy {
        cron: "* * * * *".into(),
        zone: "Europe/Berlin".into(),
        overlap: Overlap::Skip,
        missed: Missed::Skip,
        paused: false,
        job: report,
    };
    store
        .put_schedule(ScheduleName::new("sample-report")?, schedule)
        .await
        .context("the schedule of the sample")?;
    Ok(())
}
