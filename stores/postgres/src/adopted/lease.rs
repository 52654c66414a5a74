//! Which rows this program holds, so that a write finds its row again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::id::JobId;
use windlass_core::store::LeaseRef;

/// A row that is held, or was.
#[derive(Debug, Clone)]
pub(crate) struct Held {
    pub(crate) fence: u64,
    pub(crate) row_id: String,
    pub(crate) owner: String,
    /// What the fence column says; 0 without one.
    pub(crate) column_fence: i64,
    pub(crate) tries: u32,
    pub(crate) lease_ms: i64,
}

/// How many rows are remembered; the oldest are dropped, and count as lost.
const HELD_MAX: usize = 100_000;

/// The rows, by job.
#[derive(Default)]
pub(crate) struct Leases(Mutex<HashMap<JobId, Held>>);

impl Leases {
    pub(crate) fn put(&self, id: JobId, held: Held) {
        let mut rows = self.rows();
        if rows.len() >= HELD_MAX {
            rows.clear();
        }
        rows.insert(id, held);
    }

    /// The row of a lease, when it was given to this program.
    pub(crate) fn of(&self, lease: &LeaseRef) -> Option<Held> {
        self.rows().get(&lease.job_id).filter(|held| held.fence == lease.fence).cloned()
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<JobId, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
