//! Queues, budgets, schedules and workers in an answer.

use schemars::JsonSchema;
use serde::Serialize;
use windlass_engine::core::id::{BudgetName, JobId, Key, Kind, QueueName, ScheduleName, WorkerName};
use windlass_engine::core::job::JobSpec;
use windlass_engine::core::json::Json;
use windlass_engine::core::policy::budget::{Budget, BudgetPolicy, Used};
use windlass_engine::core::policy::ladder::Ladder;
use windlass_engine::core::policy::queue::{OnCrash, QueuePolicy};
use windlass_engine::core::policy::schedule::{Missed, Overlap, Schedule, SchedulePolicy};
use windlass_engine::core::query::{QueueStatus, WORKER_ALIVE_MS, WorkerStatus};
use windlass_engine::core::store::BudgetStatus;
use windlass_engine::core::time::{Span, Time};

use super::RetryView;
use crate::schema::{AnyJson, Duration, Id, KeyText, LadderText, Moment, Name, WorkerText};

/// A queue as it stands.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "Queue")]
pub struct QueueView {
    #[schemars(with = "Name")]
    pub name: QueueName,
    pub policy: PolicyView,
    pub paused: bool,
    /// How many of its jobs are queued.
    pub depth: u64,
    pub running: u64,
    /// Since when the longest waiting of its due jobs could have run.
    #[schemars(with = "Option<Moment>")]
    pub oldest_due_at: Option<Time>,
    /// How long that is.
    pub oldest_age_ms: Option<u64>,
}

/// The policy of a queue.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "QueuePolicy")]
pub struct PolicyView {
    pub limit: Option<u32>,
    #[schemars(with = "LadderText")]
    pub ladder: Ladder,
    pub max_attempts: Option<u32>,
    pub lease_ms: u32,
    #[schemars(with = "String")]
    pub on_crash: OnCrash,
    pub crashes_max: u32,
    pub retention_days: u32,
    pub finished_max: u64,
    pub delete_finished: bool,
    pub ageing_ms: Option<u64>,
}

impl QueueView {
    pub fn new(status: QueueStatus, now: Time) -> Self {
        let QueueStatus { name, policy, paused, queued, running, oldest_due } = status;
        let QueuePolicy {
            limit,
            ladder,
            max_attempts,
            lease_ms,
            on_crash,
            crashes_max,
            retention_days,
            finished_max,
            delete_finished,
            ageing_ms,
        } = policy;
        let policy = PolicyView {
            limit,
            ladder,
            max_attempts,
            lease_ms,
            on_crash,
            crashes_max,
            retention_days,
            finished_max,
            delete_finished,
            ageing_ms,
        };
        let oldest_age_ms = oldest_due.map(|due| now.ms_since(due));
        Self { name, policy, paused, depth: queued, running, oldest_due_at: oldest_due, oldest_age_ms }
    }
}

/// A budget as it stands.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "Budget")]
pub struct BudgetView {
    #[schemars(with = "Name")]
    pub name: BudgetName,
    pub slots: Option<u32>,
    pub per_second: Option<u32>,
    pub per_minute: Option<u32>,
    pub per_day: Option<u32>,
    pub used: UsedView,
    #[schemars(with = "Option<Moment>")]
    pub cooling_until: Option<Time>,
    /// When something of it may be spent again, when nothing may now.
    #[schemars(with = "Option<Moment>")]
    pub free_at: Option<Time>,
}

/// What of a budget is used.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "BudgetUsed")]
pub struct UsedView {
    pub slots: u32,
    pub second: u32,
    pub minute: u32,
    pub day: u32,
}

impl BudgetView {
    pub fn new(status: BudgetStatus, now: Time) -> Self {
        let BudgetStatus { budget, slots_used, used, free_at } = status;
        let Budget { name, policy, cooling_until, second: _, minute: _, day: _ } = budget;
        let BudgetPolicy { slots, per_second, per_minute, per_day } = policy;
        let Used { second, minute, day } = used;
        let used = UsedView { slots: slots_used, second, minute, day };
        let cooling_until = cooling_until.filter(|until| now < *until);
        Self { name, slots, per_second, per_minute, per_day, used, cooling_until, free_at }
    }
}

