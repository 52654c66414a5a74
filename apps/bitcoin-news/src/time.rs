//! Moments as people and feeds write them.

use jiff::Timestamp;

/// `2026-01-31T12:00:00Z`.
pub fn iso(ms: i64) -> String {
    moment(ms).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `Sat, 31 Jan 2026 12:00:00 +0000`, as RSS has it.
pub fn rfc2822(ms: i64) -> String {
    moment(ms).strftime("%a, %d %b %Y %H:%M:%S +0000").to_string()
}

fn moment(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn moments() {
        assert_eq!(super::iso(1_767_182_400_000), "2025-12-31T12:00:00Z");
        assert_eq!(super::rfc2822(1_767_182_400_000), "Wed, 31 Dec 2025 12:00:00 +0000");
    }
}
