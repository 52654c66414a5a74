//! Budgets: named allowances shared by all workers.
//!
//! The windows slide, and are strict: no stretch of a second, or of 24 hours,
//! ever holds more than the budget allows. They are counted in buckets, so
//! that a budget of a million a day needs no million timestamps; a window
//! touches one bucket more than it is long, and all of these are added up,
//! which errs on the side of too few (by 2 % per second, 0.4 % per day).

use serde::{Deserialize, Serialize};

use crate::id::BudgetName;
use crate::time::Time;

/// What a budget allows. Nothing said means: no bound of that sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetPolicy {
    /// How many jobs that name it may run at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// How much may be spent in any stretch of one second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<u32>,
    /// How much may be spent in any stretch of 24 hours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_day: Option<u32>,
}

/// A budget with what was spent of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Its name.
    pub name: BudgetName,
    /// What it allows.
    pub policy: BudgetPolicy,
    /// Until then nothing may be spent (an upstream's Retry-After).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooling_until: Option<Time>,
    /// What was spent lately, in buckets of 20 ms.
    #[serde(default)]
    pub second: Window,
    /// What was spent lately, in buckets of 5 minutes.
    #[serde(default)]
    pub day: Window,
}

const SECOND: WindowShape = WindowShape { bucket_ms: 20, buckets: 50 };
const DAY: WindowShape = WindowShape { bucket_ms: 300_000, buckets: 288 };

impl Budget {
    /// A budget of which nothing was spent.
    pub fn new(name: BudgetName, policy: BudgetPolicy) -> Self {
        Self { name, policy, cooling_until: None, second: Window::default(), day: Window::default() }
    }

    /// How much may be spent at `now`, when `slots_used` jobs that name it are running.
    pub fn allowance(&self, slots_used: u32, now: Time) -> u32 {
        let slots = self.policy.slots.map_or(u32::MAX, |slots| slots.saturating_sub(slots_used));
        slots.min(self.spendable(now))
    }

    /// How much may be spent at `now`, slots aside.
    pub fn spendable(&self, now: Time) -> u32 {
        if self.is_cooling(now) {
            return 0;
        }
        let BudgetPolicy { slots: _, per_second, per_day } = self.policy;
        let left = |max: Option<u32>, window: &Window, shape| {
            max.map_or(u32::MAX, |max| max.saturating_sub(window.spent(shape, now)))
        };
        left(per_second, &self.second, SECOND).min(left(per_day, &self.day, DAY))
    }

    /// Whether the budget is cooling at `now`.
    pub fn is_cooling(&self, now: Time) -> bool {
        self.cooling_until.is_some_and(|until| now < until)
    }

    /// Writes down that `amount` was spent at `now`.
    pub fn spend(&mut self, amount: u32, now: Time) {
        if amount == 0 {
            return;
        }
        if self.policy.per_second.is_some() {
            self.second.add(SECOND, amount, now);
        }
        if self.policy.per_day.is_some() {
            self.day.add(DAY, amount, now);
        }
    }

    /// Takes what a second allows for spent at `now`: somebody may have, and nobody remembers.
    pub fn fill_second(&mut self, now: Time) {
        if let Some(per_second) = self.policy.per_second {
            self.second.add(SECOND, per_second, now);
        }
    }

    /// The first moment at which `amount` may be spent, slots aside; nothing
    /// when that is more than the budget ever allows.
    pub fn free_at(&self, amount: u32, now: Time) -> Option<Time> {
        let mut moment = self.cooling_until.map_or(now, |until| until.max(now));
        let BudgetPolicy { slots: _, per_second, per_day } = self.policy;
        for (max, window, shape) in [(per_second, &self.second, SECOND), (per_day, &self.day, DAY)] {
            if let Some(max) = max {
                moment = moment.max(window.free_at(shape, amount, max, moment)?);
            }
        }
        Some(moment)
    }

    /// What of each window is used at `now`: (per second, per day).
    pub fn used(&self, now: Time) -> (u32, u32) {
        (self.second.spent(SECOND, now), self.day.spent(DAY, now))
    }

    /// Cools down until `until`, or longer when it already does.
    pub fn cool_down(&mut self, until: Time) {
        self.cooling_until = Some(self.cooling_until.map_or(until, |other| other.max(until)));
    }

    /// Lets it cool down for so long from `now` on; no time at all ends a cool-down that is under way.
    pub fn cool_down_for(&mut self, for_ms: u64, now: Time) {
        match for_ms {
            0 => self.cooling_until = Some(now),
            _ => self.cool_down(now.plus_ms(i64::try_from(for_ms).unwrap_or(i64::MAX))),
        }
    }

    /// Takes a new policy and keeps what was spent.
    pub fn set_policy(&mut self, policy: BudgetPolicy) {
        self.policy = policy;
    }

    /// Follows a step of the store's clock by `ms`, so that no window opens early.
    pub fn shift(&mut self, ms: i64) {
        self.second.shift(SECOND, ms);
        self.day.shift(DAY, ms);
        self.cooling_until = self.cooling_until.map(|until| until.plus_ms(ms));
    }
}

#[derive(Clone, Copy)]
struct WindowShape {
    bucket_ms: i64,
    buckets: i64,
}

impl WindowShape {
    fn bucket(self, now: Time) -> i64 {
        now.ms().div_euclid(self.bucket_ms)
    }
}

