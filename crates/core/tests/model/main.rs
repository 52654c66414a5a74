//! Every order of events, up to a bound: workers that crash, messages that are
//! lost, doubled and overtaken, a clock that stands or runs, cancel, keys and
//! limits, a store that freezes, workers that look at their own clock, a standby
//! that takes over without the newest commits, on the real book. Each state that can
//! be reached is looked at; so are many ways of doing it wrong, one for each rule, each
//! of which must be found. `fences` does the same for fences over epochs, clones and restores.

mod fences;
mod hearing;
mod laws;
mod search;
mod server;
mod world;

use search::{Found, search};
use server::Flaw;
use world::{Comes, End, Setting};

/// Fewer states than these would mean that the bounds have shut something out.
const STATES_MIN: usize = 10_000;

const ONE: Setting = Setting {
    jobs: 1,
    key: false,
    limit: None,
    ticks: 3,
    crashes: 0,
    copies: 1,
    asks: [2, 1],
    cancels: false,
    steps: false,
    effects: false,
    lease_ms: 3_000,
    tick_ms: 1_000,
    freezes: 0,
    still: false,
    net_max: 2,
    ends: &[End::Done, End::Retry, End::Release],
    promotions: 0,
    lost_max: 0,
    ahead_ms: 0,
    last: Comes::First,
    longer_ms: None,
    looks: false,
    late_answers: false,
    silent: false,
    hears: false,
};
const CANCEL: Setting = Setting { asks: [1, 1], cancels: true, ..ONE };
const STEPS: Setting = Setting { copies: 0, crashes: 1, asks: [1, 1], steps: true, cancels: true, ..ONE };
const EFFECTS: Setting = Setting { copies: 0, asks: [1, 1], effects: true, cancels: true, ..ONE };
const KEY: Setting = Setting { jobs: 2, key: true, cancels: true, copies: 0, asks: [1, 1], ..ONE };
const LIMIT: Setting = Setting { jobs: 2, limit: Some(1), cancels: true, copies: 0, asks: [1, 1], ..ONE };

/// One ask more, so that a place that was released twice can be taken twice.
const LIMIT_TWICE: Setting = Setting { asks: [2, 1], ..LIMIT };

/// The store freezes for longer than a lease, between any two events.
const OUTAGE: Setting = Setting { copies: 0, ticks: 5, asks: [1, 1], freezes: 1, ..ONE };
/// Twice.
const OUTAGES: Setting = Setting { ticks: 7, asks: [1, 0], freezes: 2, ..OUTAGE };
/// A lease that is shorter than the wait.
const SHORT: Setting = Setting { lease_ms: 1_000, tick_ms: 500, ticks: 6, ..OUTAGE };
/// Workers look at their own clock.
const STILL: Setting = Setting { copies: 0, ticks: 4, asks: [1, 1], still: true, ..ONE };

/// They look once in a tick, and what they hear of a renewal may come late.
const LOOKS: Setting = Setting { looks: true, late_answers: true, ends: &[], ..STILL };
/// A worker that died with a long lease, of which the store hears nothing until it is over.
const SILENT: Setting = Setting {
    lease_ms: 600_000,
    tick_ms: 30_000,
    ticks: 26,
    asks: [1, 1],
    freezes: 0,
    net_max: 1,
    ends: &[],
    silent: true,
    ..OUTAGE
};

/// A standby takes over that has not heard of the newest commits: the first worker may have been taken for dead in them, and
/// the second may hold its job by them. One message is on its way at a time, and few ticks are far apart, so that all of it
/// can be looked at.
const PROMOTED: Setting =
    Setting { ticks: 4, tick_ms: 1_500, net_max: 1, ends: &[], promotions: 1, lost_max: 3, ..STILL };
/// Attempts end before and after it.
const PROMOTED_ENDS: Setting = Setting { ticks: 2, lost_max: 2, ends: &[End::Release], ..PROMOTED };
/// What was lost was a job and its claim, and the job is enqueued once more.
const AGAIN: Setting = Setting { ticks: 3, lost_max: 2, last: Comes::Again, ..PROMOTED };
/// What comes after it has a key that somebody may have in the lost history.
const PROMOTED_KEY: Setting =
    Setting { ticks: 2, lost_max: 1, jobs: 2, key: true, last: Comes::Fresh, ..PROMOTED };
