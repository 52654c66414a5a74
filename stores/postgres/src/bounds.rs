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

#[cfg(test)]
mod tests {
    use uuid::Uuid;
    use windlass_core::id::{Kind, QueueName, WorkerName};

    use super::*;

    fn wish(kind: &str) -> ClaimRequest {
        ClaimRequest {
            request_id: Uuid::nil(),
            worker: WorkerName::new("w").expect("a name"),
            queues: vec![QueueName::default()],
            kinds: Some(vec![Kind::new(kind).expect("a kind")]),
            limit: 1,
            lease_ms: None,
        }
    }

    #[test]
    fn a_hint_is_of_its_queues_and_kinds_and_there_are_never_too_many() {
        let bounds = Bounds::default();
        bounds.note(&wish("a"), true);
        assert!(bounds.are_likely(&wish("a")) && !bounds.are_likely(&wish("b")));
        bounds.note(&wish("a"), false);
        assert!(!bounds.are_likely(&wish("a")));
        for n in 0..=KEPT_MAX {
            bounds.note(&wish(&n.to_string()), true);
        }
        assert!(bounds.kept().len() <= KEPT_MAX);
    }
}
