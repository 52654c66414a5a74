//! How long things took: a histogram of a few numbers that can be put together with another one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How many took how long. A step is a quarter of the power of two below it, so that what is said of it is off by a
/// quarter at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Spread(BTreeMap<u8, u32>);

impl Spread {
    pub(super) fn note(&mut self, ms: u64) {
        let count = self.0.entry(step(ms)).or_default();
        *count = count.saturating_add(1);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What another one of the same time has seen, which may be more.
    pub(super) fn merge(&mut self, other: &Self) {
        for (step, count) in &other.0 {
            let mine = self.0.entry(*step).or_default();
            *mine = (*mine).max(*count);
        }
    }

    /// What was seen at another time.
    pub(super) fn add(&mut self, other: &Self) {
        for (step, count) in &other.0 {
            let mine = self.0.entry(*step).or_default();
            *mine = mine.saturating_add(*count);
        }
    }

    /// 95 of a hundred took no longer.
    pub(super) fn p95(&self) -> Option<u64> {
        let all: u64 = self.0.values().map(|count| u64::from(*count)).sum();
        let wanted = (all * 95).div_ceil(100);
        let mut seen = 0;
        let step = self.0.iter().find(|(_, count)| {
            seen += u64::from(**count);
            seen >= wanted
        });
        step.map(|(step, _)| longest(*step))
    }
}

/// In which step a time is.
fn step(ms: u64) -> u8 {
    let Some(power) = ms.checked_ilog2().filter(|power| *power >= 2) else { return ms as u8 };
    let quarter = (ms >> (power - 2)) & 3;
    (4 * (power - 1) + quarter as u32) as u8
}

/// The longest time of a step.
fn longest(step: u8) -> u64 {
    if step < 4 {
        return u64::from(step);
    }
    let (power, quarter) = (u32::from(step) / 4 + 1, u64::from(step) % 4);
    let width = 1_u64.checked_shl(power - 2).unwrap_or(u64::MAX);
    (quarter + 4).saturating_mul(width).saturating_add(width - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_within_a_quarter_of_what_is_said() {
        for ms in (0..5_000).chain([59_999, 3_600_000, u64::from(u32::MAX), u64::MAX / 2, u64::MAX]) {
            let said = longest(step(ms));
            assert!(said >= ms && said - ms <= ms / 4, "{ms} is said to be {said}");
        }
    }

    #[test]
    fn the_slow_ones_are_seen() {
        let mut spread = Spread::default();
        assert_eq!(spread.p95(), None);
        (0..95).for_each(|_| spread.note(4));
        (0..5).for_each(|_| spread.note(1_000_000));
        assert_eq!(spread.p95(), Some(4));
        spread.note(1_000_000);
        assert!(spread.p95().is_some_and(|ms| ms >= 1_000_000));
    }
}
