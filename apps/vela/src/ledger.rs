//! The ledger of calls: what may be asked of Etsy now, over all workers.
//!
//! Etsy counts a call when it arrives, which is somewhere between its grant and
//! its end. So a call counts here from its grant until a second (or a day)
//! after its end: no stretch of time can then hold more calls, as Etsy counts
//! them, than the limit. One whose worker was killed ends at its time limit.

use serde::{Deserialize, Serialize};
use windlass_engine::core::policy::budget::{Budget, Used};
use windlass_engine::{BudgetName, BudgetPolicy, Time};
use windlass_outside::etsy::Quota;

/// When a call may end at any moment, it is asked again this soon.
const SOON_MS: u64 = 20;

/// Calls that are under way, and calls that were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The limits, and what has ended within them.
    budget: Budget,
    /// What was granted and has not ended.
    flights: Vec<Flight>,
}

/// A call that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Flight {
    id: u64,
    /// Then it has ended in any case.
    until: Time,
}

/// What a call is granted by.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// How long it may take.
    pub total_ms: u64,
    /// The share of the day that is not for it.
    pub reserved_percent: u32,
}

/// What became of a wish to call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granted {
    /// Call now.
    Now,
    /// Ask again in so many milliseconds.
    In(u64),
}

impl Ledger {
    /// An empty ledger with these limits.
    pub fn new(name: BudgetName, per_second: Option<u32>, per_day: Option<u32>) -> Self {
        let policy = BudgetPolicy { per_second, per_day, ..BudgetPolicy::default() };
        Self { budget: Budget::new(name, policy), flights: Vec::new() }
    }

    /// Grants a call, or says when to ask again.
    pub fn grant(&mut self, id: u64, terms: Terms, now: Time) -> Granted {
        self.land_overdue(now);
        let mut allowed = self.budget.clone();
        if let Some(per_day) = &mut allowed.policy.per_day {
            let kept = u64::from(*per_day) * u64::from(terms.reserved_percent) / 100;
            *per_day = per_day.saturating_sub(u32::try_from(kept).unwrap_or(u32::MAX));
        }
        let wanted = u32::try_from(self.flights.len()).unwrap_or(u32::MAX).saturating_add(1);
        if allowed.spendable(now) >= wanted {
            self.flights
                .push(Flight { id, until: now.plus_ms(i64::try_from(terms.total_ms).unwrap_or(i64::MAX)) });
            return Granted::Now;
        }
        // With more under way than ever fits, one of them has to end first.
        let free = allowed.free_at(wanted, now).map(|free| free.ms_since(now)).filter(|ms| *ms > 0);
        let day_is_full = allowed.policy.per_day.is_some_and(|per_day| allowed.used(now).day >= per_day);
        let one = || allowed.free_at(1, now).map(|free| free.ms_since(now)).filter(|ms| *ms > 0);
        Granted::In(free.or_else(|| if day_is_full { one() } else { None }).unwrap_or(SOON_MS))
    }

    /// A call has ended, and its answer told this.
    pub fn ended(&mut self, id: u64, told: Quota, now: Time) {
        self.land_overdue(now);
        let Some(at) = self.flights.iter().position(|flight| flight.id == id) else {
            return self.told(told, now);
        };
        self.flights.swap_remove(at);
        self.budget.spend(1, now);
        self.told(told, now);
    }

