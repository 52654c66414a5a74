//! What a running attempt is told from outside, and how it climbs: told, then
//! waited for, then stopped. Beside that it may be held still: while the store
//! does not say whose the job is, it neither runs nor ends.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use windlass_core::holding::{Holding, May};
use windlass_core::store::LeaseRef;

/// Why an attempt is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Somebody asked for the job to be canceled.
    Cancel,
    /// The worker shuts down.
    Shutdown,
    /// The attempt took longer than the job's timeout.
    Timeout,
    /// The lease is lost.
    LeaseLost,
}

/// Where an attempt is on the ladder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Nothing was said.
    Go,
    /// It was told to stop, and is waited for.
    Told(Stop),
    /// It is stopped.
    Halt(Stop),
}

impl Signal {
    /// The rung in the upper bits, the reason in the lower two.
    fn code(self) -> u8 {
        match self {
            Self::Go => 0,
            Self::Told(stop) => 4 | stop as u8,
            Self::Halt(stop) => 8 | stop as u8,
        }
    }

    fn from_code(code: u8) -> Self {
        let stop = [Stop::Cancel, Stop::Shutdown, Stop::Timeout, Stop::LeaseLost][usize::from(code & 3)];
        match code >> 2 {
            0 => Self::Go,
            1 => Self::Told(stop),
            _ => Self::Halt(stop),
        }
    }
}

/// The time between two looks at an attempt with a lease of this length, in milliseconds: a short one needs a
/// sharp eye.
pub(crate) fn look_ms(lease_ms: u64) -> u64 {
    (lease_ms / 12).clamp(5, 250)
}

/// What holds a program still (`true`), or lets it go on.
pub(crate) type Brake = Box<dyn Fn(bool) + Send>;

/// Not held still.
const GOING: u64 = u64::MAX;

/// One attempt as the engine sees it.
pub(crate) struct Attempt {
    pub(crate) lease: LeaseRef,
    pub(crate) lease_ms: u64,
    /// Since the start of the machine: when the attempt began.
    pub(crate) started_ms: u64,
    pub(crate) timeout_ms: Option<u64>,
    /// A number and not a channel, since every attempt has one and few are ever told anything.
    signal: AtomicU8,
    signaled: Notify,
    /// Since the start of the machine: when the claim was sent, or the last renewal that was taken.
    sent_ms: AtomicU64,
    /// Since the start of the machine: since when it is held still; [`GOING`] for not at all.
    still_since_ms: AtomicU64,
    /// Since the start of the machine: until when it has to stand still although its lease was renewed.
    still_until_ms: AtomicU64,
    /// For how long it was held still before, all in all.
    stood_ms: AtomicU64,
    /// Of an attempt that runs a program.
    brake: Mutex<Option<Brake>>,
    /// Since the start of the machine: when waiting ends; `u64::MAX` for not yet told.
    grace_ends_ms: AtomicU64,
    finished: AtomicBool,
    /// The handler was told by the clock alone that the lease may be lost.
    warned: AtomicBool,
}

impl Attempt {
    /// An attempt whose claim was asked for at `asked_ms`.
    pub(crate) fn new(
        lease: LeaseRef,
        lease_ms: u64,
        timeout_ms: Option<u64>,
        asked_ms: u64,
        now_ms: u64,
    ) -> Self {
        Self {
            lease,
            lease_ms,
            started_ms: now_ms,
            timeout_ms,
            signal: AtomicU8::new(Signal::Go.code()),
            signaled: Notify::new(),
            sent_ms: AtomicU64::new(asked_ms),
            still_since_ms: AtomicU64::new(GOING),
            still_until_ms: AtomicU64::new(0),
            stood_ms: AtomicU64::new(0),
            brake: Mutex::new(None),
            grace_ends_ms: AtomicU64::new(u64::MAX),
            finished: AtomicBool::new(false),
            warned: AtomicBool::new(false),
        }
    }

    fn holding(&self) -> Holding {
        let sent_ms = self.sent_ms.load(Ordering::Acquire);
        Holding { sent_ms, lease_ms: self.lease_ms, look_ms: look_ms(self.lease_ms) }
    }

    /// What may be done with the attempt at `now_ms`, by how long ago the lease was surely held, and by what the store
    /// said of commits that it lost.
    pub(crate) fn may(&self, now_ms: u64) -> May {
        if now_ms < self.still_until_ms.load(Ordering::Acquire) {
            return May::HoldStill;
        }
        self.holding().may(now_ms)
    }

    /// Whether a handler must be told that the lease may be lost soon. One that ends because of it may hold the job
    /// still.
    pub(crate) fn warns(&self, now_ms: u64) -> bool {
        let still = self.may(now_ms) == May::HoldStill;
        if still {
            self.warned.store(true, Ordering::Release);
        }
        still
    }

