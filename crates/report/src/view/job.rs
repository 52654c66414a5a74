//! A job in an answer.

use schemars::JsonSchema;
use serde::Serialize;
use windlass_engine::core::eligible::Explanation;
use windlass_engine::core::id::{BudgetName, DedupeKey, JobId, Key, Kind, QueueName, WorkerName};
use windlass_engine::core::job::{Job, JobSpec};
use windlass_engine::core::json::Json;
use windlass_engine::core::policy::ladder::{Ladder, RetryRule};
use windlass_engine::core::state::{FailureReason, Lease, State, StateName};
use windlass_engine::core::step::Step;
use windlass_engine::core::time::{Span, Time};

use super::life::{AttemptView, TimelineView, attempts, is_cut, timeline};
use crate::schema::{AnyJson, Duration, Id, KeyText, LadderText, Moment, Name, StateText, WorkerText};

/// A list shows no JSON that is longer than this.
const FOLD_BYTES: usize = 4 * 1024;

/// How much of a job is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Everything, with steps, attempts and timeline.
    Full,
    /// For a worker: everything that it needs, with the steps.
    Leased,
    /// In a list: long JSON is folded.
    Listed,
}

/// A job.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Job")]
pub struct JobView {
    #[schemars(with = "Id")]
    pub id: JobId,
    #[schemars(with = "Name")]
    pub kind: Kind,
    #[schemars(with = "Name")]
    pub queue: QueueName,
    #[schemars(with = "StateText")]
    pub state: StateName,
    #[schemars(with = "AnyJson")]
    pub payload: Option<Json>,
    /// Higher first.
    pub priority: i16,
    #[schemars(with = "Option<KeyText>")]
    pub key: Option<Key>,
    #[schemars(with = "Option<KeyText>")]
    pub dedupe_key: Option<DedupeKey>,
    #[schemars(with = "Vec<Name>")]
    pub budgets: Vec<BudgetName>,
    /// Its own retry rule; null when the queue's holds.
    pub retry: Option<RetryView>,
    /// How long one attempt may take.
    #[schemars(with = "Option<Duration>")]
    pub timeout: Option<Span>,
    #[schemars(with = "AnyJson")]
    pub meta: Option<Json>,
    #[schemars(with = "Moment")]
    pub run_at: Time,
    #[schemars(with = "Moment")]
    pub created_at: Time,
    #[schemars(with = "Option<Moment>")]
    pub started_at: Option<Time>,
    #[schemars(with = "Option<Moment>")]
    pub ended_at: Option<Time>,
    /// How many attempts were counted in this life.
    pub attempt: u32,
    /// How many leases ran out since the last step was stored.
    pub crashes: u32,
    /// How often somebody started a new life of it.
    pub retries: u32,
    /// The fence of the latest claim; 0 when it was never claimed.
    pub fence: u64,
    #[schemars(with = "Option<String>")]
    pub failure_reason: Option<FailureReason>,
    /// The newest error.
    pub error: Option<String>,
    /// Who ran its latest attempt.
    #[schemars(with = "Option<WorkerText>")]
    pub worker: Option<WorkerName>,
    pub lease: Option<LeaseView>,
    #[schemars(with = "AnyJson")]
    pub progress: Option<Json>,
    #[schemars(with = "AnyJson")]
    pub result: Option<Json>,
    /// Fields that are null here only because they are long (lists) or
    /// because the kind is sensitive.
    pub folded: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepView>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attempts: Option<Vec<AttemptView>>,
    /// Whether `attempts` and `timeline` lack what happened first: the newest 32 things are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeline: Option<Vec<TimelineView>>,
}

