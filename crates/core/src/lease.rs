//! The lease: the right to run one attempt, and when it may be taken back.
//!
//! A lease is not over because a moment has passed, but because [`crate::transition::expire`]
//! has moved its job, and that takes two looks: the first marks it, the second,
//! a wait later by the store's clock, takes it back. Whoever was cut off by an
//! outage of the store has that long to renew, and a renewal clears the mark.

use serde::{Deserialize, Serialize};

use crate::id::WorkerName;
use crate::time::Time;

/// The shortest and the longest wait between the two looks at a lease.
pub const WAIT_MS: std::ops::RangeInclusive<u32> = 1_000..=60_000;

/// The right to run one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// Who holds it.
    pub worker: WorkerName,
    /// The fence of this claim: greater than that of every earlier claim of the job.
    pub fence: u64,
    /// When the attempt started.
    pub started_at: Time,
    /// By how much a renewal moves the expiry.
    pub lease_ms: u32,
    /// From this moment on the job may be taken back. Until it is, the lease still counts.
    pub expires_at: Time,
    /// Somebody asked for the job to be canceled.
    #[serde(default)]
    pub cancel_requested: bool,
    /// When it was last seen near its end without a renewal: the first of the two looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub marked_at: Option<Time>,
}

/// What a look at a lease finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// There is nothing to do yet.
    Early,
    /// It is near its end, and was not marked, or too long ago: it is marked now.
    Mark,
    /// It has run out, and nobody has renewed it since it was marked: it is taken back.
    Take,
}

impl Lease {
    /// Whether a write that names `fence` counts. It does as long as the job runs with this lease, also after
    /// its end.
    pub fn admits(&self, fence: u64) -> bool {
        self.fence == fence
    }

    /// The time between the two looks, in milliseconds: a third of the lease, within [`WAIT_MS`].
    pub fn wait_ms(&self) -> i64 {
        wait_ms(self.lease_ms)
    }

    /// When the next look at it may find something to do. Until it is marked that is its last third, of a long
    /// lease its last minute: a mark that is made then is old enough at the end and not too old, so that the
    /// job of a worker that died is taken back at the end of its lease, or within a second of it.
    pub fn look_at(&self) -> Time {
        match self.marked_at {
            None => self.expires_at.plus_ms(-near_end_ms(self.lease_ms)),
            Some(marked_at) => self.expires_at.max(marked_at.plus_ms(self.wait_ms())),
        }
    }

    /// What is to be done with it at `now`.
    pub fn look(&self, now: Time) -> Look {
        if now < self.look_at() {
            return Look::Early;
        }
        match self.mark(now) {
            None => Look::Mark,
            Some(_) => Look::Take,
        }
    }

    /// The mark, as long as it counts: one older than two waits is none. Between it and `now` the store may
    /// have been away, and whoever holds the lease had no way to renew it. (A new epoch clears all marks.)
    fn mark(&self, now: Time) -> Option<Time> {
        self.marked_at.filter(|marked_at| now <= marked_at.plus_ms(2 * self.wait_ms()))
    }

    /// Counts the beginning of an epoch at `now` as a renewal. Clocks of two machines differ: no lease becomes shorter.
    pub(crate) fn renew_from(&mut self, now: Time) {
        self.expires_at = self.expires_at.max(now.plus_ms(i64::from(self.lease_ms)));
        self.marked_at = None;
    }

    /// Moves its end from `now` on, and clears the mark.
    pub(crate) fn renew(&mut self, now: Time) {
        self.expires_at = now.plus_ms(i64::from(self.lease_ms));
        self.marked_at = None;
    }

    /// Moves along when the store's clock steps by `ms`.
    pub(crate) fn shift(&mut self, ms: i64) {
        self.expires_at = self.expires_at.plus_ms(ms);
        self.marked_at = self.marked_at.map(|at| at.plus_ms(ms));
    }
}

/// The time between the two looks at a lease of this length.
pub fn wait_ms(lease_ms: u32) -> i64 {
    i64::from((lease_ms / 3).clamp(*WAIT_MS.start(), *WAIT_MS.end()))
}

/// How long before its end a lease of this length is marked.
pub fn near_end_ms(lease_ms: u32) -> i64 {
    i64::from(lease_ms / 3).min(wait_ms(lease_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_ms(1_000_000_000);

    fn lease(lease_ms: u32) -> Lease {
        Lease {
            worker: WorkerName::new("w").expect("a name"),
            fence: 1,
            started_at: NOW,
            lease_ms,
            expires_at: NOW.plus_ms(i64::from(lease_ms)),
            cancel_requested: false,
            marked_at: None,
        }
    }

    /// For each length: when it is marked, and when a lease that was marked then is taken, counted from the claim.
    #[test]
    fn a_worker_that_died_is_taken_back_at_the_end_of_its_lease_or_within_a_second() {
        for (lease_ms, marked_ms, taken_ms) in [
            (100, 67, 1_067),
            (2_999, 2_000, 3_000),
            (3_000, 2_000, 3_000),
            (30_000, 20_000, 30_000),
            (180_000, 120_000, 180_000),
            (600_000, 540_000, 600_000),
            (86_400_000, 86_340_000, 86_400_000),
        ] {
            let mut lease = lease(lease_ms);
            let at = |ms: i64| NOW.plus_ms(ms);
            assert_eq!((lease.look(at(marked_ms - 1)), lease.look(at(marked_ms))), (Look::Early, Look::Mark));
            lease.marked_at = Some(at(marked_ms));
            assert_eq!(lease.look_at(), at(taken_ms), "{lease_ms}");
            assert_eq!((lease.look(at(taken_ms - 1)), lease.look(at(taken_ms))), (Look::Early, Look::Take));
            let stale_ms = marked_ms + 2 * lease.wait_ms();
            assert_eq!((lease.look(at(stale_ms)), lease.look(at(stale_ms + 1))), (Look::Take, Look::Mark));
            assert!(taken_ms <= i64::from(lease_ms) + 1_000);
        }
    }
}