/// Or it comes to a queue that counts those who run.
const PROMOTED_LIMIT: Setting = Setting { key: false, limit: Some(1), ..PROMOTED_KEY };
/// Nothing is lost, and the clock of the standby is ahead.
const SYNCHRONOUS: Setting = Setting { ticks: 3, lost_max: 0, ahead_ms: 2_000, ..PROMOTED };
/// A worker asks for longer leases than its queue has, and did so before.
const LONGER: Setting = Setting {
    ticks: 4,
    asks: [2, 1],
    ends: &[End::Release],
    longer_ms: Some(5_000),
    lost_max: 1,
    ..PROMOTED
};

/// A worker has asked in the lost commits, for the first time, for a lease that is longer than the pause, and is in touch with the
/// store all the time: it hears of the epoch.
const HEARS: Setting =
    Setting { ticks: 4, asks: [1, 1], longer_ms: Some(6_000), lost_max: 2, hears: true, ..PROMOTED };

fn holds(setting: Setting) {
    holds_in(setting, STATES_MIN);
}

fn holds_in(setting: Setting, states_min: usize) {
    match search(setting, Flaw::None) {
        Found::Nothing { states, moves } => {
            println!("{states} states, {moves} moves, no law broken");
            assert!(states >= states_min, "only {states} states were reached");
        }
        Found::Broken { law, path } => panic!("{law}\nafter\n{path}"),
    }
}

fn falls(setting: Setting, flaw: Flaw, law: &str) {
    match search(setting, flaw) {
        Found::Nothing { states, .. } => panic!("{flaw:?} was not found in {states} states"),
        Found::Broken { law: broken, path } => {
            println!("{flaw:?} falls to {broken}\nafter\n{path}");
            assert!(broken.starts_with(law), "{flaw:?} fell to {broken}, not to {law}\nafter\n{path}");
        }
    }
}

#[test]
fn one_job_two_workers() {
    holds(ONE);
}

#[test]
fn cancel_and_doubles() {
    holds(CANCEL);
}

#[test]
fn steps_and_crashes() {
    holds(STEPS);
}

#[test]
fn effects() {
    holds(EFFECTS);
}

#[test]
fn two_jobs_one_key() {
    holds(KEY);
}

#[test]
fn two_jobs_limit_one() {
    holds(LIMIT);
}

#[test]
fn an_outage() {
    holds(OUTAGE);
}

#[test]
fn two_outages() {
    holds(OUTAGES);
}

#[test]
fn an_outage_and_short_leases() {
    holds(SHORT);
}

#[test]
fn workers_stand_still() {
    holds(STILL);
}

#[test]
fn workers_look_now_and_then() {
    holds(LOOKS);
}

#[test]
fn a_worker_that_is_silent() {
    // Few things can happen to it.
    holds_in(SILENT, 1_000);
}

#[test]
fn mutant_no_margin() {
    falls(LOOKS, Flaw::NoMargin, "I22");
}

#[test]
fn mutant_goes_on_without_a_look() {
    falls(LOOKS, Flaw::GoesOnWithoutALook, "I22");
}

#[test]
fn mutant_wait_not_capped() {
    falls(SILENT, Flaw::WaitNotCapped, "I11");
}

#[test]
fn a_promotion() {
    holds(PROMOTED);
}

#[test]
fn a_promotion_among_ends() {
    holds(PROMOTED_ENDS);
}

#[test]
fn a_promotion_and_the_same_id_again() {
    holds(AGAIN);
}

#[test]
fn a_promotion_and_a_key() {
    holds(PROMOTED_KEY);
}

#[test]
fn a_promotion_and_a_limit() {
    holds(PROMOTED_LIMIT);
}

#[test]
fn a_promotion_without_loss() {
    holds(SYNCHRONOUS);
}

#[test]
fn a_promotion_that_is_heard_of() {
    holds_in(HEARS, 1_000);
}

