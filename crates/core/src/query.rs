//! Questions about jobs: filters, pages, cursors.

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::id::{Key, Kind, QueueName, WorkerName};
use crate::job::Job;
use crate::policy::queue::QueuePolicy;
use crate::state::StateName;
use crate::time::Time;

/// The largest page.
pub const PAGE_MAX: u32 = 200;
/// The longest text that can be searched for.
pub const TEXT_BYTES_MAX: usize = 200;

/// Which jobs. Everything that is said must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobFilter {
    /// In one of these states; empty means any.
    pub states: Vec<StateName>,
    /// In this queue.
    pub queue: Option<QueueName>,
    /// Of this kind.
    pub kind: Option<Kind>,
    /// With this key.
    pub key: Option<Key>,
    /// Accepted at or after this.
    pub since: Option<Time>,
    /// Accepted before this.
    pub until: Option<Time>,
    /// With this text in its id, kind, key or payload; upper and lower case of
    /// ASCII letters are the same.
    pub text: Option<String>,
}

impl JobFilter {
    /// Refuses a search text that is empty or too long, or that no job can have.
    pub fn checked(self) -> Result<Self, Invalid> {
        match &self.text {
            Some(text) if text.is_empty() => Err(Invalid::new("text", "is empty; leave it out")),
            Some(text) if text.len() > TEXT_BYTES_MAX => {
                Err(Invalid::new("text", format!("is longer than {TEXT_BYTES_MAX} bytes")))
            }
            Some(text) if text.contains('\0') => {
                Err(Invalid::new("text", "contains NUL, which no job can have; leave it out"))
            }
            _ => Ok(self),
        }
    }

    /// Whether `job` is one of them.
    pub fn admits(&self, job: &Job) -> bool {
        let Self { states, queue, kind, key, since, until, text } = self;
        (states.is_empty() || states.contains(&job.state.name()))
            && queue.as_ref().is_none_or(|queue| *queue == job.spec.queue)
            && kind.as_ref().is_none_or(|kind| *kind == job.spec.kind)
            && key.as_ref().is_none_or(|key| job.spec.key.as_ref() == Some(key))
            && since.is_none_or(|since| job.created_at >= since)
            && until.is_none_or(|until| job.created_at < until)
            && text.as_ref().is_none_or(|text| contains_text(job, text))
    }
}

fn contains_text(job: &Job, text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let holds = |field: &str| field.to_ascii_lowercase().contains(&text);
    holds(&job.id.to_string())
        || holds(job.spec.kind.as_str())
        || job.spec.key.as_ref().is_some_and(|key| holds(key.as_str()))
        || holds(job.spec.payload.as_str())
}

/// A page of jobs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The jobs, without their steps.
    pub jobs: Vec<Job>,
    /// Ask with this for what follows; nothing when there is no more. A page
    /// can be short, even empty, and still have a cursor: the store looked at
    /// as many jobs as one question may.
    pub next: Option<Cursor>,
}

/// How many jobs there are in each state: exactly so many, or at least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// By state, in the order of [`StateName::ALL`].
    pub states: [u64; StateName::ALL.len()],
    /// There may be more: the store looked at as many jobs, the newest ones, as one question may.
    pub more: bool,
}

impl Counted {
    /// So many more in a state.
    pub fn add(&mut self, state: StateName, jobs: u64) {
        self.states[state as usize] += jobs;
    }

    /// How many are in a state.
    pub fn of(&self, state: StateName) -> u64 {
        self.states[state as usize]
    }

    /// What a page has.
    pub fn of_page(page: &Page) -> Self {
        let mut counted = Self { more: page.next.is_some(), ..Self::default() };
        page.jobs.iter().for_each(|job| counted.add(job.state.name(), 1));
        counted
    }
}

/// Where a page ended: the place in the order of acceptance of its last job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cursor(pub u64);

/// A question for a page of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListRequest {
    /// Which jobs.
    pub filter: JobFilter,
    /// How many, at most [`PAGE_MAX`].
    pub limit: u32,
    /// Where the page before ended.
    pub after: Option<Cursor>,
}

/// A queue as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct QueueStatus {
    /// Its name.
    pub name: QueueName,
    /// Its policy.
    pub policy: QueuePolicy,
    /// Whether it is paused.
    pub paused: bool,
    /// How many of its jobs are queued.
    pub queued: u64,
    /// How many of its jobs are running.
    pub running: u64,
    /// Since when the longest waiting of its due jobs could have run.
    pub oldest_due: Option<Time>,
}

/// What a worker says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerBeat {
    /// Its name.
    pub name: WorkerName,
    /// The queues that it claims from.
    pub queues: Vec<QueueName>,
    /// The kinds that it knows; nothing means any.
    pub kinds: Option<Vec<Kind>>,
    /// How many jobs it can run at once.
    pub slots: u32,
    /// How many it is running.
    pub running: u32,
    /// What it works with, and its version: `windlass/0.1.0`.
    pub version: Option<String>,
    /// The machine that it runs on.
    pub host: Option<String>,
}

/// A worker as it last said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// Its name.
    pub name: WorkerName,
    /// The queues that it claims from.
    pub queues: Vec<QueueName>,
    /// The kinds that it knows; nothing means any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<Kind>>,
    /// How many jobs it can run at once.
    pub slots: u32,
    /// How many it is running.
    pub running: u32,
    /// What it works with, and its version: `windlass/0.1.0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The machine that it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// When it began.
    pub started_at: Time,
    /// When it was last heard of.
    pub seen_at: Time,
}

/// A worker that was not heard of for this long is not counted as alive: it says something every 12 to 24 seconds.
pub const WORKER_ALIVE_MS: u64 = 30_000;
/// A worker that was not heard of for this long is forgotten.
pub const WORKER_FORGET_MS: i64 = 3_600_000;

impl WorkerStatus {
    /// Whether this worker claims jobs such as this one.
    pub fn claims(&self, spec: &crate::job::JobSpec) -> bool {
        self.queues.contains(&spec.queue)
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&spec.kind))
    }
}
