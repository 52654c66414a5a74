//! The epoch of a store: a stretch of its history that nobody has cut.
//!
//! A history may be cut: a standby is promoted that had not heard of the newest
//! commits, a dump is restored, a file is copied or put back. What the lost commits
//! handed out is still in the world: leases, fences, positions of events. A store
//! that notices it begins a new epoch, which
//!
//! - lifts the floor of all fences above whatever may have been handed out,
//! - counts as a renewal of every lease that it knows of, and clears all marks,
//! - makes positions of events of before unreadable, so that nobody goes on from one,
//! - and, where commits may be lost, holds back for a while the jobs that somebody in the lost history may hold.
//!
//! How a store notices is its own business; what follows from it is decided here.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::job::Job;
use crate::time::Time;

/// How far apart the floors of two epochs are at least: no job is claimed that often in between.
pub const FLOOR_STEP: u64 = 1 << 20;
/// Below this is what chance adds to a floor: two epochs of one ancestor may begin in one second and not know of each
/// other.
pub const FLOOR_CHANCE: u64 = 1 << 19;
/// Floors count seconds from here: 2020-01-01.
const FLOOR_ORIGIN_MS: i64 = 1_577_836_800_000;
/// How far the clock of a client may be ahead of the store's for an id of its making to be believed.
pub const CLOCKS_APART_MS: i64 = 1_000;
/// The longest that an epoch holds back anything, unless a setting says otherwise.
pub const PAUSE_MS_MAX: u32 = 900_000;

/// A stretch of a store's history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Epoch {
    /// Counted from 1.
    pub number: u64,
    /// Which store this is, in which epoch: drawn anew with each.
    pub instance: Uuid,
    /// No fence that is handed out from now on is below this.
    pub floor: u64,
    /// When it began, by the store's clock.
    pub began_at: Time,
    /// Jobs with a lower number were accepted before it.
    pub first_seq: u64,
    /// Whether commits of before may be lost.
    pub lossy: bool,
}

impl Default for Epoch {
    fn default() -> Self {
        Self::first(Uuid::nil())
    }
}

impl Epoch {
    /// The first epoch of a store that is made now.
    pub fn first(instance: Uuid) -> Self {
        Self { number: 1, instance, floor: 0, began_at: Time::MIN, first_seq: 0, lossy: false }
    }

    /// The epoch after this one. `chance` is any number.
    pub fn next(&self, instance: Uuid, chance: u64, first_seq: u64, lossy: bool, now: Time) -> Self {
        let floor = lifted(self.floor, chance, now);
        Self { number: self.number + 1, instance, floor, began_at: now, first_seq, lossy }
    }

    /// Follows a step of the store's clock by `ms`. The first epoch began before all time.
    pub fn shift(&mut self, ms: i64) {
        if self.number > 1 {
            self.began_at = self.began_at.plus_ms(ms);
        }
    }

    /// What positions of events of this epoch begin with.
    pub fn tag(&self) -> u32 {
        self.instance.as_fields().0
    }

    /// Until when jobs of a queue are held back of which somebody in the lost history may hold the same, given what was fixed
    /// for it when the epoch began: its longest lease. Whoever sets a shorter pause since means this one as well.
    pub fn pause_until(&self, longest_ms: u32, pause_ms_max: u32) -> Option<Time> {
        self.lossy.then(|| self.began_at.plus_ms(i64::from(longest_ms.min(pause_ms_max))))
    }

    /// Whether somebody in the lost history may hold this job, or what it needs: it was accepted before, or may have
    /// been, under the id or dedupe key of its caller; or something counts those who run, and may not have counted all.
    pub fn may_be_held(&self, job: &Job, counted: bool) -> bool {
        counted
            || job.seq < self.first_seq
            || job.spec.key.is_some()
            || job.spec.dedupe_key.is_some()
            || !self.is_new(job.id.0, job.created_at)
    }

    /// Whether an id was made in this epoch: one of version 7 says when, by the clock of whoever made it. One from after
    /// its acceptance says that this clock is ahead, and nothing of when it was made.
    fn is_new(&self, id: Uuid, accepted_at: Time) -> bool {
        let Ok(made_ms) = i64::try_from(id.as_u128() >> 80) else { return false };
        id.get_version_num() == 7
            && (self.began_at.ms()..=accepted_at.plus_ms(CLOCKS_APART_MS).ms()).contains(&made_ms)
    }
}

