//! The allowance: how many jobs a worker may still begin. A quota that claims
//! take from before they ask, and give back what they did not get, so that all
//! pools together never claim more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Nobody counts.
const WITHOUT_END: usize = usize::MAX;

/// How many jobs may still be begun.
pub(crate) struct Allowance {
    left: AtomicUsize,
    /// How many were begun, and how many may be in all.
    begun: AtomicUsize,
    most: usize,
    /// Something was given back: whoever waits for slots may ask.
    given_back: Notify,
}

/// A part of it that a claim has taken, until it is dropped.
pub(super) struct Allowed {
    allowance: Arc<Allowance>,
    jobs: usize,
    used: usize,
}

impl Allowance {
    pub(super) fn new(jobs_max: Option<u64>) -> Arc<Self> {
        let left = jobs_max.map_or(WITHOUT_END, |max| usize::try_from(max).unwrap_or(WITHOUT_END - 1));
        let begun = AtomicUsize::new(0);
        Arc::new(Self { left: AtomicUsize::new(left), begun, most: left, given_back: Notify::new() })
    }

    /// Whether all that may be begun have been: what claims have taken and may give back is not.
    pub(super) fn is_spent(&self) -> bool {
        self.begun.load(Ordering::SeqCst) >= self.most
    }

    /// How many may be asked for beside the claims that are under way.
    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::SeqCst)
    }

    /// Takes as many as wanted, or as there are.
    pub(super) fn take(self: &Arc<Self>, wanted: usize) -> Allowed {
        let mut jobs = wanted;
        let _ = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            jobs = wanted.min(left);
            (left != WITHOUT_END).then(|| left - jobs)
        });
        Allowed { allowance: self.clone(), jobs, used: 0 }
    }

    /// Waits until something is given back, from the moment on at which this was called.
    pub(super) fn more(&self) -> Notified<'_> {
        self.given_back.notified()
    }
}

impl Allowed {
    pub(super) fn jobs(&self) -> usize {
        self.jobs
    }

    /// So many jobs were begun.
    pub(super) fn used(&mut self, jobs: usize) {
        self.used = jobs.min(self.jobs);
        self.allowance.begun.fetch_add(self.used, Ordering::SeqCst);
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        let unused = self.jobs - self.used;
        if unused == 0 || self.allowance.left() == WITHOUT_END {
            return;
        }
        self.allowance.left.fetch_add(unused, Ordering::SeqCst);
        self.allowance.given_back.notify_waiters();
    }
}
