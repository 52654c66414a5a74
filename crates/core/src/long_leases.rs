//! The longest leases that were claimed from a queue within a day: an epoch that may have lost commits waits for them.
//!
//! A sliding maximum. What is kept is a staircase: whoever comes later is shorter, so that one that is forgotten uncovers
//! the one behind it. A lease is remembered for a day and up to [`SLACK_MS`] longer, so that claims of one length write
//! once in that time, and a queue has no more than [`STEPS_MAX`] of them.

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// For how long a lease is remembered at least.
pub const DAY_MS: i64 = 86_400_000;
/// For how much longer at most.
pub const SLACK_MS: i64 = 3_600_000;
/// How many are kept of a queue, at most: two are at least [`SLACK_MS`] apart.
pub const STEPS_MAX: usize = ((DAY_MS + SLACK_MS) / SLACK_MS) as usize + 1;

/// What a queue remembers of the leases that were claimed from it, the longest first, each with until when.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LongLeases(Vec<(u32, Time)>);

impl LongLeases {
    /// Remembers a lease that is claimed now. Changes nothing when one that is as long is remembered for a day to come.
    pub fn note(&mut self, lease_ms: u32, now: Time) {
        let day = now.plus_ms(DAY_MS);
        if self.0.iter().any(|(ms, until)| *ms >= lease_ms && *until >= day) {
            return;
        }
        self.0.retain(|(ms, _)| *ms > lease_ms);
        self.0.push((lease_ms, day.plus_ms(SLACK_MS)));
    }

    /// Forgets what was claimed more than a day ago. Nothing else does: of a history that ended days ago, and is gone on with
    /// now, the last day is that before its end.
    pub fn forget(&mut self, now: Time) {
        self.0.retain(|(_, until)| *until >= now);
    }

    /// The longest that is remembered; 0 when there is none.
    pub fn longest_ms(&self) -> u32 {
        self.0.first().map_or(0, |(ms, _)| *ms)
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Follows a step of the store's clock.
    pub fn shift(&mut self, ms: i64) {
        for (_, until) in &mut self.0 {
            *until = until.plus_ms(ms);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BEGAN: Time = Time::from_ms(1_800_000_000_000);

    #[test]
    fn one_that_is_forgotten_uncovers_the_one_behind_it() {
        let mut leases = LongLeases::default();
        leases.note(60_000, BEGAN);
        leases.note(50_000, BEGAN.plus_ms(2 * SLACK_MS));
        let mut longest_at = |ms: i64| {
            leases.forget(BEGAN.plus_ms(ms));
            leases.longest_ms()
        };
        assert_eq!(longest_at(DAY_MS), 60_000);
        assert_eq!(longest_at(DAY_MS + SLACK_MS + 1), 50_000);
        assert_eq!(longest_at(DAY_MS + 3 * SLACK_MS + 1), 0);
    }

    #[test]
    fn a_step_of_the_clock_makes_no_memory_longer() {
        let mut leases = LongLeases::default();
        leases.note(60_000, BEGAN);
        leases.shift(-DAY_MS);
        leases.forget(BEGAN.plus_ms(SLACK_MS + 1));
        assert!(leases.is_empty());
    }

    proptest! {
        /// At least the longest of a day, at most the longest of a day and an hour, in few steps.
        #[test]
        fn the_longest_of_a_day_is_known(claims in prop::collection::vec((1u32..9, 0i64..7_200_000), 1..120)) {
            let (mut leases, mut now, mut past) = (LongLeases::default(), BEGAN, Vec::new());
            for (lease_ms, later) in claims {
                now = now.plus_ms(later);
                leases.note(lease_ms, now);
                past.push((lease_ms, now));
                leases.forget(now);
                let within = |ms: i64| {
                    let recent = past.iter().filter(|(_, at)| *at >= now.plus_ms(-ms));
                    recent.map(|(lease_ms, _)| *lease_ms).max().unwrap_or(0)
                };
                prop_assert!((within(DAY_MS)..=within(DAY_MS + SLACK_MS)).contains(&leases.longest_ms()));
                prop_assert!(leases.0.len() <= STEPS_MAX);
                prop_assert!(leases.0.windows(2).all(|pair| pair[0].0 > pair[1].0 && pair[0].1 < pair[1].1));
            }
        }
    }
}
