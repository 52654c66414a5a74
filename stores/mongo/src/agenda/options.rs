//! How a collection of Agenda's is worked.

use windlass_core::error::Invalid;
use windlass_core::id::{Kind, QueueName};
use windlass_core::policy::cron::CronLine;
use windlass_core::policy::ladder::{Ladder, RetryRule};
use windlass_core::policy::queue::LEASE_MS_RANGE;

/// How many fields a key has at most.
const KEY_FIELDS_MAX: usize = 8;

/// Settings of [`super::AgendaRows`].
#[derive(Debug, Clone)]
pub struct Options {
    /// What the queue of its jobs is called; Agenda has none.
    pub queue: QueueName,
    /// The names of the jobs that are worked, which are their kinds; nothing means all that there are.
    pub names: Option<Vec<Kind>>,
    /// How long a lock lasts without being renewed (`LOCK_LIFETIME_SECONDS`). It must be the `lockLifetime` of the
    /// Node definitions: each side takes back the other's locks by its own idea of it.
    pub lock_lifetime_ms: u32,
    /// What a failure means. Agenda itself retries nothing, so neither do we unless it is said.
    pub retry: RetryRule,
    /// After so many crashes of ours without a step in between a row is failed.
    pub crashes_max: u32,
    /// The fields that are a row's key, such as `data.userId`: of the rows that have the same values in all of them,
    /// whatever their names, workers of ours run one at a time, in the order in which they are due. A row that lacks one
    /// of the fields has no key. Nothing means that no row has one.
    pub key: Vec<String>,
    /// In which time zone a row repeats that names none. Node takes the zone of its process.
    pub zone: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            queue: QueueName::new("agenda").expect("a valid name"),
            names: None,
            lock_lifetime_ms: 600_000,
            retry: RetryRule { ladder: Ladder::NONE, max_attempts: None },
            crashes_max: 3,
            key: Vec::new(),
            zone: "UTC".to_owned(),
        }
    }
}

impl Options {
    /// Refuses what cannot be meant.
    pub(crate) fn checked(self) -> Result<Self, Invalid> {
        if !LEASE_MS_RANGE.contains(&self.lock_lifetime_ms) {
            return Err(Invalid::new("lock_lifetime_ms", "lies outside 100 ms to 1 day"));
        }
        CronLine::new("* * * * *", &self.zone)?;
        let is_path = |path: &String| path.split('.').all(|name| !name.is_empty() && !name.starts_with('$'));
        if self.key.len() > KEY_FIELDS_MAX || !self.key.iter().all(is_path) {
            return Err(Invalid::new("key", "must be at most 8 fields, such as data.userId"));
        }
        Ok(self)
    }
}
