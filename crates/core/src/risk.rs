//! What a store knows of its own set-up.

use serde::{Deserialize, Serialize};

/// Something in the set-up of a store that may lose something, or slows it down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Risk {
    /// What it is, in a sentence.
    pub what: String,
    /// What to do about it.
    pub next: String,
}

impl Risk {
    /// A risk and what to do about it.
    pub fn new(what: impl Into<String>, next: impl Into<String>) -> Self {
        Self { what: what.into(), next: next.into() }
    }

    /// What is to be said of the disk that `what` is on, with so many bytes free of all that it has.
    pub fn of_disk(what: &str, free_bytes: u64, all_bytes: u64) -> Option<Self> {
        let percent = free_bytes.saturating_mul(100) / all_bytes.max(1);
        let nearly_full = percent < DISK_PERCENT_MIN && free_bytes < DISK_BYTES_ENOUGH;
        (nearly_full || free_bytes < DISK_BYTES_MIN).then(|| {
            Self::new(
                format!(
                    "the disk of {what} is nearly full: {} MB ({percent} %) are free",
                    free_bytes / 1_000_000
                ),
                "free some space, or give it a larger disk: when it is full, no job is accepted any more",
            )
        })
    }
}

/// With less than this free, a disk is nearly full,
const DISK_BYTES_MIN: u64 = 512 << 20;
/// or with less than so many percent,
const DISK_PERCENT_MIN: u64 = 5;
/// unless that is this much.
const DISK_BYTES_ENOUGH: u64 = 20 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_nearly_full_by_share_or_by_bytes() {
        const GIB: u64 = 1 << 30;
        for (free, all, told) in [
            (50 * GIB, 100 * GIB, false),
            (4 * GIB, 100 * GIB, true),
            (30 * GIB, 1_000 * GIB, false),
            (GIB / 4, GIB, true),
            (GIB, 2 * GIB, false),
            (0, 0, true),
        ] {
            assert_eq!(Risk::of_disk("it", free, all).is_some(), told, "{free} of {all}");
        }
        let risk = Risk::of_disk("/var/lib/windlass.db", GIB, 100 * GIB).expect("a risk");
        assert!(
            risk.what.contains("/var/lib/windlass.db") && risk.what.contains("1073 MB (1 %)"),
            "{}",
            risk.what
        );
    }
}
