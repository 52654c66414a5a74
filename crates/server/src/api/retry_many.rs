//! Retrying all jobs that match a filter: in the background, at a pace, so
//! that ten thousand failed jobs do not fall upon an upstream at once.
//!
//! A run lives in this server's memory. When the server ends, the run ends,
//! and asking again goes on: jobs that were retried no longer match.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass::core::error::StoreError;
use windlass::core::id::{JobId, Key, Kind, QueueName};
use windlass::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass::core::state::StateName;
use windlass::core::store::RetryAnswer;
use windlass::core::time::Time;
use windlass::world::new_id;

use super::Api;
use super::list::may_match;
use crate::answer::{Answered, Refusal, json_answer, ok};
use crate::ask::Ask;
use crate::object::Object;
use crate::schema::{Id, KeyText, Moment, Name};

/// Jobs per second when nothing is said.
const PACE_DEFAULT: u32 = 100;
/// How many runs go on at once.
const RUNS_MAX: usize = 4;
/// How many runs are remembered.
const REMEMBERED_MAX: usize = 50;
/// A dry run counts up to this.
const COUNT_MAX: u64 = 10_000;
/// A dry run looks at so many pages at most.
const PAGES_MAX: usize = 200;
/// How many jobs a dry run names.
const SAMPLE_MAX: usize = 10;

/// Which jobs to retry, and how fast.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RetryMany")]
pub(crate) struct RetryManyBody {
    filter: Object<FilterBody>,
    /// Jobs per second; 100 when left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    pace: Option<u32>,
    /// Only count them and name a few.
    #[serde(default)]
    dry_run: Option<bool>,
}

/// Which jobs. Everything that is said must hold.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RetryFilter")]
struct FilterBody {
    /// Final states; `failed` when left out.
    #[serde(default)]
    #[schemars(length(min = 1, max = 3))]
    state: Option<Vec<FinalState>>,
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    queue: Option<QueueName>,
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    kind: Option<Kind>,
    #[serde(default)]
    #[schemars(with = "Option<KeyText>")]
    key: Option<Key>,
    /// Accepted at or after this.
    #[serde(default)]
    #[schemars(with = "Option<Moment>")]
    since: Option<Time>,
    /// Accepted before this.
    #[serde(default)]
    #[schemars(with = "Option<Moment>")]
    until: Option<Time>,
    /// In id, kind, key or payload.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    text: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum FinalState {
    Completed,
    Failed,
    Canceled,
}

impl FilterBody {
    fn filter(self) -> Result<JobFilter, Refusal> {
        let Self { state, queue, kind, key, since, until, text } = self;
        let states = state.unwrap_or_else(|| vec![FinalState::Failed]);
        if states.is_empty() || states.len() > 3 {
            return Err(Refusal::field("filter.state", "must be 1 to 3 states"));
        }
        let name = |state: FinalState| match state {
            FinalState::Completed => StateName::Completed,
            FinalState::Failed => StateName::Failed,
            FinalState::Canceled => StateName::Canceled,
        };
        let states = states.into_iter().map(name).collect();
        Ok(JobFilter { states, queue, kind, key, since, until, text }.checked()?)
    }
}

/// The runs of this server, newest last.
#[derive(Default)]
pub(crate) struct Retries(Mutex<VecDeque<Arc<Run>>>);

struct Run {
    id: Uuid,
    pace: u32,
    started_at: Time,
    ended_ms: AtomicU64,
    looked_at: AtomicU64,
    retried: AtomicU64,
    refused: AtomicU64,
    stopped: AtomicBool,
    failed: AtomicBool,
}

/// A run as it stands.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RetryRun")]
pub(crate) struct RunView {
    #[schemars(with = "Id")]
    id: Uuid,
    /// `running`, `done`, `stopped`, or `failed`: the store could not go on.
    state: &'static str,
    pace: u32,
    #[schemars(with = "Moment")]
    started_at: Time,
    looked_at: u64,
    retried: u64,
    /// Jobs that were no longer final, or whose dedupe key another job has.
    refused: u64,
}

/// What a run would do.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RetryDryRun")]
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
#[schemars(rename = "RetryRuns")]
pub(crate) struct RunsView {
    runs: Vec<RunView>,
}

/// `POST /v1/jobs/retry`
pub(crate) async fn start(ask: Ask) -> Answered {
    let RetryManyBody { filter: Object(filter), pace, dry_run } = ask.body()?;
    let pace = pace.unwrap_or(PACE_DEFAULT);
    if !(1..=10_000).contains(&pace) {
        return Err(Refusal::field("pace", "must be from 1 to 10000 jobs per second"));
    }
    let filter = filter.filter()?;
    if dry_run == Some(true) {
        return count(&ask, filter).await;
    }
    let run = Arc::new(Run {
        id: new_id(&*ask.api.world).0,
        pace,
        started_at: ask.api.now().await?,
        ended_ms: AtomicU64::new(0),
        looked_at: AtomicU64::new(0),
        retried: AtomicU64::new(0),
        refused: AtomicU64::new(0),
        stopped: AtomicBool::new(false),
        failed: AtomicBool::new(false),
    });
    ask.api.retries.add(run.clone())?;
    tracing::info!(run = %run.id, pace, by = ?ask.caller.name, "retrying many");
    tokio::spawn(go(ask.api.clone(), run.clone(), filter));
    json_answer(StatusCode::ACCEPTED, &run.view())
}