/// What was spent lately: pairs of bucket and amount, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Window(Vec<(i64, u32)>);

impl Window {
    fn spent(&self, shape: WindowShape, now: Time) -> u32 {
        let oldest = shape.bucket(now) - shape.buckets;
        let recent = self.0.iter().filter(|(bucket, _)| *bucket >= oldest);
        recent.fold(0, |sum: u32, (_, amount)| sum.saturating_add(*amount))
    }

    fn add(&mut self, shape: WindowShape, amount: u32, now: Time) {
        // A store's clock may stand still for a moment but is never taken
        // back; what would lie before the newest bucket is put into it.
        let newest = self.0.last().map_or(i64::MIN, |(bucket, _)| *bucket);
        let bucket = shape.bucket(now).max(newest);
        self.0.retain(|(at, _)| *at >= bucket - shape.buckets);
        match self.0.last_mut() {
            Some((at, sum)) if *at == bucket => *sum = sum.saturating_add(amount),
            _ => self.0.push((bucket, amount)),
        }
    }

    fn free_at(&self, shape: WindowShape, amount: u32, max: u32, from: Time) -> Option<Time> {
        if amount > max {
            return None;
        }
        let mut moment = from;
        while self.spent(shape, moment).saturating_add(amount) > max {
            let oldest = shape.bucket(moment) - shape.buckets;
            let (bucket, _) = self.0.iter().find(|(bucket, _)| *bucket >= oldest)?;
            moment = Time::from_ms((bucket + shape.buckets + 1) * shape.bucket_ms);
        }
        Some(moment)
    }

    fn shift(&mut self, shape: WindowShape, ms: i64) {
        // Rounded up, so that nothing leaves its window early.
        let buckets = ms.div_euclid(shape.bucket_ms) + i64::from(ms.rem_euclid(shape.bucket_ms) > 0);
        for (bucket, _) in &mut self.0 {
            *bucket += buckets;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn budget(policy: BudgetPolicy) -> Budget {
        Budget::new(BudgetName::new("etsy").unwrap(), policy)
    }

    #[test]
    fn cooling_and_slots() {
        let now = Time::from_ms(1_000_000);
        let mut budget = budget(BudgetPolicy { slots: Some(2), ..Default::default() });
        assert_eq!(budget.allowance(0, now), 2);
        assert_eq!(budget.allowance(3, now), 0);
        budget.cool_down(now.plus_ms(500));
        budget.cool_down(now.plus_ms(100));
        assert_eq!(budget.allowance(0, now.plus_ms(499)), 0);
        assert_eq!(budget.allowance(0, now.plus_ms(500)), 2);
        assert_eq!(budget.free_at(1, now), Some(now.plus_ms(500)));
    }

    /// Fault 42: 24 hours are any 24 hours, not a calendar day.
    #[test]
    fn fault_42_a_day_is_any_24_hours() {
        let noon = Time::from_ms(20_000 * 86_400_000 + 43_200_000);
        let mut budget = budget(BudgetPolicy { per_day: Some(10), ..Default::default() });
        budget.spend(10, noon);
        let midnight = noon.plus_ms(43_200_000);
        assert_eq!(budget.allowance(0, midnight), 0);
        let free = budget.free_at(1, midnight).unwrap();
        assert!(free >= noon.plus_ms(86_400_000) && free <= noon.plus_ms(86_400_000 + 300_000));
        assert_eq!(budget.allowance(0, free), 10);
        assert_eq!(budget.allowance(0, free.plus_ms(-1)), 0);
        assert_eq!(budget.free_at(11, noon), None);
    }

    proptest! {
        /// Whatever the pattern of calls: no window of a second holds more than
        /// allowed, and a greedy caller gets nearly all of it.
        #[test]
        fn no_window_overflows(
            max in 1u32..40,
            waits in proptest::collection::vec((0i64..700, 1u32..6), 1..120),
        ) {
            let mut budget = budget(BudgetPolicy { per_second: Some(max), ..Default::default() });
            let mut now = Time::from_ms(1_700_000_000_000);
            let mut grants: Vec<(i64, u32)> = Vec::new();
            for (wait, wanted) in waits {
                now = now.plus_ms(wait);
                let granted = wanted.min(budget.allowance(0, now));
                if granted > 0 {
                    budget.spend(granted, now);
                    grants.push((now.ms(), granted));
                } else {
                    let free = budget.free_at(1, now).unwrap();
                    prop_assert!(free > now && budget.allowance(0, free) > 0);
                    prop_assert_eq!(budget.allowance(0, free.plus_ms(-1)), 0);
                }
            }
            for (start, _) in &grants {
                let sum: u32 = grants.iter()
                    .filter(|(at, _)| at >= start && *at < start + 1000)
                    .map(|(_, n)| n).sum();
                prop_assert!(sum <= max, "{sum} in the second from {start}");
            }
        }

        #[test]
        fn a_greedy_caller_gets_nearly_all(max in 1u32..500) {
            let mut budget = budget(BudgetPolicy { per_second: Some(max), ..Default::default() });
            let start = Time::from_ms(1_700_000_000_000);
            let mut total = 0u32;
            for ms in 0..10_000 {
                let now = start.plus_ms(ms);
                let granted = budget.allowance(0, now);
                budget.spend(granted, now);
                total += granted;
            }
            prop_assert!(total * 100 >= max * 10 * 95, "{total} of {}", max * 10);
        }
    }
}
