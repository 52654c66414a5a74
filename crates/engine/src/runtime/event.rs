//! What a worker does, for whoever wants to hear it: lines for people, metrics.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::id::JobId;
use windlass_core::job::Job;
use windlass_core::transition::Outcome;

/// Something that a worker did.
#[derive(Debug)]
#[non_exhaustive]
pub enum WorkerEvent<'a> {
    /// An attempt begins.
    Started {
        /// Its job, as it was claimed.
        job: &'a Job,
    },
    /// An attempt has ended; it is about to be settled.
    Ended {
        /// Its job, as it was claimed.
        job: &'a Job,
        /// How.
        outcome: &'a Outcome,
        /// How long it ran.
        took: Duration,
    },
    /// A lease is lost; the attempt is stopped, and what it gave is dropped.
    Lost {
        /// The job.
        job_id: JobId,
        /// The fence that counts no more.
        fence: u64,
    },
}

/// Who hears what a worker does.
pub(crate) type OnEvent = Arc<dyn Fn(&WorkerEvent<'_>) + Send + Sync>;
