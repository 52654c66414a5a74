//! Time as a number: milliseconds since 1970, UTC. Nothing here reads a clock.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::Invalid;

/// A moment, in milliseconds since 1970-01-01 UTC, between the years 1970 and 9999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The first moment: 1970-01-01T00:00:00.000Z.
    pub const MIN: Time = Time(0);
    /// The last moment: 9999-12-30T22:00:00.000Z, so that it is in the year 9999 in every zone.
    pub const MAX: Time = Time(253_402_207_200_000);

    /// The moment `ms` milliseconds after 1970, held within [`Time::MIN`] and [`Time::MAX`].
    pub const fn from_ms(ms: i64) -> Self {
        if ms < Self::MIN.0 {
            Self::MIN
        } else if ms > Self::MAX.0 {
            Self::MAX
        } else {
            Self(ms)
        }
    }

    /// Milliseconds since 1970.
    pub const fn ms(self) -> i64 {
        self.0
    }

    /// This moment moved by `ms` milliseconds, forwards or back.
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self::from_ms(self.0.saturating_add(ms))
    }

    /// How many milliseconds this moment lies after `earlier`; 0 when it does not.
    pub const fn ms_since(self, earlier: Time) -> u64 {
        if self.0 <= earlier.0 { 0 } else { (self.0 - earlier.0) as u64 }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl FromStr for Time {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let moment: jiff::Timestamp = text.parse().map_err(|_| {
            Invalid::new("time", format!("{text:?} is not a moment such as 2026-01-31T12:00:00.000Z"))
        })?;
        let ms = moment.as_millisecond();
        if !(Self::MIN.0..=Self::MAX.0).contains(&ms) {
            return Err(Invalid::new("time", format!("{text:?} lies outside the years 1970 to 9999")));
        }
        Ok(Self(ms))
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A length of time, written `700ms`, `30s`, `5m`, `2h` or `1d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span(u64);

impl Span {
    /// The longest length of time that is accepted: 3650 days.
    pub const MAX: Span = Span(3650 * 86_400_000);

    /// A length of `ms` milliseconds, at most [`Span::MAX`].
    pub const fn from_ms(ms: u64) -> Self {
        if ms > Self::MAX.0 { Self::MAX } else { Self(ms) }
    }

    /// Milliseconds.
    pub const fn ms(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
        for (ms, unit) in UNITS {
            if self.0 >= ms && self.0.is_multiple_of(ms) {
                return write!(f, "{}{unit}", self.0 / ms);
            }
        }
        write!(f, "{}ms", self.0)
    }
}

impl FromStr for Span {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let refuse = || {
            Invalid::new(
                "duration",
                format!("{text:?} is not a length of time such as 700ms, 30s, 5m, 2h or 1d"),
            )
        };
        let digits = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(refuse)?;
        let number: u64 = text[..digits].parse().map_err(|_| refuse())?;
        let unit_ms = match &text[digits..] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return Err(refuse()),
        };
        match number.checked_mul(unit_ms) {
            Some(ms) if ms <= Self::MAX.0 => Ok(Self(ms)),
            _ => Err(Invalid::new("duration", format!("{text:?} is longer than 3650d"))),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Where a store that has no clock of its own (json, sqlite) reads the time.
///
/// Two readings, because a wall clock jumps: an embedded store keeps time by
/// `boot_ms` and follows jumps of `wall` only in a way that moves its leases along.
pub trait Clock: Send + Sync {
    /// The wall clock.
    fn wall(&self) -> Time;

    /// Milliseconds since this machine was started, counting through suspend.
    fn boot_ms(&self) -> u64;

    /// Which start of the machine `boot_ms` counts from.
    fn boot_id(&self) -> uuid::Uuid;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_read_back_as_written() {
        let time: Time = "2026-11-15T20:44:52.123456Z".parse().unwrap();
        assert_eq!(time.to_string(), "2026-11-15T20:44:52.123Z");
        assert_eq!("1970-01-01T00:00:00Z".parse::<Time>().unwrap(), Time::MIN);
        assert_eq!(Time::MAX.to_string(), "9999-12-30T22:00:00.000Z");
        for absurd in
            ["", "yesterday", "1969-12-31T23:59:59Z", "-9999-01-01T00:00:00Z", "2026-02-30T00:00:00Z"]
        {
            assert!(absurd.parse::<Time>().is_err(), "{absurd}");
        }
        assert_eq!(Time::MAX.plus_ms(i64::MAX), Time::MAX);
        assert_eq!(Time::MIN.plus_ms(i64::MIN), Time::MIN);
    }

    #[test]
    fn spans_read_back_as_written() {
        for text in ["700ms", "30s", "5m", "2h", "1d", "90s", "0ms"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        for bad in ["", "5", "m", "-5m", "5 m", "5w", "1.5h", "99999999d", "18446744073709551616ms"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
    }
}
