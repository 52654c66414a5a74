//! What people ask for jobs and queues, and what they are answered: cancel, retry, run now, run again from a step, delete.

use serde::{Deserialize, Serialize};

use crate::error::{Invalid, StoreError};
use crate::id::{JobId, StepName};

/// How many jobs one call may steer.
pub const STEER_MAX: usize = 1_000;

/// Refuses to steer more jobs than one call may. Every store asks this first.
pub fn check_steered<T>(jobs: &[T]) -> Result<(), StoreError> {
    if jobs.len() > STEER_MAX {
        return Err(Invalid::new("jobs", format!("are more than {STEER_MAX}")).into());
    }
    Ok(())
}

/// What became of a wish to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAnswer {
    /// It was queued; it will never start.
    Canceled,
    /// It is running; its worker will be told.
    Requested,
    /// It is over already; nothing changed.
    Final,
    /// There is no such job.
    NotFound,
}

/// What became of a wish to retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAnswer {
    /// It has a new life.
    Retried,
    /// It is not over; nothing changed.
    NotFinal,
    /// Its dedupe key now belongs to this job; nothing changed.
    Taken(JobId),
    /// There is no such job.
    NotFound,
}

/// What became of a wish to run a job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunNowAnswer {
    /// It is due now. A key, a limit, a pause or a budget may hold it still.
    Due,
    /// It was due already; nothing changed.
    AlreadyDue,
    /// It is running; nothing changed.
    Running,
    /// It is over; nothing changed.
    Final,
    /// There is no such job.
    NotFound,
}

/// A wish to run a final job again from a step on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rerun {
    /// The job.
    pub job_id: JobId,
    /// This step and all that were stored after it are run again; those before it are kept.
    pub from: StepName,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RerunAnswer {
    /// It has a new life.
    Retried,
    /// It is not over; nothing changed.
    NotFinal,
    /// It has stored no step of that name; nothing changed.
    NoStep,
    /// Its dedupe key now belongs to this job; nothing changed.
    Taken(JobId),
    /// There is no such job.
    NotFound,
}

/// What became of a wish to delete a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeleteAnswer {
    /// It is gone.
    Deleted,
    /// It is running; nothing changed.
    Running,
    /// There is no such job.
    NotFound,
}

/// What became of a wish to delete a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueDeletion {
    /// Its policy and its pause are gone.
    Deleted,
    /// It has jobs that are not final; nothing changed.
    InUse {
        /// How many are queued.
        queued: u64,
        /// How many are running.
        running: u64,
    },
    /// Nobody has configured or paused it.
    NotFound,
}