/// A schedule as it stands.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Schedule")]
pub struct ScheduleView {
    #[schemars(with = "Name")]
    name: ScheduleName,
    cron: String,
    zone: String,
    #[schemars(with = "String")]
    overlap: Overlap,
    /// `skip`, `last`, or `{"all": n}`.
    #[schemars(with = "AnyJson")]
    missed: Missed,
    paused: bool,
    job: ScheduledJobView,
    #[schemars(with = "Option<Moment>")]
    last_run: Option<Time>,
    #[schemars(with = "Option<Id>")]
    last_job: Option<JobId>,
    #[schemars(with = "Option<Moment>")]
    next_run: Option<Time>,
}

/// The job that a schedule enqueues.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ScheduledJob")]
struct ScheduledJobView {
    #[schemars(with = "Name")]
    kind: Kind,
    #[schemars(with = "Name")]
    queue: QueueName,
    #[schemars(with = "AnyJson")]
    payload: Option<Json>,
    priority: i16,
    #[schemars(with = "Option<KeyText>")]
    key: Option<Key>,
    #[schemars(with = "Vec<Name>")]
    budgets: Vec<BudgetName>,
    retry: Option<RetryView>,
    #[schemars(with = "Option<Duration>")]
    timeout: Option<Span>,
    #[schemars(with = "AnyJson")]
    meta: Option<Json>,
}

impl ScheduleView {
    /// `hidden`: the kind is sensitive, and the caller may not see into it.
    pub fn new(schedule: Schedule, hidden: bool) -> Self {
        let next_run = schedule.next_due();
        let Schedule { name, policy, settled_to: _, last_run, last_job, rests: _ } = schedule;
        let SchedulePolicy { cron, zone, overlap, missed, paused, job } = policy;
        let JobSpec { kind, queue, payload, priority, key, dedupe_key: _, budgets, retry, timeout_ms, meta } =
            job;
        let job = ScheduledJobView {
            kind,
            queue,
            payload: Some(payload).filter(|_| !hidden),
            priority,
            key,
            budgets,
            retry: retry.map(RetryView::from),
            timeout: timeout_ms.map(Span::from_ms),
            meta: meta.filter(|_| !hidden),
        };
        Self { name, cron, zone, overlap, missed, paused, job, last_run, last_job, next_run }
    }
}

/// A worker as it last said of itself.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "Worker")]
pub struct WorkerView {
    #[schemars(with = "WorkerText")]
    pub name: WorkerName,
    #[schemars(with = "Vec<Name>")]
    pub queues: Vec<QueueName>,
    /// Null: any.
    #[schemars(with = "Option<Vec<Name>>")]
    pub kinds: Option<Vec<Kind>>,
    pub slots: u32,
    pub running: u32,
    #[schemars(with = "Moment")]
    pub started_at: Time,
    #[schemars(with = "Moment")]
    pub seen_at: Time,
    /// It was heard of within the last half minute.
    pub alive: bool,
    /// What it works with, and its version: `windlass-python/0.1.0`. Null: it does not say.
    pub version: Option<String>,
    /// The machine that it runs on. Null: it does not say.
    pub host: Option<String>,
    /// The last crash of it, or of another worker of its host.
    pub last_crash: Option<CrashView>,
}

/// A job was taken back from a worker that had gone, or stood still.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "WorkerCrash")]
pub struct CrashView {
    #[schemars(with = "Moment")]
    pub at: Time,
    #[schemars(with = "Id")]
    pub job_id: JobId,
    /// Whose crash it was: each start of a program is another worker.
    #[schemars(with = "WorkerText")]
    pub worker: WorkerName,
}

impl WorkerView {
    pub fn new(status: WorkerStatus, last_crash: Option<CrashView>, now: Time) -> Self {
        let WorkerStatus { name, queues, kinds, slots, running, version, host, started_at, seen_at } = status;
        let alive = now.ms_since(seen_at) <= WORKER_ALIVE_MS;
        Self { name, queues, kinds, slots, running, started_at, seen_at, alive, version, host, last_crash }
    }
}
