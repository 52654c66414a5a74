//! What a worker may do with a lease when the store does not answer, by its own
//! clock: the one that counts from the start of the machine, also while it sleeps.
//!
//! A worker cannot know whether its renewal was taken until it has heard so, and
//! a store may take the job back when the lease is over. So the worker counts from
//! the moment at which it *sent* the claim or the last renewal that was taken, which
//! is never after the moment at which the store counted it, and stands still a
//! margin before the end.

/// The margin before the end of a lease, as a share of it.
pub const MARGIN_SHARE: u64 = 12;
/// The margin in looks of whoever keeps the leases: one may be late, and the next is in time.
pub const MARGIN_LOOKS: u64 = 2;

/// No lease is renewed less often than this, however long it is.
pub const RENEW_MS_MAX: u64 = 300_000;

/// A lease as its holder knows it. All times are milliseconds since the start of its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Holding {
    /// When the claim was sent, or the last renewal that was taken.
    pub sent_ms: u64,
    /// How long the lease lasts.
    pub lease_ms: u64,
    /// The time between two looks of whoever keeps the lease.
    pub look_ms: u64,
}

/// What a holder may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum May {
    /// Everything.
    Begin,
    /// Go on with what it has begun, and begin nothing.
    GoOn,
    /// Nothing: the attempt is held still until the store has said whose the job is.
    HoldStill,
}

impl Holding {
    /// When to renew: after a third, and in five minutes at the latest, so that a new epoch of the store is heard of.
    pub fn renew_at_ms(&self) -> u64 {
        self.sent_ms + (self.lease_ms / 3).min(RENEW_MS_MAX)
    }

    /// From when on nothing new is begun: two thirds.
    pub fn begin_until_ms(&self) -> u64 {
        self.sent_ms + self.lease_ms * 2 / 3
    }

    /// From when on the attempt is held still: a margin before the end.
    pub fn go_on_until_ms(&self) -> u64 {
        let margin_ms = (self.lease_ms / MARGIN_SHARE).max(MARGIN_LOOKS * self.look_ms);
        self.sent_ms + self.lease_ms.saturating_sub(margin_ms)
    }

    /// What may be done at `now_ms`. Asked before an attempt starts, at every look, and before it goes on: a
    /// claim's answer, or that to a renewal, may have come late.
    pub fn may(&self, now_ms: u64) -> May {
        if now_ms >= self.go_on_until_ms() {
            May::HoldStill
        } else if now_ms >= self.begin_until_ms() {
            May::GoOn
        } else {
            May::Begin
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For each lease: how long something new may be begun, and how long an attempt goes on.
    #[test]
    fn an_attempt_stands_still_before_its_lease_ends() {
        for (lease_ms, look_ms, begin_ms, go_on_ms) in [
            (30_000, 250, 20_000, 27_500),
            (5_000, 250, 3_333, 4_500),
            (1_000, 83, 666, 834),
            (100, 8, 66, 84),
        ] {
            let held = Holding { sent_ms: 7, lease_ms, look_ms };
            let may = |ms: u64| held.may(7 + ms);
            assert_eq!((may(0), may(begin_ms - 1), may(begin_ms)), (May::Begin, May::Begin, May::GoOn));
            assert_eq!((may(go_on_ms - 1), may(go_on_ms)), (May::GoOn, May::HoldStill), "{lease_ms}");
            assert!(go_on_ms + MARGIN_LOOKS * look_ms <= lease_ms);
        }
    }

    /// A third of a lease, and never less often than every five minutes: a worker with a long lease hears of a new epoch
    /// by its renewals.
    #[test]
    fn a_long_lease_is_renewed_every_five_minutes() {
        for (lease_ms, renew_ms) in
            [(30_000, 10_000), (900_000, 300_000), (3_600_000, 300_000), (86_400_000, 300_000)]
        {
            let held = Holding { sent_ms: 7, lease_ms, look_ms: 250 };
            assert_eq!(held.renew_at_ms(), 7 + renew_ms, "{lease_ms}");
        }
    }
}
