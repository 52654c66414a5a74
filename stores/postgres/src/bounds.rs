//! A cache of hints: which claims limits, budgets or crossed keys bounded the last time. Who goes by a wrong one makes a
//! round trip more, and takes what it would have taken.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::store::ClaimRequest;

/// So many are kept; then all are forgotten.
const KEPT_MAX: usize = 4_096;

/// What of claims, by their queues and kinds, was bounded.
#[derive(Default)]
pub(crate) struct Bounds(Mutex<HashSet<u64>>);

impl Bounds {
    fn kept(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the last claim of the same queues and kinds was bounded.
    pub(crate) fn are_likely(&self, request: &ClaimRequest) -> bool {
        self.kept().contains(&place(request))
    }

    /// Keeps how a claim was.
    pub(crate) fn note(&self, request: &ClaimRequest, bounded: bool) {
        let (mut kept, place) = (self.kept(), place(request));
        if !bounded {
            kept.remove(&place);
        } else if kept.len() < KEPT_MAX || kept.contains(&place) {
            kept.insert(place);
        } else {
            kept.clear();
        }
    }
}

fn place(request: &ClaimRequest) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&request.queues, &request.kinds).hash(&mut hasher);
    hasher.finish()
}