    /// Nothing may be asked for a while.
    pub fn cool_down(&mut self, ms: u64, now: Time) {
        self.budget.cool_down(now.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX)));
    }

    /// Follows what Etsy says: its limits, and what others have spent of them. What it counts less is its affair:
    /// its own counting has been wrong before.
    fn told(&mut self, told: Quota, now: Time) {
        let Quota { per_second, left_this_second, per_day, left_today } = told;
        let policy = &mut self.budget.policy;
        policy.per_second = per_second.or(policy.per_second);
        policy.per_day = per_day.or(policy.per_day);
        let limits = *policy;
        let flights = u32::try_from(self.flights.len()).unwrap_or(u32::MAX);
        let Used { second, day, .. } = self.budget.used(now);
        let unknown = |limit: Option<u32>, left: Option<u32>, ours: u32| match (limit, left) {
            (Some(limit), Some(left)) => {
                limit.saturating_sub(left).saturating_sub(ours.saturating_add(flights))
            }
            _ => 0,
        };
        let of_second = unknown(limits.per_second, left_this_second, second);
        let of_day = unknown(limits.per_day, left_today, day);
        self.budget.policy = BudgetPolicy { per_day: None, ..limits };
        self.budget.spend(of_second, now);
        self.budget.policy = BudgetPolicy { per_second: None, ..limits };
        self.budget.spend(of_day, now);
        self.budget.policy = limits;
    }

    /// What nobody heard of any more has ended at its time limit.
    fn land_overdue(&mut self, now: Time) {
        let (overdue, flying): (Vec<Flight>, Vec<Flight>) =
            self.flights.iter().partition(|flight| flight.until <= now);
        self.flights = flying;
        for flight in overdue {
            self.budget.spend(1, flight.until);
        }
    }

    /// What is used of each window, with what is under way: (per second, per day).
    pub fn used(&self, now: Time) -> (u32, u32) {
        let flights = u32::try_from(self.flights.len()).unwrap_or(u32::MAX);
        let Used { second, day, .. } = self.budget.used(now);
        (second.saturating_add(flights), day.saturating_add(flights))
    }

    /// The limits as they are known.
    pub fn limits(&self) -> BudgetPolicy {
        self.budget.policy
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TERMS: Terms = Terms { total_ms: 10_000, reserved_percent: 0 };

    fn ledger(per_second: Option<u32>, per_day: Option<u32>) -> Ledger {
        Ledger::new(BudgetName::new("etsy").unwrap(), per_second, per_day)
    }

    fn at(ms: i64) -> Time {
        Time::from_ms(1_800_000_000_000 + ms)
    }

    #[test]
    fn a_call_counts_until_a_second_after_its_end() {
        let mut ledger = ledger(Some(1), None);
        assert_eq!(ledger.grant(1, TERMS, at(0)), Granted::Now);
        assert!(matches!(ledger.grant(2, TERMS, at(5_000)), Granted::In(_)), "it is still under way");
        ledger.ended(1, Quota::default(), at(6_000));
        assert!(matches!(ledger.grant(2, TERMS, at(6_900)), Granted::In(ms) if ms >= 100));
        assert_eq!(ledger.grant(2, TERMS, at(7_020)), Granted::Now);
    }

    #[test]
    fn a_call_whose_worker_was_killed_ends_at_its_time_limit() {
        let mut ledger = ledger(Some(1), None);
        assert_eq!(ledger.grant(1, TERMS, at(0)), Granted::Now);
        assert!(matches!(ledger.grant(2, TERMS, at(10_500)), Granted::In(_)));
        assert_eq!(ledger.grant(2, TERMS, at(11_020)), Granted::Now);
    }

    #[test]
    fn a_share_of_the_day_is_kept() {
        let mut ledger = ledger(None, Some(10));
        let regular = Terms { reserved_percent: 30, ..TERMS };
        for id in 0..7 {
            assert_eq!(ledger.grant(id, regular, at(0)), Granted::Now);
            ledger.ended(id, Quota::default(), at(1));
        }
        let Granted::In(ms) = ledger.grant(8, regular, at(2)) else { panic!("the share was given away") };
        assert!(ms >= 86_000_000, "{ms}");
        for id in 10..13 {
            assert_eq!(ledger.grant(id, TERMS, at(3)), Granted::Now, "users have the rest");
            ledger.ended(id, Quota::default(), at(3));
        }
        assert!(matches!(ledger.grant(14, TERMS, at(4)), Granted::In(ms) if ms > 86_000_000));
    }

    #[test]
    fn headers_correct_what_others_have_spent() {
        let mut ledger = ledger(Some(5), Some(100));
        assert_eq!(ledger.grant(1, TERMS, at(0)), Granted::Now);
        let told = Quota {
            per_second: Some(50),
            left_this_second: Some(49),
            per_day: Some(1_000),
            left_today: Some(600),
        };
        ledger.ended(1, told, at(10));
        assert_eq!((ledger.limits().per_second, ledger.limits().per_day), (Some(50), Some(1_000)));
        assert_eq!(ledger.used(at(10)), (1, 400));
        ledger.ended(99, Quota { left_today: Some(900), ..told }, at(20));
        assert_eq!(ledger.used(at(20)).1, 400, "what Etsy forgets is not forgotten here");
    }

    proptest! {
        /// However long calls take, whenever they arrive within their time, whether or not their end was heard:
        /// no second holds more of them, as Etsy counts, than the limit.
        #[test]
        fn no_second_holds_more_than_its_limit(
            max in 1u32..8,
            calls in proptest::collection::vec((0i64..400, 1i64..3_000, 0u8..4), 1..80),
        ) {
            let mut ledger = ledger(Some(max), None);
            let terms = Terms { total_ms: 3_000, reserved_percent: 0 };
            let (mut now, mut arrivals, mut ends): (i64, Vec<i64>, Vec<(i64, u64)>) = (0, vec![], vec![]);
            for (id, (wait, takes, fate)) in calls.into_iter().enumerate() {
                now += wait;
                loop {
                    ends.sort_unstable();
                    while ends.first().is_some_and(|(end, _)| *end <= now) {
                        let (end, id) = ends.remove(0);
                        ledger.ended(id, Quota::default(), at(end));
                    }
                    match ledger.grant(id as u64, terms, at(now)) {
                        Granted::Now => break,
                        Granted::In(ms) => now += i64::try_from(ms).unwrap().min(ends.first().map_or(i64::MAX, |(end, _)| end - now)),
                    }
                }
                // It arrives at its beginning, in its middle or at its end; of one in four nobody hears the end.
                arrivals.push(now + match fate { 0 => 0, 1 => takes / 2, _ => takes });
                if fate != 3 {
                    ends.push((now + takes, id as u64));
                }
            }
            arrivals.sort_unstable();
            for start in &arrivals {
                let within = arrivals.iter().filter(|at| *at >= start && **at < start + 1_000).count();
                prop_assert!(within <= max as usize, "{} in the second from {}", within, start);
            }
        }
    }
}
