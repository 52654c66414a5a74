//! The job: one durable unit of work.

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::event::What;
use crate::id::{BudgetName, DedupeKey, JobId, Key, Kind, QueueName, WorkerName};
use crate::json::Json;
use crate::policy::ladder::RetryRule;
use crate::state::{Lease, State};
use crate::step::Step;
use crate::time::Time;
use crate::trace;

/// How many budgets a job may name.
pub const BUDGETS_MAX: usize = 8;
/// How many entries of its history a job keeps; older ones go.
pub const HISTORY_MAX: usize = 32;
/// Bytes of an error text; longer ones are cut, with a mark.
pub const ERROR_BYTES_MAX: usize = 8 * 1024;

/// What a caller asks for. The id is the caller's or the client's; enqueueing
/// the same id again answers with the job that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewJob {
    /// The id.
    pub id: JobId,
    /// What the job is, and stays: everything that makes up its content.
    pub spec: JobSpec,
    /// When it may start.
    pub start: Start,
}

/// When a new job may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// As soon as possible.
    #[default]
    Now,
    /// At a moment.
    At(Time),
    /// So many milliseconds after it was accepted, by the store's clock.
    AfterMs(u64),
}

impl Start {
    /// The moment, for a job accepted at `now`.
    pub fn moment(self, now: Time) -> Time {
        match self {
            Self::Now => now,
            Self::At(at) => at,
            Self::AfterMs(ms) => now.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX)),
        }
    }
}

/// The content of a job, as it was asked for. It never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Which handler runs it.
    pub kind: Kind,
    /// Its queue.
    pub queue: QueueName,
    /// What the handler gets.
    pub payload: Json,
    /// Higher first.
    #[serde(default)]
    pub priority: i16,
    /// Of the running jobs of the queue, at most one has this key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Key>,
    /// Of the jobs that are not final, at most one has this dedupe key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dedupe_key: Option<DedupeKey>,
    /// The budgets that must allow it, sorted, without repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetName>,
    /// Its own retry rule, instead of the queue's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryRule>,
    /// How long one attempt may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What the caller wants to remember. The engine looks at nothing of it but
    /// the trace that the job is part of ([`crate::trace`]).
    #[serde(default, deserialize_with = "crate::json::present", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Json>,
}

impl JobSpec {
    /// A job of a kind in a queue, with nothing else said.
    pub fn new(kind: Kind, queue: QueueName, payload: Json) -> Self {
        Self {
            kind,
            queue,
            payload,
            priority: 0,
            key: None,
            dedupe_key: None,
            budgets: Vec::new(),
            retry: None,
            timeout_ms: None,
            meta: None,
        }
    }

    /// Sorts the budgets, drops repeats and checks what no type can hold.
    pub fn checked(mut self) -> Result<Self, Invalid> {
        self.budgets.sort_unstable();
        self.budgets.dedup();
        if self.budgets.len() > BUDGETS_MAX {
            return Err(Invalid::new("budgets", format!("are more than {BUDGETS_MAX}")));
        }
        if self.timeout_ms == Some(0) {
            return Err(Invalid::new("timeout", "is 0; leave it out for no limit"));
        }
        if let Some(retry) = &self.retry {
            retry.check()?;
        }
        Ok(self)
    }
}

/// A job as a store keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its id.
    pub id: JobId,
    /// Its place in the order of acceptance; given by the store.
    pub seq: u64,
    /// Its content.
    pub spec: JobSpec,
    /// Its place in the order of start: lower first, then by `seq`.
    pub rank: i64,
    /// When it was accepted.
    pub created_at: Time,
    /// It does not start before this.
    pub run_at: Time,
    /// Where it is in its life.
    pub state: State,
    /// How many attempts were counted in this life.
    pub attempt: u32,
    /// How many leases ran out since the last step was stored.
    pub crashes: u32,
    /// The fence of the latest claim; 0 when it was never claimed.
    pub fence: u64,
    /// How often somebody started a new life of it by an explicit retry.
    #[serde(default)]
    pub retries: u32,
    /// When its latest attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Who ran its latest attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerName>,
    /// What the handler last said of its progress.
    #[serde(default, deserialize_with = "crate::json::present", skip_serializing_if = "Option::is_none")]
    pub progress: Option<Json>,
    /// The stages that have finished, in the order in which they were stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// What happened to it beside being enqueued, claimed and completed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<Entry>,
}

