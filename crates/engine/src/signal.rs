//! What a running attempt is told from outside, and how it climbs: told, then
//! waited for, then stopped.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use tokio::sync::Notify;
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
    /// Since the start of the machine: when to renew.
    renew_at_ms: AtomicU64,
    /// Since the start of the machine: without a renewal by then the attempt
    /// ends itself, before the store could give the job to another.
    fence_at_ms: AtomicU64,
    /// Since the start of the machine: when waiting ends; `u64::MAX` for not yet told.
    grace_ends_ms: AtomicU64,
    finished: AtomicBool,
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
        let attempt = Self {
            lease,
            lease_ms,
            started_ms: now_ms,
            timeout_ms,
            signal: AtomicU8::new(Signal::Go.code()),
            signaled: Notify::new(),
            renew_at_ms: AtomicU64::new(0),
            fence_at_ms: AtomicU64::new(0),
            grace_ends_ms: AtomicU64::new(u64::MAX),
            finished: AtomicBool::new(false),
        };
        attempt.renewed(asked_ms);
        attempt
    }

    /// The lease was granted or renewed by a call that was sent at `asked_ms`.
    pub(crate) fn renewed(&self, asked_ms: u64) {
        self.renew_at_ms.store(asked_ms + self.lease_ms / 3, Ordering::Relaxed);
        self.fence_at_ms.store(asked_ms + self.lease_ms * 2 / 3, Ordering::Relaxed);
    }

    pub(crate) fn is_due_for_renewal(&self, now_ms: u64) -> bool {
        now_ms >= self.renew_at_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn is_past_fence(&self, now_ms: u64) -> bool {
        now_ms >= self.fence_at_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn has_timed_out(&self, now_ms: u64) -> bool {
        self.timeout_ms.is_some_and(|timeout| now_ms >= self.started_ms.saturating_add(timeout))
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
        let lease = LeaseRef { job_id: windlass_core::id::JobId(uuid::Uuid::nil()), fence: 1 };
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
}
