//! How a store without a clock of its own keeps time.
//!
//! It counts from the start of the machine, so that a jump of the wall clock
//! neither ends a lease early nor lets one live for ever, and all processes on
//! the machine that share the store agree. When the wall clock has jumped, the
//! store follows in one step that moves its leases and budgets along.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::time::{Clock, Time};

/// A wall clock that is off by less than this is not followed.
pub const STEP_MS_MIN: i64 = 1_000;

/// What a store remembers to keep time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Timekeeper {
    /// Which start of the machine the offset belongs to.
    pub boot_id: Uuid,
    /// What to add to the time since then.
    pub offset_ms: i64,
}

impl Timekeeper {
    /// Begins by the wall clock.
    pub fn begin(clock: &dyn Clock) -> Self {
        Self::at_least(Time::MIN, clock)
    }

    /// Goes on with what was saved. After a new start of the machine it begins
    /// by the wall clock, but never before `newest`, the newest moment in the store.
    pub fn resume(saved: Self, newest: Time, clock: &dyn Clock) -> Self {
        if saved.boot_id == clock.boot_id() { saved } else { Self::at_least(newest, clock) }
    }

    fn at_least(newest: Time, clock: &dyn Clock) -> Self {
        let start = clock.wall().max(newest);
        Self { boot_id: clock.boot_id(), offset_ms: start.ms() - boot_ms(clock) }
    }

    /// The store's time.
    pub fn now(&self, clock: &dyn Clock) -> Time {
        Time::from_ms(self.offset_ms + boot_ms(clock))
    }

    /// By how much the wall clock has jumped away, when the store should follow.
    pub fn drift_ms(&self, clock: &dyn Clock) -> Option<i64> {
        let drift = clock.wall().ms() - self.now(clock).ms();
        (drift.abs() >= STEP_MS_MIN).then_some(drift)
    }

    /// The timekeeper after following a jump. The caller moves leases and
    /// budgets by the same amount, in the same commit.
    pub fn stepped(self, ms: i64) -> Self {
        Self { offset_ms: self.offset_ms + ms, ..self }
    }
}

fn boot_ms(clock: &dyn Clock) -> i64 {
    i64::try_from(clock.boot_ms()).unwrap_or(i64::MAX / 2)
}
