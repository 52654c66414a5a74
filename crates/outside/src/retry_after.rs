//! When an upstream wants to be asked again.

use std::time::{Duration, UNIX_EPOCH};

/// What a `Retry-After` header says: a delay, or a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryAfter {
    /// So long after the answer.
    Delay(Duration),
    /// At this moment, in seconds since 1970 UTC.
    At(u64),
}

impl RetryAfter {
    /// The longest wait that is believed. An upstream that asks for more is
    /// asked again after this, so that a typing error of theirs is no outage of ours.
    pub const MAX: Duration = Duration::from_secs(7 * 86_400);

    /// Reads the header's value: seconds, or a date in any of HTTP's three forms.
    pub fn parse(value: &str) -> Option<Self> {
        let value = value.trim();
        if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
            let seconds = value.parse().unwrap_or(u64::MAX);
            return Some(Self::Delay(Duration::from_secs(seconds).min(Self::MAX)));
        }
        let moment = httpdate::parse_http_date(value).ok()?;
        Some(Self::At(moment.duration_since(UNIX_EPOCH).ok()?.as_secs()))
    }

    /// How long to wait from `now_ms` (milliseconds since 1970), at most [`RetryAfter::MAX`].
    pub fn delay(self, now_ms: u64) -> Duration {
        match self {
            Self::Delay(delay) => delay,
            Self::At(seconds) => {
                Duration::from_millis(seconds.saturating_mul(1000).saturating_sub(now_ms)).min(Self::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates() {
        let seconds = |n| Some(RetryAfter::Delay(Duration::from_secs(n)));
        let at = Some(RetryAfter::At(784_111_777));
        for (value, expected) in [
            ("120", seconds(120)),
            (" 0 ", seconds(0)),
            ("99999999999999999999999", Some(RetryAfter::Delay(RetryAfter::MAX))),
            ("Sun, 06 Nov 1994 08:49:37 GMT", at),
            ("Sunday, 06-Nov-94 08:49:37 GMT", at),
            ("Sun Nov  6 08:49:37 1994", at),
            ("", None),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
            ("1960-01-01", None),
        ] {
            assert_eq!(RetryAfter::parse(value), expected, "{value:?}");
        }
    }

    #[test]
    fn a_date_counts_from_now() {
        let at = RetryAfter::At(1_000);
        assert_eq!(at.delay(990_500), Duration::from_millis(9_500));
        assert_eq!(at.delay(2_000_000), Duration::ZERO);
        assert_eq!(RetryAfter::At(u64::MAX).delay(0), RetryAfter::MAX);
    }
}