/// The floor that follows a floor: above all that was handed out in commits that may be lost, since nobody claims
/// [`FLOOR_STEP`] times in a second, and below 2^53 for 270 years.
pub fn lifted(floor: u64, chance: u64, now: Time) -> u64 {
    let seconds = u64::try_from((now.ms() - FLOOR_ORIGIN_MS) / 1_000).unwrap_or(0);
    let above = (floor + FLOOR_STEP).max(seconds * FLOOR_STEP);
    above / FLOOR_STEP * FLOOR_STEP + chance % FLOOR_CHANCE
}

/// The fence after `last`.
pub fn next_fence(last: u64, floor: u64) -> u64 {
    (last + 1).max(floor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_above_all_that_a_lost_history_may_have_given() {
        let now = Time::from_ms(1_800_000_000_000);
        let first = Epoch::first(Uuid::nil());
        assert_eq!((first.floor, next_fence(0, first.floor), next_fence(41, first.floor)), (0, 1, 42));
        let second = first.next(Uuid::from_u128(1), 7, 10, true, now);
        assert_eq!(second.floor % FLOOR_STEP, 7);
        assert_eq!(second.floor / FLOOR_STEP, (1_800_000_000 - 1_577_836_800));
        assert_eq!(next_fence(3, second.floor), second.floor);
        assert_eq!(next_fence(second.floor, second.floor), second.floor + 1);
        // Whatever the clock says, also one that went back, and whatever chance adds.
        for (chance, at) in [(0, now), (u64::MAX, now), (5, Time::MIN), (5, now.plus_ms(-10_000_000))] {
            let third = second.next(Uuid::from_u128(2), chance, 10, true, at);
            assert!(third.floor >= second.floor + FLOOR_STEP - FLOOR_CHANCE, "{third:?}");
            assert!(third.floor / FLOOR_STEP > second.floor / FLOOR_STEP && third.floor < 1 << 53);
        }
    }

    #[test]
    fn only_lost_commits_hold_anything_back() {
        let began = Time::from_ms(1_800_000_000_000);
        let pause = |lossy: bool, longest_ms: u32| {
            let epoch = Epoch::default().next(Uuid::nil(), 0, 0, lossy, began);
            epoch.pause_until(longest_ms, PAUSE_MS_MAX)
        };
        assert_eq!(pause(false, 30_000), None);
        assert_eq!(pause(true, 30_000), Some(began.plus_ms(30_000)));
        assert_eq!(pause(true, u32::MAX), Some(began.plus_ms(900_000)));
    }

    #[test]
    fn a_pause_is_as_long_when_the_clock_steps() {
        let began = Time::from_ms(1_800_000_000_000);
        let mut epoch = Epoch::default().next(Uuid::nil(), 0, 0, true, began);
        epoch.shift(-86_400_000);
        let ends = began.plus_ms(30_000 - 86_400_000);
        assert_eq!(epoch.pause_until(30_000, PAUSE_MS_MAX), Some(ends));
        let mut first = Epoch::default();
        first.shift(5);
        assert_eq!(first.began_at, Time::MIN);
    }

    #[test]
    fn an_id_says_whether_it_was_made_in_this_epoch() {
        let began = Time::from_ms(1_800_000_000_000);
        let epoch = Epoch::default().next(Uuid::nil(), 0, 0, true, began);
        let v7 = |ms: i64| Uuid::from_u128(((ms as u128) << 80) | (7 << 76) | (0b10 << 62) | 5);
        let is_new = |id: Uuid| epoch.is_new(id, began.plus_ms(5_000));
        assert!(is_new(v7(began.ms())) && is_new(v7(began.ms() + 1)));
        assert!(!is_new(v7(began.ms() - 1)));
        assert!(!is_new(Uuid::from_u128(u128::MAX)) && !is_new(Uuid::nil()));
        // A clock that is ahead says nothing.
        assert!(is_new(v7(began.ms() + 6_000)) && !is_new(v7(began.ms() + 6_001)));
    }
}
