//! A pool: queues of a worker that share slots, with what it claims and holds for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use windlass_core::id::{JobId, QueueName};

use super::doubt::Doubts;
use super::standby::Standby;
use crate::signal::Attempt;
use crate::slots::Slots;

/// A pool that has, or may have, something to do.
pub(super) const NOT_IDLE: u64 = u64::MAX;

/// Queues that share slots. Each pool has a producer of its own.
pub(crate) struct Pool {
    pub(crate) queues: Vec<QueueName>,
    pub(crate) slots: Arc<Slots>,
    pub(super) standby: Standby,
    held: Mutex<HashMap<JobId, Arc<Attempt>>>,
    /// New work: ask the store.
    pub(super) work: Notify,
    /// A claim came back full.
    pub(super) full_news: Notify,
    /// The last claim of the producer gave all that was asked for: there is more.
    pub(super) full: AtomicBool,
    /// The last claim found nothing, and nothing becomes due by time alone: how often leases had been held
    /// and let go by then. It says nothing of what is there after the next; [`NOT_IDLE`] otherwise.
    pub(super) idle_at: AtomicU64,
    /// How many jobs the claims that are under way may give.
    pub(super) asked: AtomicUsize,
    /// Claims that may still be carried out.
    pub(super) doubts: Doubts,
}

impl Pool {
    pub(crate) fn new(queues: Vec<QueueName>, slots: usize) -> Self {
        Self {
            queues,
            slots: Slots::new(slots),
            standby: Standby::new(),
            held: Mutex::default(),
            work: Notify::new(),
            full_news: Notify::new(),
            full: AtomicBool::new(false),
            idle_at: AtomicU64::new(NOT_IDLE),
            asked: AtomicUsize::new(0),
            doubts: Doubts::default(),
        }
    }

    /// The attempts whose leases are held for it, running or about to be settled.
    pub(super) fn held(&self) -> Vec<Arc<Attempt>> {
        self.lock_held().values().cloned().collect()
    }

    pub(super) fn held_count(&self) -> usize {
        self.lock_held().len()
    }

    /// Answers with the attempt whose lease this one has taken the place of: it was lost, and nobody has said so yet.
    pub(super) fn hold(&self, attempt: Arc<Attempt>) -> Option<Arc<Attempt>> {
        self.lock_held().insert(attempt.lease.job_id, attempt)
    }

    /// Lets go of a lease, unless the job was claimed here again in the meantime.
    pub(super) fn let_go(&self, job_id: JobId, fence: u64) {
        let mut held = self.lock_held();
        if held.get(&job_id).is_some_and(|attempt| attempt.lease.fence == fence) {
            held.remove(&job_id);
            self.slots.room_made();
        }
    }

    fn lock_held(&self) -> MutexGuard<'_, HashMap<JobId, Arc<Attempt>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
