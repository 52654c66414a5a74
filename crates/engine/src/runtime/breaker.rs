//! Breakers: a kind whose attempts all fail is left alone for a while, so that
//! its jobs wait without using up their attempts (fault 39).

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use windlass_core::id::Kind;

/// When to leave a kind alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// After so many failed attempts in a row.
    pub failures: u32,
    /// For so long at first, twice as long each time it goes on failing.
    pub rest_ms: u64,
    /// But never longer than this.
    pub rest_ms_max: u64,
}

impl Default for BreakerPolicy {
    fn default() -> Self {
        Self { failures: 20, rest_ms: 5_000, rest_ms_max: 300_000 }
    }
}

/// The breakers of a worker, one for each kind that has failed.
pub(crate) struct Breakers {
    policy: Option<BreakerPolicy>,
    kinds: Mutex<HashMap<Kind, Breaker>>,
}

#[derive(Debug, Default)]
struct Breaker {
    failures: u32,
    rests: u32,
    /// Since the start of the machine.
    resting_until_ms: u64,
    /// One attempt is out to see whether it is over.
    trying: bool,
}

impl Breakers {
    pub(crate) fn new(policy: Option<BreakerPolicy>) -> Self {
        Self { policy, kinds: Mutex::default() }
    }

    /// Of `kinds`, those that may be claimed now, and how many at most when
    /// one of them is only being tried.
    pub(crate) fn open(&self, kinds: &[Kind], now_ms: u64) -> Vec<Kind> {
        let breakers = self.lock();
        let rests = |kind: &Kind| breakers.get(kind).is_some_and(|b| b.trying || now_ms < b.resting_until_ms);
        kinds.iter().filter(|kind| !rests(kind)).cloned().collect()
    }

    /// Of `kinds`, one whose rest is over and of which a single job may be tried.
    pub(crate) fn to_try(&self, kinds: &[Kind], now_ms: u64) -> Option<Kind> {
        let breakers = self.lock();
        let over = |kind: &&Kind| {
            breakers.get(*kind).is_some_and(|b| b.rests > 0 && !b.trying && now_ms >= b.resting_until_ms)
        };
        kinds.iter().find(over).cloned()
    }

    /// When the next rest is over.
    pub(crate) fn next_ms(&self, now_ms: u64) -> Option<u64> {
        self.lock().values().map(|b| b.resting_until_ms).filter(|at| *at > now_ms).min().map(|at| at - now_ms)
    }

    /// A single job of a kind is out to see whether it is over.
    pub(crate) fn trying(&self, kind: &Kind) {
        if let Some(breaker) = self.lock().get_mut(kind) {
            breaker.trying = true;
        }
    }

    /// An attempt of a kind has ended.
    pub(crate) fn ended(&self, kind: &Kind, failed: bool, now_ms: u64) {
        let Some(policy) = self.policy else { return };
        let mut breakers = self.lock();
        if !failed {
            breakers.remove(kind);
            return;
        }
        let breaker = breakers.entry(kind.clone()).or_default();
        breaker.failures += 1;
        if breaker.trying || (breaker.rests == 0 && breaker.failures >= policy.failures) {
            breaker.trying = false;
            let rest_ms = policy.rest_ms.saturating_mul(1 << breaker.rests.min(20)).min(policy.rest_ms_max);
            breaker.rests += 1;
            breaker.resting_until_ms = now_ms + rest_ms;
            tracing::warn!(%kind, rest_ms, failures = breaker.failures, "all attempts of this kind fail; leaving it alone");
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Kind, Breaker>> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 39: after a run of failures the kind rests, is tried by one job
    /// alone, rests longer when that fails, and is free when it succeeds.
    #[test]
    fn fault_39_a_failing_kind_rests() {
        let kind = Kind::new("call-api").unwrap();
        let kinds = [kind.clone()];
        let policy = BreakerPolicy { failures: 3, rest_ms: 100, rest_ms_max: 150 };
        let breakers = Breakers::new(Some(policy));
        for _ in 0..2 {
            breakers.ended(&kind, true, 0);
        }
        assert_eq!(breakers.open(&kinds, 0), kinds);
        breakers.ended(&kind, true, 0);
        assert!(breakers.open(&kinds, 99).is_empty());
        assert_eq!(breakers.next_ms(40), Some(60));
        assert_eq!(breakers.to_try(&kinds, 100), Some(kind.clone()));
        breakers.trying(&kind);
        assert!(breakers.open(&kinds, 100).is_empty() && breakers.to_try(&kinds, 100).is_none());
        breakers.ended(&kind, true, 100);
        assert!(breakers.to_try(&kinds, 249).is_none());
        assert_eq!(breakers.to_try(&kinds, 250), Some(kind.clone()));
        breakers.trying(&kind);
        breakers.ended(&kind, false, 250);
        assert_eq!(breakers.open(&kinds, 250), kinds);
        assert!(breakers.to_try(&kinds, 250).is_none());
    }
}
