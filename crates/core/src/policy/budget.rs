//! Budgets: named allowances shared by all workers.
//!
//! The windows slide, and are strict: no stretch of a second, of a minute or of
//! 24 hours ever holds more than the budget allows. They are counted in buckets,
//! so that a budget of a million a day needs no million timestamps; a window
//! touches one bucket more than it is long, and all of these are added up,
//! which errs on the side of too few (by 2 % per second and per minute, 0.4 % per day).

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
    /// How much may be spent in any stretch of one minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_minute: Option<u32>,
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
    /// What was spent lately, in buckets of a second.
    #[serde(default)]
    pub minute: Window,
    /// What was spent lately, in buckets of 5 minutes.
    #[serde(default)]
    pub day: Window,
}

/// What of each window of a budget is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Used {
    /// In the last second.
    pub second: u32,
    /// In the last minute.
    pub minute: u32,
    /// In the last 24 hours.
    pub day: u32,
}

/// A budget as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BudgetStatus {
    /// The budget.
    pub budget: Budget,
    /// How many running jobs name it.
    pub slots_used: u32,
    /// What was spent lately.
    pub used: Used,
    /// When something of it may be spent again, when nothing may now.
    pub free_at: Option<Time>,
}

const SECOND: WindowShape = WindowShape { bucket_ms: Budget::SECOND_BUCKET_MS, buckets: 50 };
const MINUTE: WindowShape = WindowShape { bucket_ms: Budget::MINUTE_BUCKET_MS, buckets: 60 };
const DAY: WindowShape = WindowShape { bucket_ms: 300_000, buckets: 288 };

impl Budget {
    /// How long a bucket of [`Budget::second`] is, for a store that fills windows by a statement of its own.
    pub const SECOND_BUCKET_MS: i64 = 20;
    /// How long a bucket of [`Budget::minute`] is.
    pub const MINUTE_BUCKET_MS: i64 = 1_000;

    /// A budget of which nothing was spent.
    pub fn new(name: BudgetName, policy: BudgetPolicy) -> Self {
        let [second, minute, day] = [Window::default(), Window::default(), Window::default()];
        Self { name, policy, cooling_until: None, second, minute, day }
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
        let left = |(bound, window, shape): (Option<u32>, &Window, WindowShape)| {
            bound.map(|bound| bound.saturating_sub(window.spent(shape, now)))
        };
        self.windows().into_iter().filter_map(left).min().unwrap_or(u32::MAX)
    }

    /// Each window with its bound and its shape.
    fn windows(&self) -> [(Option<u32>, &Window, WindowShape); 3] {
        let BudgetPolicy { slots: _, per_second, per_minute, per_day } = self.policy;
        [(per_second, &self.second, SECOND), (per_minute, &self.minute, MINUTE), (per_day, &self.day, DAY)]
    }

    fn windows_mut(&mut self) -> [(Option<u32>, &mut Window, WindowShape); 3] {
        let BudgetPolicy { slots: _, per_second, per_minute, per_day } = self.policy;
        [
            (per_second, &mut self.second, SECOND),
            (per_minute, &mut self.minute, MINUTE),
            (per_day, &mut self.day, DAY),
        ]
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
        for (bound, window, shape) in self.windows_mut() {
            if bound.is_some() {
                window.add(shape, amount, now);
            }
        }
    }

    /// Takes what a second allows for spent at `now`, where an epoch begins, and where commits may be lost what a minute
    /// does: somebody may have, and nobody remembers. Not what a day allows: to stand still for a day costs more than
    /// what the lost commits can have spent.
    pub fn fill(&mut self, lossy: bool, now: Time) {
        let [second, minute, _] = self.windows_mut();
        for (bound, window, shape) in [Some(second), lossy.then_some(minute)].into_iter().flatten() {
            if let Some(bound) = bound {
                window.add(shape, bound, now);
            }
        }
    }