    pub(crate) fn was_warned(&self) -> bool {
        self.warned.load(Ordering::Acquire)
    }

    /// The lease was renewed by a call that was sent at `asked_ms`; the answer came at `now_ms`. An attempt that
    /// was held still goes on, unless the lease may have ended meanwhile, or the store has lost commits: then it stands
    /// still for `still_ms` more, since one of these may have given the job to somebody else.
    pub(crate) fn renewed(&self, asked_ms: u64, now_ms: u64, still_ms: u64) {
        if still_ms > 0 && self.still_since_ms.load(Ordering::Acquire) != GOING {
            self.still_until_ms.fetch_max(now_ms + still_ms, Ordering::AcqRel);
        }
        self.sent_ms.fetch_max(asked_ms, Ordering::AcqRel);
        self.is_held_still(now_ms);
    }

    pub(crate) fn is_due_for_renewal(&self, now_ms: u64) -> bool {
        now_ms >= self.holding().renew_at_ms()
    }

    /// Holds the attempt still, when its lease may end soon, and lets it go on when not. Answers whether it is held
    /// still. Asked by whoever looks at the attempt: each look puts right what another saw a moment before a renewal.
    pub(crate) fn is_held_still(&self, now_ms: u64) -> bool {
        if self.may(now_ms) != May::HoldStill {
            if self.still_since_ms.load(Ordering::Acquire) != GOING {
                self.let_go_on(now_ms);
            }
            return false;
        }
        let first = self.still_since_ms.compare_exchange(GOING, now_ms, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() {
            // Who renewed or ended the attempt since the look above found nothing to undo, and nobody might look again.
            if self.may(now_ms) != May::HoldStill {
                self.stand_no_longer(now_ms);
                return false;
            }
            tracing::warn!(job_id = %self.lease.job_id, fence = self.lease.fence, "could not renew the lease; holding the attempt still until the store answers");
            self.apply_brake();
        }
        true
    }

    /// For how long it has been held still this time.
    pub(crate) fn still_for_ms(&self, now_ms: u64) -> u64 {
        match self.still_since_ms.load(Ordering::Acquire) {
            GOING => 0,
            since_ms => now_ms.saturating_sub(since_ms),
        }
    }

    /// Lets an attempt that was held still go on.
    fn let_go_on(&self, now_ms: u64) {
        if let Some(stood_ms) = self.stand_no_longer(now_ms) {
            tracing::info!(job_id = %self.lease.job_id, fence = self.lease.fence, stood_ms, "the attempt goes on");
            self.apply_brake();
        }
    }

    /// Answers for how long it was held still, if it was.
    fn stand_no_longer(&self, now_ms: u64) -> Option<u64> {
        let since_ms = self.still_since_ms.swap(GOING, Ordering::AcqRel);
        if since_ms == GOING {
            return None;
        }
        let stood_ms = now_ms.saturating_sub(since_ms);
        self.stood_ms.fetch_add(stood_ms, Ordering::AcqRel);
        self.signaled.notify_waiters();
        Some(stood_ms)
    }

    /// Lets the handler of an attempt that is over end its program: it is held still no more, whatever the clock
    /// says. The program itself is, until it is told to end.
    pub(crate) fn release(&self, now_ms: u64) {
        self.sent_ms.store(u64::MAX / 4, Ordering::Release);
        self.still_until_ms.store(0, Ordering::Release);
        self.stand_no_longer(now_ms);
    }

    /// What to do with the program of this attempt when it is held still; nothing from its end on.
    pub(crate) fn set_brake(&self, brake: Option<Brake>) {
        let mut place = self.brake.lock().unwrap_or_else(PoisonError::into_inner);
        *place = brake;
        // It may have been held still before the program was there.
        if let Some(brake) = place.as_ref().filter(|_| self.still_since_ms.load(Ordering::Acquire) != GOING) {
            brake(true);
        }
    }

    /// Whether it runs a program, which is asked to end and not dropped.
    pub(crate) fn has_brake(&self) -> bool {
        self.brake.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Does with the program as is to be done now. Two who look at once may come here in either order, so each asks
    /// again, one after the other.
    fn apply_brake(&self) {
        if let Some(brake) = self.brake.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            brake(self.still_since_ms.load(Ordering::Acquire) != GOING);
        }
    }

    /// Whether it took longer than it may; time that it was held still is no part of that.
    pub(crate) fn has_timed_out(&self, now_ms: u64) -> bool {
        let stood_ms = self.stood_ms.load(Ordering::Acquire) + self.still_for_ms(now_ms);
        let took_ms = now_ms.saturating_sub(self.started_ms).saturating_sub(stood_ms);
        self.timeout_ms.is_some_and(|timeout| took_ms >= timeout)
    }

    /// Tells the handler to stop and begins to wait. The first reason stays.
    pub(crate) fn tell(&self, stop: Stop, grace_ends_ms: u64) {
        let first = (u64::MAX, grace_ends_ms);
        if self.grace_ends_ms.compare_exchange(first.0, first.1, Ordering::AcqRel, Ordering::Acquire).is_ok()
        {
            self.change(|signal| (signal == Signal::Go).then_some(Signal::Told(stop)));
        }
    }

    /// Why the attempt was told to stop, when waiting for it is over.
    pub(crate) fn waited_long_enough(&self, now_ms: u64) -> Option<Stop> {
        match self.signal() {
            Signal::Told(stop) if now_ms >= self.grace_ends_ms.load(Ordering::Relaxed) => Some(stop),
            _ => None,
        }
    }

    /// Stops the attempt.
    pub(crate) fn halt(&self, stop: Stop) {
        self.change(|signal| (!matches!(signal, Signal::Halt(_))).then_some(Signal::Halt(stop)));
    }

    /// Changes the signal, unless `to` says nothing, and wakes whoever waits for that.
    fn change(&self, to: impl Fn(Signal) -> Option<Signal>) {
        let next = |code| to(Signal::from_code(code)).map(Signal::code);
        if self.signal.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).is_ok() {
            self.signaled.notify_waiters();
        }
    }

