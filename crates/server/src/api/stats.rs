//! How it goes: what the overview of the dashboard shows, in one answer.
//!
//! Depths come from the store, which keeps tallies. Rates, latencies and
//! failures come from the events that this server has seen,
//! and from some of the jobs that they name: they are for charts, not for bills.
//! Rates are kept by the minute for a day, beside the jobs; latencies of the last minutes and failures begin with the server.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;
use windlass_engine::core::id::QueueName;
use windlass_engine::core::time::Time;
use windlass_report::schema::Moment;
use windlass_report::view::{BudgetView, QueueView, WorkerView};

use super::Api;
use super::workers::seen;
use crate::answer::{Answered, Refusal, ok};
use crate::ask::Ask;
use crate::feed::{FAILURES_MS, Failures, Latency, LatencyPoints, Span, Throughput};

/// An answer is given again for this long.
const CACHE_MS: u64 = 1_000;

/// The newest answer.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Option<Made>>);

struct Made {
    at_ms: u64,
    /// How many events had been told by then.
    told: u64,
    view: Arc<StatsView>,
}

/// How it goes.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stats")]
pub(crate) struct StatsView {
    #[schemars(with = "Moment")]
    pub at: Time,
    /// Jobs that are queued, in all queues.
    pub queued: u64,
    /// Jobs that are running, in all queues.
    pub running: u64,
    pub workers_alive: usize,
    pub queues: Vec<QueueView>,
    pub budgets: Vec<BudgetView>,
    pub workers: Vec<WorkerView>,
    /// Approximate: what this server has seen since it started.
    pub throughput: Throughput,
    /// Approximate: of a few jobs each second.
    pub latency: Latency,
    /// The same over time: 95 of a hundred were not slower.
    pub latency_points: LatencyPoints,
    /// Those of the last 15 minutes, counted; where there are many, `estimated` from some of them.
    pub failures: Vec<Failures>,
    /// How far back the failures go.
    pub failures_ms: u64,
}

impl StatsView {
    /// Whether there is nothing to show: no queue, no budget, no worker, nothing seen.
    pub(crate) fn is_blank(&self) -> bool {
        let idle =
            self.queued + self.running == 0 && self.throughput.enqueued.iter().all(|rate| *rate == 0.0);
        idle && self.latency.samples == 0 && self.failures.is_empty() && self.workers_alive == 0
    }
}

/// `GET /v1/stats`
pub(crate) async fn get(ask: Ask) -> Answered {
    ok(&*current(&ask.api).await?)
}

/// `GET /v1/stats/history`
pub(crate) async fn history(ask: Ask) -> Answered {
    let (mut queue, mut span) = (None, Span::Hour);
    for (name, value) in ask.query(&["queue", "span"], &[])? {
        match name.as_str() {
            "queue" => queue = Some(value.parse::<QueueName>()?),
            _ => span = Span::named(&value).ok_or_else(|| Refusal::field("span", "is one of 1h, 6h, 24h"))?,
        }
    }
    let now = ask.api.now().await?;
    ok(&ask.api.feed.rings(|rings| rings.history.points(queue.as_ref(), span, now)))
}

/// How it goes. An answer is good until something happens, and a second at
/// most; those who ask at the same time wait for one.
pub(crate) async fn current(api: &Api) -> Result<Arc<StatsView>, Refusal> {
    let mut cached = api.stats.0.lock().await;
    let told = api.feed.told();
    let now_ms = api.world.boot_ms();
    let is_fresh = |made: &Made| made.told == told && now_ms.saturating_sub(made.at_ms) < CACHE_MS;
    if let Some(made) = cached.as_ref().filter(|made| is_fresh(made)) {
        return Ok(made.view.clone());
    }
    let view = Arc::new(view(api).await?);
    *cached = Some(Made { at_ms: api.world.boot_ms(), told, view: view.clone() });
    Ok(view)
}

async fn view(api: &Api) -> Result<StatsView, Refusal> {
    let store = &api.store;
    let (now, queues, budgets, workers) =
        tokio::try_join!(store.now(), store.queues(), store.budgets(), store.workers())?;
    let workers = seen(api, workers, now);
    let queues: Vec<QueueView> = queues.into_iter().map(|queue| QueueView::new(queue, now)).collect();
    let (throughput, latency, latency_points, failures) = api.feed.rings(|rings| {
        (rings.throughput(now), rings.latency(now), rings.latency_points(now), rings.failures(now))
    });
    Ok(StatsView {
        at: now,
        queued: queues.iter().map(|queue| queue.depth).sum(),
        running: queues.iter().map(|queue| queue.running).sum(),
        workers_alive: workers.iter().filter(|worker| worker.alive).count(),
        queues,
        budgets: budgets.into_iter().map(|budget| BudgetView::new(budget, now)).collect(),
        workers,
        throughput,
        latency,
        latency_points,
        failures,
        failures_ms: FAILURES_MS.unsigned_abs(),
    })
}