impl JobView {
    /// `hidden`: the kind is sensitive, and the caller may not see into it.
    pub fn new(job: Job, detail: Detail, hidden: bool) -> Self {
        let full = detail == Detail::Full;
        let attempts = full.then(|| attempts(&job, hidden));
        let timeline = full.then(|| timeline(&job, hidden));
        let cut = full.then(|| is_cut(&job));
        let ended_at = job.state.ended_at();
        let state = job.state.name();
        let error = job.last_error().map(str::to_owned);
        // Without `..`: a new field of a job demands a decision here.
        let Job {
            id,
            seq: _,
            spec,
            rank: _,
            created_at,
            run_at,
            state: life,
            attempt,
            crashes,
            fence,
            retries,
            started_at,
            worker,
            progress,
            steps,
            history: _,
        } = job;
        let JobSpec { kind, queue, payload, priority, key, dedupe_key, budgets, retry, timeout_ms, meta } =
            spec;
        let (lease, result, failure_reason) = match life {
            State::Running(lease) => (Some(LeaseView::from(lease)), None, None),
            State::Completed { result, .. } => (None, result, None),
            State::Failed { reason, .. } => (None, None, Some(reason)),
            State::Queued | State::Canceled { .. } => (None, None, None),
        };
        let mut fold = Fold { hidden, listed: detail == Detail::Listed, folded: Vec::new() };
        Self {
            payload: fold.json("payload", Some(payload)),
            meta: fold.json("meta", meta),
            progress: fold.json("progress", progress),
            result: fold.json("result", result),
            error: fold.text("error", error),
            steps: (detail != Detail::Listed)
                .then(|| steps.into_iter().map(|step| fold.step(step)).collect()),
            folded: fold.folded,
            retry: retry.map(RetryView::from),
            timeout: timeout_ms.map(Span::from_ms),
            id,
            kind,
            queue,
            state,
            priority,
            key,
            dedupe_key,
            budgets,
            run_at,
            created_at,
            started_at,
            ended_at,
            attempt,
            crashes,
            retries,
            fence,
            failure_reason,
            worker,
            lease,
            attempts,
            cut,
            timeline,
        }
    }
}

struct Fold {
    hidden: bool,
    listed: bool,
    folded: Vec<&'static str>,
}

impl Fold {
    fn json(&mut self, field: &'static str, json: Option<Json>) -> Option<Json> {
        let keep = |json: &Json| !self.hidden && (!self.listed || json.as_str().len() <= FOLD_BYTES);
        let there = json.is_some();
        let kept = json.filter(keep);
        if there && kept.is_none() {
            self.folded.push(field);
        }
        kept
    }

    fn text(&mut self, field: &'static str, text: Option<String>) -> Option<String> {
        if text.is_some() && self.hidden {
            self.folded.push(field);
            return None;
        }
        text
    }

    fn step(&mut self, step: Step) -> StepView {
        let Step { name, output, attempt, stored_at } = step;
        let output = if self.hidden { Json::null() } else { output };
        StepView { name: name.to_string(), output, attempt, stored_at }
    }
}

/// How often a job is tried.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RetryRule")]
pub struct RetryView {
    #[schemars(with = "LadderText")]
    pub ladder: Ladder,
    pub max_attempts: Option<u32>,
}

impl From<RetryRule> for RetryView {
    fn from(rule: RetryRule) -> Self {
        let RetryRule { ladder, max_attempts } = rule;
        Self { ladder, max_attempts }
    }
}

/// The right to run the current attempt.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Lease")]
pub struct LeaseView {
    #[schemars(with = "WorkerText")]
    pub worker: WorkerName,
    pub fence: u64,
    #[schemars(with = "Moment")]
    pub started_at: Time,
    #[schemars(with = "Moment")]
    pub expires_at: Time,
    pub lease_ms: u32,
    pub cancel_requested: bool,
}

impl From<Lease> for LeaseView {
    fn from(lease: Lease) -> Self {
        // The mark is between the store and whoever takes leases back.
        let Lease { worker, fence, started_at, lease_ms, expires_at, cancel_requested, marked_at: _ } = lease;
        Self { worker, fence, started_at, expires_at, lease_ms, cancel_requested }
    }
}

/// A stage that has finished.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Step")]
pub struct StepView {
    pub name: String,
    #[schemars(with = "AnyJson")]
    pub output: Json,
    pub attempt: u32,
    #[schemars(with = "Moment")]
    pub stored_at: Time,
}

/// Why a job is not running.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Explanation")]
pub struct ExplainView {
    #[schemars(with = "Id")]
    pub id: JobId,
    /// `status` is `running`, `final`, `held` (with all that holds it) or
    /// `ready` (with how many go first and how many workers could take it).
    #[schemars(with = "AnyJson")]
    pub explanation: Explanation,
}
