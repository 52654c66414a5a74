//! Which rows this program holds, so that a write finds its row again.

use std::collections::{HashMap, VecDeque};
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

/// How many rows are remembered after their end, for a settlement that is asked again.
const ENDED_MAX: usize = 1_024;
/// How many rows are held at most. A worker has far fewer slots; this bounds what
/// is left behind by attempts that nobody settled.
const HELD_MAX: usize = 100_000;

/// The rows, by job.
#[derive(Default)]
pub(crate) struct Leases(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    by_job: HashMap<JobId, Held>,
    /// Those that have ended, the oldest first.
    ended: VecDeque<LeaseRef>,
}

impl Leases {
    pub(crate) fn put(&self, id: JobId, held: Held) {
        let mut rows = self.rows();
        if rows.by_job.len() >= HELD_MAX
            && let Some(any) = rows.by_job.keys().next().copied()
        {
            rows.by_job.remove(&any);
        }
        rows.by_job.insert(id, held);
    }

    /// The row of a lease, when it was given to this program.
    pub(crate) fn of(&self, lease: &LeaseRef) -> Option<Held> {
        self.rows().by_job.get(&lease.job_id).filter(|held| held.fence == lease.fence).cloned()
    }

    /// A lease is settled, or lost. It is known for a while still; those that
    /// are held stay, however many others come and go.
    pub(crate) fn end(&self, lease: LeaseRef) {
        let mut rows = self.rows();
        rows.ended.push_back(lease);
        if rows.ended.len() > ENDED_MAX
            && let Some(oldest) = rows.ended.pop_front()
            && rows.by_job.get(&oldest.job_id).is_some_and(|held| held.fence == oldest.fence)
        {
            rows.by_job.remove(&oldest.job_id);
        }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn lease(leases: &Leases, n: usize) -> LeaseRef {
        let job_id = JobId(Uuid::from_u128(n as u128));
        let held = Held {
            fence: 1,
            row_id: n.to_string(),
            owner: "w".into(),
            column_fence: 1,
            tries: 1,
            lease_ms: 1_000,
        };
        leases.put(job_id, held);
        LeaseRef::new(job_id, 1)
    }

    #[test]
    fn a_held_row_outlives_all_that_end() {
        let leases = Leases::default();
        let held = lease(&leases, 0);
        for n in 1..=HELD_MAX + 1 {
            let ended = lease(&leases, n);
            leases.end(ended);
            assert!(leases.of(&ended).is_some(), "the last to end may be settled again");
        }
        assert!(leases.of(&held).is_some());
        assert_eq!(leases.rows().by_job.len(), ENDED_MAX + 1);
    }
}