#[test]
fn mutant_another_instance_renews_nothing() {
    falls(HEARS, Flaw::AnotherInstanceRenewsNothing, "I22");
}

#[test]
fn mutant_epoch_not_compared() {
    falls(PROMOTED, Flaw::EpochNotCompared, "I");
}

#[test]
fn mutant_epoch_not_compared_in_writes() {
    falls(PROMOTED, Flaw::EpochNotComparedInWrites, "I22");
}

#[test]
fn mutant_epoch_not_compared_in_expire() {
    falls(SYNCHRONOUS, Flaw::EpochNotComparedInExpire, "I11");
}

#[test]
fn mutant_floor_not_lifted() {
    falls(PROMOTED, Flaw::FloorNotLifted, "I5");
}

#[test]
fn mutant_epoch_does_not_renew() {
    falls(SYNCHRONOUS, Flaw::EpochDoesNotRenew, "I11");
}

#[test]
fn mutant_no_pause() {
    falls(PROMOTED, Flaw::NoPause, "I7");
}

#[test]
fn mutant_goes_on_at_once() {
    falls(PROMOTED, Flaw::GoesOnAtOnce, "I22");
}

#[test]
fn mutant_the_same_id_does_not_wait() {
    falls(AGAIN, Flaw::WhatComesDoesNotWait, "I7");
}

#[test]
fn mutant_a_key_does_not_wait() {
    falls(PROMOTED_KEY, Flaw::WhatComesDoesNotWait, "I22");
}

#[test]
fn mutant_a_limit_does_not_wait() {
    falls(PROMOTED_LIMIT, Flaw::WhatComesDoesNotWait, "I22");
}

#[test]
fn mutant_long_leases_forgotten() {
    falls(LONGER, Flaw::LongLeasesForgotten, "I7");
}

#[test]
fn mutant_strict_lease() {
    falls(ONE, Flaw::StrictLease, "I18");
}

#[test]
fn mutant_one_look() {
    falls(OUTAGE, Flaw::OneLook, "I21");
}

#[test]
fn mutant_no_wait() {
    falls(OUTAGE, Flaw::NoWait, "I21");
}

#[test]
fn mutant_old_mark_counts() {
    falls(OUTAGES, Flaw::OldMarkCounts, "I21");
}

#[test]
fn mutant_renewal_keeps_mark() {
    falls(SHORT, Flaw::RenewalKeepsMark, "I21");
}

#[test]
fn mutant_claim_takes_back() {
    falls(OUTAGE, Flaw::ClaimTakesBack, "I21");
}

#[test]
fn mutant_never_still() {
    falls(STILL, Flaw::NeverStill, "I22");
}

#[test]
fn mutant_starts_without_a_look() {
    falls(STILL, Flaw::StartsWithoutALook, "I22");
}

#[test]
fn mutant_counts_from_the_answer() {
    falls(STILL, Flaw::CountsFromTheAnswer, "I22");
}

#[test]
fn mutant_no_fence() {
    falls(ONE, Flaw::NoFence, "I6");
}

#[test]
fn mutant_owner_instead_of_fence() {
    falls(ONE, Flaw::OwnerInsteadOfFence, "I6");
}

#[test]
fn mutant_blind_rescue() {
    falls(ONE, Flaw::BlindRescue, "I4");
}

#[test]
fn mutant_double_release() {
    falls(LIMIT_TWICE, Flaw::DoubleRelease, "I10");
}

#[test]
fn mutant_fence_reset() {
    falls(ONE, Flaw::FenceReset, "I5");
}

#[test]
fn mutant_blind_heartbeat() {
    falls(ONE, Flaw::BlindHeartbeat, "I4");
}

#[test]
fn mutant_unfenced_effect() {
    falls(EFFECTS, Flaw::UnfencedEffect, "I20");
}

#[test]
fn mutant_blind_cancel() {
    falls(CANCEL, Flaw::BlindCancel, "I4");
}

#[test]
fn mutant_key_check_skipped() {
    falls(KEY, Flaw::KeyCheckSkipped, "I9");
}
