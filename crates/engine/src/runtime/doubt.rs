//! Questions of which nobody knows whether they are over.
//!
//! A claim whose answer was lost is asked again under the same id, and gives the same leases. But a store that was frozen may
//! give nothing to the one that is asked again, and carry out the first one a moment later: nobody would hear what that gave, and
//! healthy jobs would be booked as crashed. So the id of such a question is asked with once more, until it gives something or
//! its time is over: whatever was carried out under it is heard of then. When that was, nobody says; not before the last
//! moment at which the store was asked and had given nothing under it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use uuid::Uuid;

/// How long after a question failed it may still be carried out.
const DOUBT_MS: u64 = 60_000;
/// How many are remembered; more are not under way at once.
const DOUBTS_MAX: usize = 16;

/// A question that may still be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Doubt {
    pub(super) request_id: Uuid,
    /// Whose it was and what it asked for: a question that asks for anything else needs an id of its own.
    pub(super) asked: String,
    /// It was not carried out before this moment of the boot clock.
    pub(super) asked_ms: u64,
    until_ms: u64,
}

impl Doubt {
    /// One that was asked at `asked_ms` and failed at `now_ms`.
    pub(super) fn new(request_id: Uuid, asked: String, asked_ms: u64, now_ms: u64) -> Self {
        Self { request_id, asked, asked_ms, until_ms: now_ms + DOUBT_MS }
    }
}

/// Those of a pool.
#[derive(Default)]
pub(super) struct Doubts(Mutex<Vec<Doubt>>);

impl Doubts {
    /// Remembers one.
    pub(super) fn keep(&self, doubt: Doubt) {
        let mut doubts = self.lock();
        if doubts.len() >= DOUBTS_MAX {
            doubts.remove(0);
        }
        doubts.push(doubt);
    }

    /// Takes one out that asked for the same, to ask with it once more.
    pub(super) fn take(&self, asked: impl FnOnce() -> String, now_ms: u64) -> Option<Doubt> {
        let mut doubts = self.lock();
        doubts.retain(|doubt| doubt.until_ms > now_ms);
        if doubts.is_empty() {
            return None;
        }
        let asked = asked();
        let at = doubts.iter().position(|doubt| doubt.asked == asked)?;
        Some(doubts.remove(at))
    }

    /// Whether somebody should ask again soon.
    pub(super) fn is_any(&self, now_ms: u64) -> bool {
        self.lock().iter().any(|doubt| doubt.until_ms > now_ms)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Doubt>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_doubt_is_for_the_same_question_and_ends() {
        let doubts = Doubts::default();
        let [first, second] =
            [1, 2].map(|id| Doubt::new(Uuid::from_u128(id), format!("asked {id}"), 900, 1_000));
        doubts.keep(first.clone());
        doubts.keep(second);
        assert_eq!(doubts.take(|| "asked 3".to_owned(), 1_000), None);
        assert_eq!(doubts.take(|| "asked 1".to_owned(), 1_000), Some(first));
        assert_eq!(doubts.take(|| "asked 1".to_owned(), 1_000), None);
        assert!(doubts.is_any(1_000 + DOUBT_MS - 1) && !doubts.is_any(1_000 + DOUBT_MS));
        assert_eq!(doubts.take(|| "asked 2".to_owned(), 1_000 + DOUBT_MS), None);
        for id in 0..2 * DOUBTS_MAX {
            doubts.keep(Doubt::new(Uuid::from_u128(id as u128), String::new(), 0, 0));
        }
        assert_eq!(doubts.lock().len(), DOUBTS_MAX);
    }
}
