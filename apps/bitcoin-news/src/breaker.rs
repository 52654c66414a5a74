//! The circuit breaker of the model: when it does not answer, nobody waits for it in vain.
//!
//! It knows what this process has seen, and nothing is stored: other processes find out for themselves.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::reason::Reason;

/// So many questions in a row that came to nothing are an outage. One alone is not: of a thousand questions some
/// fail, and the others need not wait for them.
const FAILURES: u32 = 2;

/// The breaker.
#[derive(Debug, Default)]
pub struct Breaker(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// Questions in a row that came to nothing.
    failures: u32,
    /// Until then it is left alone, since it does not answer.
    open_until_ms: i64,
    /// Until then it wants to be left alone.
    asked_until_ms: i64,
    /// Why.
    reason: Option<Reason>,
}

impl Breaker {
    /// Why the model is not to be asked now, and for how long; nothing when it may be. After an outage one
    /// question finds out whether it is over: the others wait for so long as it is given.
    pub fn enter(&self, probe_ms: i64, now_ms: i64) -> Option<(Reason, Duration)> {
        let mut seen = self.seen();
        let until_ms = seen.open_until_ms.max(seen.asked_until_ms);
        if until_ms > now_ms {
            let reason = seen.reason.clone().unwrap_or_else(|| Reason::model_away("resting"));
            return Some((reason, Duration::from_millis((until_ms - now_ms).unsigned_abs())));
        }
        if seen.failures >= FAILURES {
            seen.open_until_ms = now_ms.saturating_add(probe_ms);
        }
        None
    }

    /// The model has answered, whatever it said.
    pub fn answered(&self) {
        let mut seen = self.seen();
        (seen.failures, seen.open_until_ms) = (0, 0);
    }

    /// A question came to nothing: enough of them, and the model rests for so long.
    pub fn failed(&self, reason: &Reason, rest_ms: i64, now_ms: i64) {
        let mut seen = self.seen();
        seen.failures = seen.failures.saturating_add(1);
        seen.reason = Some(reason.clone());
        if seen.failures >= FAILURES {
            seen.open_until_ms = seen.open_until_ms.max(now_ms.saturating_add(rest_ms));
        }
    }

    /// The model asks for a pause: it has it at once.
    pub fn pause(&self, pause_ms: i64, now_ms: i64) {
        let mut seen = self.seen();
        seen.asked_until_ms = seen.asked_until_ms.max(now_ms.saturating_add(pause_ms));
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rests(breaker: &Breaker, now_ms: i64) -> Option<u64> {
        let (reason, time) = breaker.enter(10, now_ms)?;
        assert_eq!(reason.as_str(), "model_away: timeout");
        Some(u64::try_from(time.as_millis()).unwrap())
    }

    #[test]
    fn two_failures_in_a_row_are_an_outage() {
        let (breaker, why) = (Breaker::default(), Reason::model_away("timeout"));
        breaker.failed(&why, 10, 0);
        assert_eq!(rests(&breaker, 0), None);
        breaker.answered();
        breaker.failed(&why, 10, 0);
        assert_eq!(rests(&breaker, 0), None, "one in between was answered");
        breaker.failed(&why, 10, 0);
        assert_eq!(rests(&breaker, 4), Some(6));
        assert_eq!(rests(&breaker, 10), None, "one finds out");
        assert_eq!(rests(&breaker, 11), Some(9), "and the others wait");
        breaker.failed(&why, 10, 15);
        assert_eq!(rests(&breaker, 16), Some(9), "it is not over");
        assert_eq!(rests(&breaker, 25), None);
        breaker.answered();
        assert_eq!((rests(&breaker, 26), rests(&breaker, 26)), (None, None), "it is over, for all");
    }

    #[test]
    fn a_pause_that_is_asked_for_is_not_cut_short() {
        let (breaker, why) = (Breaker::default(), Reason::model_away("timeout"));
        breaker.failed(&why, 10, 0);
        breaker.pause(100, 0);
        breaker.answered();
        assert_eq!(rests(&breaker, 50), Some(50));
        assert_eq!(rests(&breaker, 100), None);
    }
}