impl Job {
    /// How many bytes a claim carries for this job: its payload, and the outputs of its steps.
    pub fn carried_bytes(&self) -> usize {
        let steps = self.steps.iter().map(|step| step.output.as_str().len());
        self.spec.payload.as_str().len() + steps.sum::<usize>()
    }

    /// The lease, when the job is running.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            State::Running(lease) => Some(lease),
            _ => None,
        }
    }

    /// The lease that a write naming `fence` may use.
    pub fn lease_for(&self, fence: u64) -> Option<&Lease> {
        self.lease().filter(|lease| lease.admits(fence))
    }

    /// Whether `new` asks for the same content as this job has. Where it was
    /// asked from ([`crate::trace`]) is no part of it.
    pub fn same_content(&self, new: &JobSpec) -> bool {
        let JobSpec { kind, queue, payload, priority, key, dedupe_key, budgets, retry, timeout_ms, meta } =
            new;
        let own = &self.spec;
        (kind, queue, payload, priority, key)
            == (&own.kind, &own.queue, &own.payload, &own.priority, &own.key)
            && (dedupe_key, budgets, retry, timeout_ms)
                == (&own.dedupe_key, &own.budgets, &own.retry, &own.timeout_ms)
            && trace::content(meta.as_ref()) == trace::content(own.meta.as_ref())
    }

    /// The newest error, if any attempt had one.
    pub fn last_error(&self) -> Option<&str> {
        self.history.iter().rev().find_map(|entry| entry.error.as_deref())
    }

    pub(crate) fn record(&mut self, entry: Entry) {
        self.history.push(entry);
        if self.history.len() > HISTORY_MAX {
            let surplus = self.history.len() - HISTORY_MAX;
            self.history.drain(..surplus);
        }
    }
}

/// One thing that happened to a job, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When.
    pub at: Time,
    /// What.
    pub what: What,
    /// The attempt it happened to; 0 when the job was not running.
    #[serde(default)]
    pub attempt: u32,
    /// The fence of that attempt.
    #[serde(default)]
    pub fence: u64,
    /// Who ran that attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<WorkerName>,
    /// When that attempt started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// What the handler said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Cuts an error text to [`ERROR_BYTES_MAX`] and takes NUL out of it, since
/// not every store can keep that.
pub fn bounded_error(text: &str) -> String {
    const MARK: &str = " … (cut)";
    let clean = if text.contains('\0') { text.replace('\0', "\u{FFFD}") } else { text.to_owned() };
    if clean.len() <= ERROR_BYTES_MAX {
        return clean;
    }
    let mut end = ERROR_BYTES_MAX - MARK.len();
    while !clean.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{MARK}", &clean[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 56: a `null` that somebody gave is not nothing.
    #[test]
    fn fault_56_null_is_not_nothing() {
        let mut spec = JobSpec::new(Kind::new("k").unwrap(), QueueName::default(), Json::null());
        for meta in [None, Some(Json::null()), Some(Json::payload("[1.10]").unwrap())] {
            spec.meta = meta;
            let text = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<JobSpec>(&text).unwrap(), spec, "{text}");
        }
    }

    /// Fault 57: a huge error text is cut with a mark.
    #[test]
    fn fault_57_errors_are_bounded() {
        let text = bounded_error(&"ü".repeat(ERROR_BYTES_MAX));
        assert!(text.len() <= ERROR_BYTES_MAX && text.ends_with("… (cut)"));
        assert_eq!(bounded_error("a\0b"), "a\u{FFFD}b");
        assert_eq!(bounded_error("short"), "short");
    }
}
