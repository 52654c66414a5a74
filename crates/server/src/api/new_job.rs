//! A job as a caller asks for it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;
use windlass_engine::core::id::{BudgetName, DedupeKey, JobId, Key, Kind, QueueName};
use windlass_engine::core::job::{BUDGETS_MAX, JobSpec, NewJob, Start};
use windlass_engine::core::json::{Json, META_BYTES_MAX, PAYLOAD_BYTES_MAX};
use windlass_engine::core::policy::ladder::{Ladder, RetryRule};
use windlass_engine::core::time::{Span, Time};
use windlass_engine::world::Ids;
use windlass_report::schema::{AnyJson, Duration, Id, KeyText, LadderText, Moment, Name};

use super::{gated, present};
use crate::answer::Refusal;
use crate::object::Object;

/// A job to be enqueued.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewJob")]
pub(crate) struct NewJobBody {
    /// An id of the caller's own: sending it again is harmless.
    #[serde(default)]
    #[schemars(with = "Option<Id>")]
    id: Option<JobId>,
    #[schemars(with = "Name")]
    kind: Kind,
    /// `default` when left out.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    queue: Option<QueueName>,
    /// Any JSON, at most 1 MiB; null when left out.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "AnyJson")]
    payload: Option<Box<RawValue>>,
    /// Higher first.
    #[serde(default)]
    priority: Option<i16>,
    /// Not before this moment. Not together with `delay`.
    #[serde(default)]
    #[schemars(with = "Option<Moment>")]
    run_at: Option<Time>,
    /// Not before so long after it was accepted.
    #[serde(default)]
    #[schemars(with = "Option<Duration>")]
    delay: Option<Span>,
    /// Of the running jobs of the queue, at most one has this key.
    #[serde(default)]
    #[schemars(with = "Option<KeyText>")]
    key: Option<Key>,
    /// While a job with this dedupe key is not final, asking again answers with that one.
    #[serde(default)]
    #[schemars(with = "Option<KeyText>")]
    dedupe_key: Option<DedupeKey>,
    /// The budgets that must allow it.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Name>>", length(max = 8))]
    budgets: Option<Vec<BudgetName>>,
    /// Its own retry rule, instead of the queue's.
    #[serde(default)]
    retry: Option<Object<RetryBody>>,
    /// How long one attempt may take.
    #[serde(default)]
    #[schemars(with = "Option<Duration>")]
    timeout: Option<Span>,
    /// What the caller wants to remember, at most 16 KiB.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "AnyJson")]
    meta: Option<Box<RawValue>>,
}

/// How often a job is tried.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewRetryRule")]
pub(crate) struct RetryBody {
    /// The delays between attempts.
    #[schemars(with = "LadderText")]
    ladder: Ladder,
    /// Fewer attempts than the ladder would allow.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_attempts: Option<u32>,
}

/// A job that a schedule enqueues: it has no id, no time and no dedupe key of its own.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewScheduledJob")]
pub(crate) struct ScheduledJobBody {
    #[schemars(with = "Name")]
    kind: Kind,
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    queue: Option<QueueName>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "AnyJson")]
    payload: Option<Box<RawValue>>,
    #[serde(default)]
    priority: Option<i16>,
    #[serde(default)]
    #[schemars(with = "Option<KeyText>")]
    key: Option<Key>,
    #[serde(default)]
    #[schemars(with = "Option<Vec<Name>>", length(max = 8))]
    budgets: Option<Vec<BudgetName>>,
    #[serde(default)]
    retry: Option<Object<RetryBody>>,
    #[serde(default)]
    #[schemars(with = "Option<Duration>")]
    timeout: Option<Span>,
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "AnyJson")]
    meta: Option<Box<RawValue>>,
}

impl NewJobBody {
    /// The job, checked.
    pub(crate) fn job(self, ids: &mut Ids<'_>) -> Result<NewJob, Refusal> {
        let Self {
            id,
            kind,
            queue,
            payload,
            priority,
            run_at,
            delay,
            key,
            dedupe_key,
            budgets,
            retry,
            timeout,
            meta,
        } = self;
        let start = match (run_at, delay) {
            (Some(_), Some(_)) => return Err(Refusal::field("delay", "cannot be said together with run_at")),
            (Some(at), None) => Start::At(at),
            (None, Some(delay)) => Start::AfterMs(delay.ms()),
            (None, None) => Start::Now,
        };
        let rest = ScheduledJobBody { kind, queue, payload, priority, key, budgets, retry, timeout, meta };
        let mut spec = rest.spec()?;
        spec.dedupe_key = dedupe_key;
        Ok(NewJob { id: id.unwrap_or_else(|| ids.make()), spec, start })
    }
}

impl ScheduledJobBody {
    /// The content of the job, checked.
    pub(crate) fn spec(self) -> Result<JobSpec, Refusal> {
        let Self { kind, queue, payload, priority, key, budgets, retry, timeout, meta } = self;
        let payload = match payload {
            Some(raw) => gated("payload", &raw, PAYLOAD_BYTES_MAX)?,
            None => Json::null(),
        };
        let budgets = budgets.unwrap_or_default();
        if budgets.len() > BUDGETS_MAX {
            return Err(Refusal::field("budgets", format!("are more than {BUDGETS_MAX}")));
        }
        let spec = JobSpec {
            kind,
            queue: queue.unwrap_or_default(),
            payload,
            priority: priority.unwrap_or(0),
            key,
            dedupe_key: None,
            budgets,
            retry: retry.map(|Object(retry)| retry.rule()),
            timeout_ms: timeout.map(Span::ms),
            meta: meta.map(|raw| gated("meta", &raw, META_BYTES_MAX)).transpose()?,
        };
        Ok(spec.checked()?)
    }
}

impl RetryBody {
    fn rule(self) -> RetryRule {
        let Self { ladder, max_attempts } = self;
        RetryRule { ladder, max_attempts }
    }
}
