//! What the head of an answer tells of the limits.

use http::HeaderMap;

/// The four numbers. Each may be missing: Etsy's own pages disagree about when they come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Quota {
    /// How many calls a second may hold.
    pub per_second: Option<u32>,
    /// How many of this second's are left.
    pub left_this_second: Option<u32>,
    /// How many calls 24 hours may hold.
    pub per_day: Option<u32>,
    /// How many of the last 24 hours' are left.
    pub left_today: Option<u32>,
}

impl Quota {
    /// Reads the head of an answer.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse().ok();
        // Etsy's page prints the name without its last letter.
        let left = number("x-remaining-this-second").or_else(|| number("x-remaining-this-secon"));
        Self {
            per_second: number("x-limit-per-second").filter(|limit| *limit > 0),
            left_this_second: left,
            per_day: number("x-limit-per-day").filter(|limit| *limit > 0),
            left_today: number("x-remaining-today"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(pairs: &[(&'static str, &'static str)]) -> Quota {
        let headers =
            pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Quota::of(&headers)
    }

    #[test]
    fn every_header_is_optional_and_both_spellings_are_read() {
        assert_eq!(quota(&[]), Quota::default());
        assert_eq!(quota(&[("x-remaining-this-secon", "3")]).left_this_second, Some(3));
        assert_eq!(quota(&[("x-remaining-this-second", "4")]).left_this_second, Some(4));
        let all =
            quota(&[("x-limit-per-second", "10"), ("x-limit-per-day", "x"), ("x-remaining-today", "0")]);
        assert_eq!((all.per_second, all.per_day, all.left_today), (Some(10), None, Some(0)));
        assert_eq!(quota(&[("x-limit-per-day", "0")]).per_day, None, "a limit of nothing is no limit");
    }
}