/// `GET /v1/retries`
pub(crate) async fn list(ask: Ask) -> Answered {
    let runs = ask.api.retries.lock().iter().rev().map(|run| run.view()).collect();
    ok(&RunsView { runs })
}

/// `GET /v1/retries/{id}`
pub(crate) async fn get(ask: Ask) -> Answered {
    ok(&ask.api.retries.find(ask.id()?)?.view())
}

/// `POST /v1/retries/{id}/stop`
pub(crate) async fn stop(ask: Ask) -> Answered {
    let run = ask.api.retries.find(ask.id()?)?;
    run.stopped.store(true, Ordering::Relaxed);
    ok(&run.view())
}

async fn count(ask: &Ask, filter: JobFilter) -> Answered {
    let text = filter.text.clone();
    let mut request = ListRequest { filter, limit: PAGE_MAX, after: None };
    let mut dry = DryRunView { dry_run: true, matched: 0, capped: true, sample: Vec::new() };
    for _ in 0..PAGES_MAX {
        let page = ask.api.store.list(request.clone()).await?;
        let jobs = page.jobs.iter().filter(|job| may_match(&ask.api, &ask.caller, job, text.as_deref()));
        for job in jobs {
            dry.matched += 1;
            if dry.sample.len() < SAMPLE_MAX {
                dry.sample.push(job.id);
            }
        }
        request.after = page.next;
        if page.next.is_none() {
            dry.capped = false;
            break;
        }
        if dry.matched >= COUNT_MAX {
            break;
        }
    }
    ok(&dry)
}

/// Goes through the jobs from the newest to the oldest. Jobs that fail again
/// meanwhile keep their place, so each is retried once.
async fn go(api: Arc<Api>, run: Arc<Run>, filter: JobFilter) {
    if let Err(error) = retry_all(&api, &run, filter).await {
        tracing::warn!(run = %run.id, code = error.code(), %error, "retrying many ended early");
        run.failed.store(true, Ordering::Relaxed);
    }
    run.ended_ms.store(api.world.boot_ms().max(1), Ordering::Relaxed);
    tracing::info!(run = %run.id, retried = run.retried.load(Ordering::Relaxed), "retrying many ended");
}

async fn retry_all(api: &Api, run: &Run, filter: JobFilter) -> Result<(), StoreError> {
    let began_ms = api.world.boot_ms();
    let mut request = ListRequest { filter, limit: PAGE_MAX, after: None };
    loop {
        let page = api.store.list(request.clone()).await?;
        for job in page.jobs {
            if run.stopped.load(Ordering::Relaxed) || *api.stop.borrow() {
                run.stopped.store(true, Ordering::Relaxed);
                return Ok(());
            }
            let done = run.looked_at.fetch_add(1, Ordering::Relaxed);
            let due_ms = began_ms + done * 1_000 / u64::from(run.pace);
            let early_ms = due_ms.saturating_sub(api.world.boot_ms());
            if early_ms > 0 {
                api.world.sleep_ms(early_ms).await;
            }
            let counter = match api.store.retry(job.id).await? {
                RetryAnswer::Retried => &run.retried,
                RetryAnswer::NotFinal | RetryAnswer::Taken(_) | RetryAnswer::NotFound => &run.refused,
            };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        request.after = page.next;
        if page.next.is_none() {
            return Ok(());
        }
    }
}

impl Retries {
    fn add(&self, run: Arc<Run>) -> Result<(), Refusal> {
        let mut runs = self.lock();
        if runs.iter().filter(|run| run.is_going()).count() >= RUNS_MAX {
            let message = format!("{RUNS_MAX} such runs are going on; wait for one to end, or stop one");
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "too_many_runs", message).retry_after(10));
        }
        while runs.len() >= REMEMBERED_MAX {
            let Some(oldest) = runs.iter().position(|run| !run.is_going()) else { break };
            runs.remove(oldest);
        }
        runs.push_back(run);
        Ok(())
    }

    fn find(&self, id: JobId) -> Result<Arc<Run>, Refusal> {
        let found = self.lock().iter().find(|run| run.id == id.0).cloned();
        found.ok_or_else(|| Refusal::not_found("run; runs are forgotten when the server restarts"))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<Run>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    fn is_going(&self) -> bool {
        self.ended_ms.load(Ordering::Relaxed) == 0
    }

    fn view(&self) -> RunView {
        let state = if self.is_going() {
            "running"
        } else if self.failed.load(Ordering::Relaxed) {
            "failed"
        } else if self.stopped.load(Ordering::Relaxed) {
            "stopped"
        } else {
            "done"
        };
        RunView {
            id: self.id,
            state,
            pace: self.pace,
            started_at: self.started_at,
            looked_at: self.looked_at.load(Ordering::Relaxed),
            retried: self.retried.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }
}