    pub(crate) fn signal(&self) -> Signal {
        Signal::from_code(self.signal.load(Ordering::Acquire))
    }

    /// Ready when the signal has changed, or the attempt was let go on, after this call.
    pub(crate) fn changed(&self) -> tokio::sync::futures::Notified<'_> {
        self.signaled.notified()
    }

    /// Waits for a signal that `fits`.
    pub(crate) async fn until(&self, fits: impl Fn(Signal) -> bool) {
        loop {
            // Made before the look: what changes from here on wakes it.
            let signaled = self.signaled.notified();
            if fits(self.signal()) {
                return;
            }
            signaled.await;
        }
    }

    pub(crate) fn is_halted(&self) -> bool {
        matches!(self.signal(), Signal::Halt(_))
    }

    /// Takes the right to say how the attempt ended; only the first gets it.
    pub(crate) fn finish(&self) -> bool {
        !self.finished.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOPS: [Stop; 4] = [Stop::Cancel, Stop::Shutdown, Stop::Timeout, Stop::LeaseLost];

    #[test]
    fn every_signal_reads_back() {
        let told = STOPS.map(Signal::Told);
        for signal in [Signal::Go].into_iter().chain(told).chain(STOPS.map(Signal::Halt)) {
            assert_eq!(Signal::from_code(signal.code()), signal);
        }
    }

    /// The first reason to stop stays, and being halted is the end of it.
    #[tokio::test]
    async fn a_signal_only_climbs() {
        let lease = LeaseRef::new(windlass_core::id::JobId(uuid::Uuid::nil()), 1);
        let attempt = Attempt::new(lease, 30_000, None, 0, 0);
        attempt.tell(Stop::Cancel, 10);
        attempt.tell(Stop::Shutdown, 5);
        assert_eq!(attempt.signal(), Signal::Told(Stop::Cancel));
        assert_eq!(
            (attempt.waited_long_enough(9), attempt.waited_long_enough(10)),
            (None, Some(Stop::Cancel))
        );
        attempt.halt(Stop::LeaseLost);
        attempt.halt(Stop::Cancel);
        attempt.until(|signal| signal == Signal::Halt(Stop::LeaseLost)).await;
        assert!(attempt.is_halted());
    }

    /// The time that an attempt was held still is no part of its timeout, and its brake is put on and taken off.
    #[test]
    fn an_attempt_is_held_still_and_goes_on() {
        let lease = LeaseRef::new(windlass_core::id::JobId(uuid::Uuid::nil()), 1);
        let attempt = Attempt::new(lease, 30_000, Some(40_000), 0, 0);
        let braked = std::sync::Arc::new(AtomicU8::new(7));
        let seen = braked.clone();
        attempt.set_brake(Some(Box::new(move |still| seen.store(u8::from(still), Ordering::Relaxed))));
        assert!(!attempt.is_held_still(27_499));
        assert!(attempt.is_held_still(27_500) && attempt.is_held_still(90_000));
        assert_eq!((braked.load(Ordering::Relaxed), attempt.still_for_ms(90_000)), (1, 62_500));
        assert!(!attempt.has_timed_out(90_000));
        attempt.renewed(40_000, 90_000, 0);
        assert!(attempt.is_held_still(90_000), "the answer came after the end of what it renewed");
        attempt.renewed(89_000, 90_000, 0);
        assert!(!attempt.is_held_still(90_000));
        assert_eq!((braked.load(Ordering::Relaxed), attempt.still_for_ms(90_000)), (0, 0));
        assert!(!attempt.has_timed_out(102_499) && attempt.has_timed_out(102_500));
    }
}
