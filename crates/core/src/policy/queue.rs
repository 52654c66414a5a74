//! The policy of a queue.

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::job::JobSpec;
use crate::policy::ladder::{Ladder, RetryRule};

/// A lease lasts this long unless the queue or the claim says otherwise.
pub const LEASE_MS_DEFAULT: u32 = 30_000;
/// The shortest and the longest lease that is accepted.
pub const LEASE_MS_RANGE: std::ops::RangeInclusive<u32> = 100..=86_400_000;
/// After so many crashes without a step in between a job is quarantined.
pub const CRASHES_MAX_DEFAULT: u32 = 3;
/// Finished jobs are kept this many days.
pub const RETENTION_DAYS_DEFAULT: u32 = 30;
/// Of each queue at most so many finished jobs are kept.
pub const FINISHED_MAX_DEFAULT: u64 = 10_000_000;

/// What holds for the jobs of one queue. A queue that nobody configured has the default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QueuePolicy {
    /// How many of its jobs may run at once over the whole fleet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The delays between attempts.
    pub ladder: Ladder,
    /// Fewer attempts than the ladder has rungs and one; or more, when its last rung repeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// How long a lease lasts.
    pub lease_ms: u32,
    /// What it means that a worker was lost.
    pub on_crash: OnCrash,
    /// After so many crashes without a step in between a job is quarantined.
    pub crashes_max: u32,
    /// How long finished jobs are kept.
    pub retention_days: u32,
    /// How many finished jobs are kept.
    pub finished_max: u64,
    /// Completed and canceled jobs are deleted at once. Failed ones are kept.
    pub delete_finished: bool,
    /// Waiting this long weighs as much as one step of priority, so that a
    /// flood of urgent jobs cannot starve the others. Nothing: priority is strict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ageing_ms: Option<u64>,
}

/// What it means for a running job that its worker was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum OnCrash {
    /// It is queued again at once and goes on after its last stored step.
    #[default]
    Resume,
    /// It is failed.
    Fail,
}

impl Default for QueuePolicy {
    fn default() -> Self {
        Self {
            limit: None,
            ladder: Ladder::default_rungs(),
            max_attempts: None,
            lease_ms: LEASE_MS_DEFAULT,
            on_crash: OnCrash::Resume,
            crashes_max: CRASHES_MAX_DEFAULT,
            retention_days: RETENTION_DAYS_DEFAULT,
            finished_max: FINISHED_MAX_DEFAULT,
            delete_finished: false,
            ageing_ms: None,
        }
    }
}

impl QueuePolicy {
    /// Refuses values that make no sense.
    pub fn checked(self) -> Result<Self, Invalid> {
        if self.limit == Some(0) {
            return Err(Invalid::new("limit", "is 0; pause the queue instead"));
        }
        if !LEASE_MS_RANGE.contains(&self.lease_ms) {
            return Err(Invalid::new("lease_ms", "lies outside 100 ms to 1 day"));
        }
        if self.crashes_max == 0 {
            return Err(Invalid::new("crashes_max", "is 0; at least 1 is needed"));
        }
        self.ladder.check_attempts(self.max_attempts)?;
        if self.ageing_ms == Some(0) {
            return Err(Invalid::new("ageing_ms", "is 0; leave it out for strict priority"));
        }
        Ok(self)
    }

    /// The retry rule of a job in this queue: its own, or the queue's.
    pub fn retry_rule(&self, spec: &JobSpec) -> RetryRule {
        spec.retry
            .clone()
            .unwrap_or_else(|| RetryRule { ladder: self.ladder.clone(), max_attempts: self.max_attempts })
    }

    /// The delay before the next attempt of a job, after the `attempt`-th failed. As its rule says, of
    /// which no copy is made: every claim asks this of every job.
    pub fn retry_delay_ms(&self, spec: &JobSpec, attempt: u32) -> Option<u64> {
        match &spec.retry {
            Some(rule) => rule.delay_ms(attempt),
            None => self.ladder.delay_ms_within(self.max_attempts, attempt),
        }
    }

    /// Milliseconds that a finished job is kept.
    pub fn retention_ms(&self) -> i64 {
        i64::from(self.retention_days) * 86_400_000
    }
}