    /// The first moment at which `amount` may be spent, slots aside; nothing
    /// when that is more than the budget ever allows.
    pub fn free_at(&self, amount: u32, now: Time) -> Option<Time> {
        let mut moment = self.cooling_until.map_or(now, |until| until.max(now));
        for (bound, window, shape) in self.windows() {
            if let Some(bound) = bound {
                moment = moment.max(window.free_at(shape, amount, bound, moment)?);
            }
        }
        Some(moment)
    }

    /// The beginning of the newest bucket: nothing was spent before it that is not counted. Nothing when nothing was.
    pub fn spent_until(&self) -> Option<Time> {
        let newest = |(_, window, shape): (Option<u32>, &Window, WindowShape)| {
            window.0.last().map(|(bucket, _)| Time::from_ms(bucket.saturating_mul(shape.bucket_ms)))
        };
        self.windows().into_iter().filter_map(newest).max()
    }

    /// What of each window is used at `now`.
    pub fn used(&self, now: Time) -> Used {
        let [second, minute, day] = self.windows().map(|(_, window, shape)| window.spent(shape, now));
        Used { second, minute, day }
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
        for (_, window, shape) in self.windows_mut() {
            window.shift(shape, ms);
        }
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

    /// A minute is any 60 seconds, and of all windows the narrowest decides.
    #[test]
    fn a_minute_is_any_60_seconds() {
        let start = Time::from_ms(1_700_000_030_500);
        let policy = BudgetPolicy { per_second: Some(6), per_minute: Some(10), ..Default::default() };
        let mut budget = budget(policy);
        budget.spend(6, start);
        assert_eq!((budget.allowance(0, start), budget.allowance(0, start.plus_ms(1_100))), (0, 4));
        budget.spend(4, start.plus_ms(1_100));
        assert_eq!(budget.used(start.plus_ms(2_200)), Used { second: 0, minute: 10, day: 0 });
        let free = budget.free_at(1, start.plus_ms(2_200)).unwrap();
        assert!(free >= start.plus_ms(60_000) && free <= start.plus_ms(61_000), "{free}");
        assert_eq!((budget.allowance(0, free.plus_ms(-1)), budget.allowance(0, free)), (0, 6));
        assert_eq!(budget.free_at(11, start), None);
    }

    #[test]
    fn an_epoch_fills_what_is_short() {
        let now = Time::from_ms(1_700_000_000_000);
        let policy = BudgetPolicy { slots: None, per_second: Some(2), per_minute: Some(5), per_day: Some(9) };
        let mut budget = budget(policy);
        budget.fill(false, now);
        assert_eq!(budget.used(now), Used { second: 2, minute: 0, day: 0 });
        let later = now.plus_ms(2_000);
        budget.fill(true, later);
        assert_eq!(budget.used(later), Used { second: 2, minute: 5, day: 0 });
    }

    proptest! {
        /// Whatever the pattern of calls: no window of a second or of a minute holds more than
        /// allowed, and a greedy caller gets nearly all of it.
        #[test]
        fn no_window_overflows(
            max in 1u32..40,
            minutes in any::<bool>(),
            waits in proptest::collection::vec((0i64..700, 1u32..6), 1..120),
        ) {
            let (window_ms, policy) = match minutes {
                true => (60_000, BudgetPolicy { per_minute: Some(max), ..Default::default() }),
                false => (1_000, BudgetPolicy { per_second: Some(max), ..Default::default() }),
            };
            let mut budget = budget(policy);
            let mut now = Time::from_ms(1_700_000_000_000);
            let mut grants: Vec<(i64, u32)> = Vec::new();
            for (wait, wanted) in waits {
                now = now.plus_ms(wait * window_ms / 1_000);
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
                    .filter(|(at, _)| at >= start && *at < start + window_ms)
                    .map(|(_, n)| n).sum();
                prop_assert!(sum <= max, "{sum} in the {window_ms} ms from {start}");
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
