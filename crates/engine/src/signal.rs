//! What a running attempt is told from outside, and how it climbs: told, then
//! waited for, then stopped.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::watch;
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

/// One attempt as the engine sees it.
pub(crate) struct Attempt {
    pub(crate) lease: LeaseRef,
    pub(crate) lease_ms: u64,
    /// Since the start of the machine: when the attempt began.
    pub(crate) started_ms: u64,
    pub(crate) timeout_ms: Option<u64>,
    signal: watch::Sender<Signal>,
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
            signal: watch::Sender::new(Signal::Go),
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
        self.signal.send_if_modified(|signal| {
            if *signal != Signal::Go {
                return false;
            }
            self.grace_ends_ms.store(grace_ends_ms, Ordering::Relaxed);
            *signal = Signal::Told(stop);
            true
        });
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
        self.signal.send_if_modified(|signal| {
            let halted = matches!(signal, Signal::Halt(_));
            *signal = if halted { *signal } else { Signal::Halt(stop) };
            !halted
        });
    }

    pub(crate) fn signal(&self) -> Signal {
        *self.signal.borrow()
    }

    pub(crate) fn signals(&self) -> watch::Receiver<Signal> {
        self.signal.subscribe()
    }

    /// Takes the right to say how the attempt ended; only the first gets it.
    pub(crate) fn finish(&self) -> bool {
        !self.finished.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }
}
