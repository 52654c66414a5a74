//! How it goes: what the overview of the dashboard shows, in one answer.
//!
//! Depths come from the store, which keeps tallies. Rates, latencies and
//! failures come from the events that this server has seen since it started,
//! and from a few jobs that it looked at: they are for charts, not for bills.

use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;
use windlass::core::time::Time;

use super::Api;
use crate::answer::{Answered, Refusal, with_type};
use crate::ask::Ask;
use crate::feed::{Failures, Latency, Throughput};
use crate::schema::Moment;
use crate::view::{BudgetView, QueueView, WorkerView};

/// An answer is given again for this long.
const CACHE_MS: u64 = 1_000;

/// The newest answer, and when it was made.
#[derive(Default)]
pub(crate) struct Cache(Mutex<Option<(u64, bytes::Bytes)>>);

/// How it goes.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stats")]
pub(crate) struct StatsView {
    #[schemars(with = "Moment")]
    at: Time,
    /// Jobs that are queued, in all queues.
    queued: u64,
    /// Jobs that are running, in all queues.
    running: u64,
    workers_alive: usize,
    queues: Vec<QueueView>,
    budgets: Vec<BudgetView>,
    workers: Vec<WorkerView>,
    /// Approximate: what this server has seen since it started.
    throughput: Throughput,
    /// Approximate: of a few jobs each second.
    latency: Latency,
    /// Approximate: of a few failures each second, in the last 15 minutes.
    failures: Vec<Failures>,
}

/// `GET /v1/stats`
pub(crate) async fn get(ask: Ask) -> Answered {
    let now_ms = ask.api.world.boot_ms();
    // Those who ask at the same time wait for one answer.
    let mut cached = ask.api.stats.0.lock().await;
    let fresh = cached.as_ref().filter(|(made_ms, _)| now_ms.saturating_sub(*made_ms) < CACHE_MS);
    let text = match fresh {
        Some((_, text)) => text.clone(),
        None => {
            let text = bytes::Bytes::from(serde_json::to_vec(&view(&ask.api).await?).unwrap_or_default());
            *cached = Some((ask.api.world.boot_ms(), text.clone()));
            text
        }
    };
    Ok(with_type(http::StatusCode::OK, "application/json", text.into()))
}

async fn view(api: &Api) -> Result<StatsView, Refusal> {
    let store = &api.store;
    let (now, queues, budgets, workers) =
        tokio::try_join!(store.now(), store.queues(), store.budgets(), store.workers())?;
    let workers: Vec<WorkerView> = workers.into_iter().map(|worker| WorkerView::new(worker, now)).collect();
    let queues: Vec<QueueView> = queues.into_iter().map(|queue| QueueView::new(queue, now)).collect();
    let (throughput, latency, failures) =
        api.feed.rings(|rings| (rings.throughput(now), rings.latency(now), rings.failures(now)));
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
        failures,
    })
}
