//! How jobs, queues, budgets, schedules and workers look on the way.
//!
//! Every field that the API gives and the core knows is taken over. What the
//! API keeps to itself (places in the order of acceptance, buckets of budgets)
//! stays empty.

use serde::{Deserialize, Serialize};
use windlass_core::event::What;
use windlass_core::id::{BudgetName, DedupeKey, JobId, Key, Kind, QueueName, ScheduleName, WorkerName};
use windlass_core::job::{Entry, Job, JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::policy::budget::{Budget, BudgetPolicy, Used};
use windlass_core::policy::ladder::RetryRule;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::policy::schedule::{Missed, Overlap, Schedule, SchedulePolicy};
use windlass_core::query::QueueStatus;
use windlass_core::state::{FailureReason, Lease, State, StateName};
use windlass_core::step::Step;
use windlass_core::store::BudgetStatus;
use windlass_core::time::{Span, Time};

/// The content of a job.
#[derive(Serialize, Deserialize)]
pub(crate) struct SpecWire {
    kind: Kind,
    queue: QueueName,
    payload: Option<Json>,
    priority: i16,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<Key>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    dedupe_key: Option<DedupeKey>,
    budgets: Vec<BudgetName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry: Option<RetryRule>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    meta: Option<Json>,
}

impl From<JobSpec> for SpecWire {
    fn from(spec: JobSpec) -> Self {
        let JobSpec { kind, queue, payload, priority, key, dedupe_key, budgets, retry, timeout_ms, meta } =
            spec;
        let timeout = timeout_ms.map(Span::from_ms);
        let payload = Some(payload);
        Self { kind, queue, payload, priority, key, dedupe_key, budgets, retry, timeout, meta }
    }
}

impl From<SpecWire> for JobSpec {
    fn from(wire: SpecWire) -> Self {
        let SpecWire { kind, queue, payload, priority, key, dedupe_key, budgets, retry, timeout, meta } =
            wire;
        let payload = payload.unwrap_or_else(Json::null);
        let timeout_ms = timeout.map(Span::ms);
        Self { kind, queue, payload, priority, key, dedupe_key, budgets, retry, timeout_ms, meta }
    }
}

/// Jobs to be enqueued.
#[derive(Serialize)]
pub(crate) struct NewJobsWire {
    pub(crate) jobs: Vec<NewJobWire>,
}

/// A job to be enqueued.
#[derive(Serialize)]
pub(crate) struct NewJobWire {
    id: JobId,
    #[serde(flatten)]
    spec: SpecWire,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Span>,
}

impl From<NewJob> for NewJobWire {
    fn from(new: NewJob) -> Self {
        let NewJob { id, spec, start } = new;
        let (run_at, delay) = match start {
            Start::Now => (None, None),
            Start::At(at) => (Some(at), None),
            Start::AfterMs(ms) => (None, Some(Span::from_ms(ms))),
        };
        Self { id, spec: spec.into(), run_at, delay }
    }
}

/// A job in an answer. Its content is spelled out again: raw JSON does not
/// come through a flattened struct.
#[derive(Deserialize)]
pub(crate) struct JobWire {
    id: JobId,
    kind: Kind,
    queue: QueueName,
    payload: Option<Json>,
    priority: i16,
    key: Option<Key>,
    dedupe_key: Option<DedupeKey>,
    budgets: Vec<BudgetName>,
    retry: Option<RetryRule>,
    timeout: Option<Span>,
    meta: Option<Json>,
    state: StateName,
    run_at: Time,
    created_at: Time,
    started_at: Option<Time>,
    ended_at: Option<Time>,
    attempt: u32,
    crashes: u32,
    retries: u32,
    fence: u64,
    failure_reason: Option<FailureReason>,
    error: Option<String>,
    worker: Option<WorkerName>,
    lease: Option<Lease>,
    progress: Option<Json>,
    result: Option<Json>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    timeline: Vec<HappenedWire>,
    #[serde(default)]
    attempts: Vec<AttemptWire>,
}

/// An attempt that has ended, or runs.
#[derive(Deserialize)]
struct AttemptWire {
    attempt: u32,
    fence: u64,
    started_at: Option<Time>,
    ended_at: Option<Time>,
}

/// One thing that happened.
#[derive(Deserialize)]
struct HappenedWire {
    at: Time,
    what: String,
    attempt: Option<u32>,
    worker: Option<WorkerName>,
    error: Option<String>,
}

impl JobWire {
    pub(crate) fn job(self) -> Job {
        let history = self.history();
        let state = self.state();
        let Self {
            id, kind, queue, payload, priority, key, dedupe_key, budgets, retry, timeout, meta, ..
        } = self;
        let spec =
            SpecWire { kind, queue, payload, priority, key, dedupe_key, budgets, retry, timeout, meta };
        let (run_at, created_at, started_at) = (self.run_at, self.created_at, self.started_at);
        let (attempt, crashes, retries, fence) = (self.attempt, self.crashes, self.retries, self.fence);
        let (worker, progress, steps) = (self.worker, self.progress, self.steps);
        Job {
            id,
            seq: 0,
            spec: spec.into(),
            rank: 0,
            created_at,
            run_at,
            state,
            attempt,
            crashes,
            fence,
            retries,
            started_at,
            worker,
            progress,
            steps,
            history,
        }
    }

    fn state(&self) -> State {
        let ended_at = self.ended_at.unwrap_or(self.created_at);
        match (self.state, &self.lease) {
            (StateName::Running, Some(lease)) => State::Running(lease.clone()),
            (StateName::Queued | StateName::Running, _) => State::Queued,
            (StateName::Completed, _) => State::Completed { ended_at, result: self.result.clone() },
            (StateName::Failed, _) => {
                State::Failed { ended_at, reason: self.failure_reason.unwrap_or(FailureReason::Permanent) }
            }
            (StateName::Canceled, _) => State::Canceled { ended_at },
        }
    }

    /// What ended the attempts. A list has no timeline, only the newest error.
    fn history(&self) -> Vec<Entry> {
        let of = |happened: &HappenedWire| {
            let ended = |attempt: &&AttemptWire| {
                Some(attempt.attempt) == happened.attempt && attempt.ended_at == Some(happened.at)
            };
            self.attempts.iter().find(ended)
        };
        let entry = |happened: &HappenedWire| {
            let what = What::ALL.into_iter().find(|what| what.as_str() == happened.what)?;
            let is_end = !matches!(what, What::Enqueued | What::Claimed | What::Completed);
            is_end.then(|| Entry {
                at: happened.at,
                what,
                attempt: happened.attempt.unwrap_or(0),
                fence: of(happened).map_or(0, |attempt| attempt.fence),
                worker: happened.worker.clone(),
                started_at: of(happened).and_then(|attempt| attempt.started_at),
                error: happened.error.clone(),
            })
        };
        let history: Vec<Entry> = self.timeline.iter().filter_map(entry).collect();
        match (&self.error, history.is_empty()) {
            (Some(error), true) => vec![Entry {
                at: self.ended_at.unwrap_or(self.run_at),
                what: if self.state == StateName::Failed { What::Failed } else { What::Retrying },
                attempt: self.attempt,
                fence: self.fence,
                worker: self.worker.clone(),
                started_at: self.started_at,
                error: Some(error.clone()),
            }],
            _ => history,
        }
    }
}

/// A queue in an answer.
#[derive(Deserialize)]
pub(crate) struct QueueWire {
    name: QueueName,
    policy: QueuePolicy,
    paused: bool,
    depth: u64,
    running: u64,
    oldest_due_at: Option<Time>,
}

impl From<QueueWire> for QueueStatus {
    fn from(wire: QueueWire) -> Self {
        let QueueWire { name, policy, paused, depth, running, oldest_due_at } = wire;
        Self { name, policy, paused, queued: depth, running, oldest_due: oldest_due_at }
    }
}

/// A budget in an answer.
#[derive(Deserialize)]
pub(crate) struct BudgetWire {
    name: BudgetName,
    slots: Option<u32>,
    per_second: Option<u32>,
    per_minute: Option<u32>,
    per_day: Option<u32>,
    used: UsedWire,
    cooling_until: Option<Time>,
    free_at: Option<Time>,
}

#[derive(Deserialize)]
struct UsedWire {
    slots: u32,
    second: u32,
    /// A server of before knows no minutes.
    #[serde(default)]
    minute: u32,
    day: u32,
}

impl From<BudgetWire> for BudgetStatus {
    fn from(wire: BudgetWire) -> Self {
        let BudgetWire { name, slots, per_second, per_minute, per_day, used, cooling_until, free_at } = wire;
        let mut budget = Budget::new(name, BudgetPolicy { slots, per_second, per_minute, per_day });
        budget.cooling_until = cooling_until;
        let UsedWire { slots, second, minute, day } = used;
        Self { budget, slots_used: slots, used: Used { second, minute, day }, free_at }
    }
}

/// A schedule in an answer.
#[derive(Deserialize)]
pub(crate) struct ScheduleWire {
    name: ScheduleName,
    cron: String,
    zone: String,
    overlap: Overlap,
    missed: Missed,
    paused: bool,
    job: SpecWire,
    last_run: Option<Time>,
    last_job: Option<JobId>,
}

/// When to enqueue what.
#[derive(Serialize)]
pub(crate) struct SchedulePolicyWire {
    cron: String,
    zone: String,
    overlap: Overlap,
    missed: Missed,
    paused: bool,
    job: SpecWire,
}

impl From<SchedulePolicy> for SchedulePolicyWire {
    fn from(policy: SchedulePolicy) -> Self {
        let SchedulePolicy { cron, zone, overlap, missed, paused, job } = policy;
        Self { cron, zone, overlap, missed, paused, job: job.into() }
    }
}

impl ScheduleWire {
    /// The next run is computed anew from `now`: the server fires what is due.
    pub(crate) fn schedule(self, now: Time) -> Schedule {
        let Self { name, cron, zone, overlap, missed, paused, job, last_run, last_job } = self;
        let policy = SchedulePolicy { cron, zone, overlap, missed, paused, job: job.into() };
        Schedule { name, policy, settled_to: now, last_run, last_job, rests: Vec::new() }
    }
}
