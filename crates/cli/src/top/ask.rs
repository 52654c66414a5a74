//! One look at a store: a few bounded questions.

use std::collections::BTreeMap;

use windlass_engine::core::error::StoreError;
use windlass_engine::core::event::{Position, What};
use windlass_engine::core::id::QueueName;
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{JobFilter, ListRequest, WORKER_ALIVE_MS};
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{EVENTS_MAX, Store};

use super::model::{Failure, Look, Running};
use crate::output::{cut, plain};

/// How many jobs of a state are shown.
const SHOWN: u32 = 20;
/// How many pages of events one look reads; beyond that the charts err on the low side.
const EVENT_PAGES_MAX: usize = 20;

/// Looks at the store. `since` is where the events of the look before ended.
pub async fn look(store: &dyn Store, since: &mut Option<Position>) -> Result<Look, StoreError> {
    let at = store.now().await?;
    let queues = store.queues().await?;
    let workers = store.workers().await?;
    let alive: Vec<_> =
        workers.iter().filter(|worker| at.ms_since(worker.seen_at) <= WORKER_ALIVE_MS).collect();
    let running = jobs(store, StateName::Running).await?;
    let failed = jobs(store, StateName::Failed).await?;
    Ok(Look {
        at,
        queues,
        workers: alive.len(),
        slots: alive.iter().map(|worker| worker.slots).sum(),
        running: running.iter().filter_map(running_of).collect(),
        failures: failed.iter().filter_map(failure_of).collect(),
        happened: happened(store, since).await?,
    })
}

async fn jobs(store: &dyn Store, state: StateName) -> Result<Vec<Job>, StoreError> {
    let filter = JobFilter { states: vec![state], ..JobFilter::default() };
    Ok(store.list(ListRequest { filter, limit: SHOWN, after: None }).await?.jobs)
}

fn running_of(job: &Job) -> Option<Running> {
    let lease = job.lease()?;
    Some(Running {
        id: job.id.to_string(),
        kind: plain(job.spec.kind.as_str()),
        queue: plain(job.spec.queue.as_str()),
        worker: plain(lease.worker.as_str()),
        since: lease.started_at,
        progress: job.progress.as_ref().map(|json| cut(json.as_str(), 40)),
    })
}

fn failure_of(job: &Job) -> Option<Failure> {
    Some(Failure {
        id: job.id.to_string(),
        kind: plain(job.spec.kind.as_str()),
        at: job.state.ended_at()?,
        error: cut(job.last_error().unwrap_or("no reason was given"), 120),
    })
}

async fn happened(
    store: &dyn Store,
    since: &mut Option<Position>,
) -> Result<Option<Vec<(QueueName, What, u64)>>, StoreError> {
    let Some(mut position) = *since else {
        *since = Some(store.events_end().await?);
        return Ok(None);
    };
    let mut counts: BTreeMap<(QueueName, What), u64> = BTreeMap::new();
    for _ in 0..EVENT_PAGES_MAX {
        let events = store.events(Some(position), EVENTS_MAX).await?;
        let Some(last) = events.last() else { break };
        position = last.position;
        let full = events.len() >= EVENTS_MAX as usize;
        for event in events {
            *counts.entry((event.queue, event.what)).or_default() += event.jobs.len() as u64;
        }
        if !full {
            break;
        }
    }
    *since = Some(position);
    Ok(Some(counts.into_iter().map(|((queue, what), count)| (queue, what, count)).collect()))
}
