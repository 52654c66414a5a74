//! Ladders: retry delays as data, such as `1m 5m 15m 30m 1h`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Invalid;
use crate::time::Span;

/// How many rungs a ladder may have.
pub const RUNGS_MAX: usize = 100;

/// The delays between attempts. Empty means: no retries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ladder(Vec<Span>);

impl Ladder {
    /// No retries.
    pub const NONE: Ladder = Ladder(Vec::new());

    /// The ladder of whoever says nothing: four days, so that a weekend's outage is survived.
    pub fn default_rungs() -> Self {
        const MINUTE_MS: u64 = 60_000;
        const HOUR_MS: u64 = 60 * MINUTE_MS;
        let rungs_ms = [
            10_000,
            MINUTE_MS,
            5 * MINUTE_MS,
            30 * MINUTE_MS,
            2 * HOUR_MS,
            6 * HOUR_MS,
            12 * HOUR_MS,
            24 * HOUR_MS,
            24 * HOUR_MS,
            24 * HOUR_MS,
        ];
        Self(rungs_ms.map(Span::from_ms).to_vec())
    }

    /// A ladder of these rungs.
    pub fn new(rungs: Vec<Span>) -> Result<Self, Invalid> {
        if rungs.len() > RUNGS_MAX {
            return Err(Invalid::new("ladder", format!("has more than {RUNGS_MAX} rungs")));
        }
        Ok(Self(rungs))
    }

    /// The delay after the `attempt`-th attempt (counted from 1) failed: its rung,
    /// or the last one for whoever has climbed past it.
    fn delay_ms(&self, attempt: u32) -> Option<u64> {
        let rung = usize::try_from(attempt.checked_sub(1)?).ok()?;
        self.0.get(rung).or(self.0.last()).map(|span| span.ms())
    }

    /// How many attempts the ladder allows: one more than it has rungs.
    pub fn attempts(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX - 1) + 1
    }

    /// Refuses so many attempts: none at all, or more than one by a ladder without
    /// rungs, where nothing says when the next would be.
    pub fn check_attempts(&self, max: Option<u32>) -> Result<(), Invalid> {
        match max {
            Some(0) => Err(Invalid::new("max_attempts", "is 0; at least 1 is needed")),
            Some(max) if max > 1 && self.0.is_empty() => {
                let why = format!("is {max}, but the ladder has no rung to wait by; give it one, such as 1m");
                Err(Invalid::new("max_attempts", why))
            }
            _ => Ok(()),
        }
    }

    /// How many attempts there are when `max` are wanted. A ladder without rungs has one in any case.
    pub fn attempts_within(&self, max: Option<u32>) -> u32 {
        match max {
            Some(max) if !self.0.is_empty() => max.max(1),
            _ => self.attempts(),
        }
    }

    /// The delay after the `attempt`-th failed, when `max` attempts are wanted: beyond the last rung that
    /// rung repeats.
    pub fn delay_ms_within(&self, max: Option<u32>, attempt: u32) -> Option<u64> {
        if attempt >= self.attempts_within(max) { None } else { self.delay_ms(attempt) }
    }

    /// The rungs.
    pub fn rungs(&self) -> &[Span] {
        &self.0
    }
}

impl fmt::Display for Ladder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (at, rung) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{rung}")?;
        }
        Ok(())
    }
}

impl FromStr for Ladder {
    type Err = Invalid;

    /// Rungs parted by spaces or commas; empty or `none` for no retries.
    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text.trim() == "none" {
            return Ok(Self::NONE);
        }
        let rungs = text.split([' ', ',']).filter(|rung| !rung.is_empty());
        let rungs: Result<Vec<Span>, Invalid> = rungs.map(str::parse).collect();
        Self::new(rungs.map_err(|error| Invalid::new("ladder", format!("has a rung whose {error}")))?)
    }
}

impl Serialize for Ladder {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ladder {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How often a job is tried, and with which delays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryRule {
    /// The delays.
    pub ladder: Ladder,
    /// Fewer attempts than the ladder has rungs and one; or more, when its last rung repeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
}

impl RetryRule {
    /// Refuses a rule that cannot be kept.
    pub fn check(&self) -> Result<(), Invalid> {
        self.ladder.check_attempts(self.max_attempts)
    }

    /// How many attempts there are at most: what is said, or the ladder's length plus one.
    pub fn attempts_max(&self) -> u32 {
        self.ladder.attempts_within(self.max_attempts)
    }

    /// The delay before the next attempt, after the `attempt`-th failed.
    pub fn delay_ms(&self, attempt: u32) -> Option<u64> {
        self.ladder.delay_ms_within(self.max_attempts, attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ladder_is_text_and_back() {
        for (text, written, attempts) in [
            ("1m 5m 15m 30m 1h", "1m 5m 15m 30m 1h", 6),
            ("1m,5m, 15m", "1m 5m 15m", 4),
            ("", "none", 1),
            ("none", "none", 1),
        ] {
            let ladder: Ladder = text.parse().unwrap();
            assert_eq!(ladder.to_string(), written);
            assert_eq!(ladder.attempts(), attempts);
        }
        assert!("1m soon".parse::<Ladder>().is_err());
        assert!(vec!["1s"; 101].join(" ").parse::<Ladder>().is_err());
    }

    #[test]
    fn attempts_are_what_is_said_and_the_last_rung_repeats() {
        let rule = |max_attempts| RetryRule { ladder: "1s 2s".parse().unwrap(), max_attempts };
        for (max, attempts, delays) in [
            (None, 3, [Some(1000), Some(2000), None, None]),
            (Some(2), 2, [Some(1000), None, None, None]),
            (Some(4), 4, [Some(1000), Some(2000), Some(2000), None]),
            (Some(0), 1, [None, None, None, None]),
        ] {
            let rule = rule(max);
            assert_eq!(rule.attempts_max(), attempts);
            assert_eq!([1, 2, 3, 4].map(|attempt| rule.delay_ms(attempt)), delays);
            assert_eq!(rule.delay_ms(0), None);
        }
        let none = RetryRule { ladder: Ladder::NONE, max_attempts: Some(5) };
        assert_eq!((none.attempts_max(), none.delay_ms(1)), (1, None));
    }
}
