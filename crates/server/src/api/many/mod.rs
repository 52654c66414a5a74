//! Retrying, canceling, running now or deleting all jobs that match a filter: in the background, at a
//! pace, so that ten thousand failed jobs do not fall upon an upstream at once.
//!
//! A run lives in this server's memory. When the server ends, the run ends,
//! and asking again goes on: jobs that it was done to no longer match.

mod filter;
mod run;

use std::sync::Arc;

use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_engine::core::id::JobId;
use windlass_engine::core::query::PAGE_MAX;
use windlass_engine::core::state::StateName;
use windlass_engine::world::new_id;
use windlass_report::schema::Id;
use windlass_report::search::{self, Wanted};

use super::list::may_match;
use crate::answer::{Answered, Refusal, json_answer, ok};
use crate::ask::Ask;
use crate::object::Object;

pub(crate) use filter::{FinalState, LiveState, ManyBody, QueuedState, RestingState};
use run::{Run, Verb, go};
pub(crate) use run::{RunView, Runs};

/// Jobs per second when nothing is said.
const PACE_DEFAULT: u32 = 100;
/// A dry run counts up to this.
const COUNT_MAX: u64 = 10_000;
/// A dry run looks at so many pages at most.
const PAGES_MAX: usize = 200;
/// How many jobs a dry run names.
const SAMPLE_MAX: usize = 10;

/// What a run would do.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DryRun")]
pub(crate) struct DryRunView {
    dry_run: bool,
    /// How many match.
    matched: u64,
    /// There may be more: the count ended at 10,000, or after as many looks as one call may take.
    capped: bool,
    /// Some of them, newest first.
    #[schemars(with = "Vec<Id>")]
    sample: Vec<JobId>,
}

/// The runs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Runs")]
pub(crate) struct RunsView {
    runs: Vec<RunView>,
}

/// `POST /v1/jobs/retry`
pub(crate) async fn retry(ask: Ask) -> Answered {
    start::<FinalState>(&ask, Verb::Retry, &[StateName::Failed]).await
}

/// `POST /v1/jobs/cancel`
pub(crate) async fn cancel(ask: Ask) -> Answered {
    start::<LiveState>(&ask, Verb::Cancel, &[StateName::Queued, StateName::Running]).await
}

/// `POST /v1/jobs/run`
pub(crate) async fn run_now(ask: Ask) -> Answered {
    start::<QueuedState>(&ask, Verb::Run, &[StateName::Queued]).await
}

/// `POST /v1/jobs/delete`
pub(crate) async fn delete(ask: Ask) -> Answered {
    start::<RestingState>(&ask, Verb::Delete, &[]).await
}

/// Begins a run over jobs in the states of `S`, in `default` when none are said.
async fn start<S>(ask: &Ask, verb: Verb, default: &[StateName]) -> Answered
where
    S: DeserializeOwned + Into<StateName>,
{
    let ManyBody::<S> { filter: Object(filter), pace, dry_run } = ask.body()?;
    let wanted = filter.wanted(default)?;
    let pace = pace.unwrap_or(PACE_DEFAULT);
    if !(1..=10_000).contains(&pace) {
        return Err(Refusal::field("pace", "must be from 1 to 10000 jobs per second"));
    }
    if dry_run == Some(true) {
        return count(ask, &wanted).await;
    }
    let id = new_id(&*ask.api.world).0;
    let run = Arc::new(Run::new(id, verb, pace, ask.api.now().await?));
    ask.api.runs.add(run.clone())?;
    tracing::info!(run = %id, ?verb, pace, by = ?ask.caller.name, "a run over many begins");
    tokio::spawn(go(ask.api.clone(), run.clone(), wanted));
    json_answer(StatusCode::ACCEPTED, &run.view())
}

/// `GET /v1/retries`
pub(crate) async fn list(ask: Ask) -> Answered {
    ok(&RunsView { runs: ask.api.runs.views() })
}

/// `GET /v1/retries/{id}`
pub(crate) async fn get(ask: Ask) -> Answered {
    ok(&ask.api.runs.find(ask.id()?)?.view())
}

/// `POST /v1/retries/{id}/stop`
pub(crate) async fn stop(ask: Ask) -> Answered {
    let run = ask.api.runs.find(ask.id()?)?;
    run.stop();
    ok(&run.view())
}

async fn count(ask: &Ask, wanted: &Wanted) -> Answered {
    let mut dry = DryRunView { dry_run: true, matched: 0, capped: true, sample: Vec::new() };
    let mut after = None;
    for _ in 0..PAGES_MAX {
        let page = search::page(&*ask.api.store, wanted, PAGE_MAX, after).await?;
        let jobs = page.jobs.iter().filter(|job| may_match(&ask.api, &ask.caller, job, wanted));
        for job in jobs {
            dry.matched += 1;
            if dry.sample.len() < SAMPLE_MAX {
                dry.sample.push(job.id);
            }
        }
        after = page.next;
        if after.is_none() {
            dry.capped = false;
            break;
        }
        if dry.matched >= COUNT_MAX {
            break;
        }
    }
    ok(&dry)
}
