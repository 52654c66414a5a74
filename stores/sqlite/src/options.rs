//! How a store is opened.

use std::sync::Arc;

use windlass_core::time::Clock;

use crate::disk::machine::MachineClock;

/// How a store is opened. Everything has a default that fits.
#[derive(Clone)]
pub struct Options {
    /// Where the time comes from.
    pub clock: Arc<dyn Clock>,
    /// How long a write waits for another process that is writing.
    pub busy_ms: u32,
    /// How many reads run at once.
    pub readers: usize,
    /// How many calls may wait for the writer; further ones wait to be let in.
    pub waiting_max: usize,
    /// Room kept aside on the disk, so that work can still be finished and
    /// canceled when the disk is full.
    pub ballast_bytes: u64,
    /// The log is written back into the file when it is longer than this.
    pub wal_pages: u32,
    /// The longest that an epoch holds back jobs that somebody may hold by what was lost: 15 minutes unless it is said.
    pub pause_ms_max: Option<u32>,
}

impl Options {
    /// The defaults, with this clock.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            busy_ms: 10_000,
            readers: 3,
            waiting_max: 1_024,
            ballast_bytes: 512 * 1024,
            wal_pages: 4_096,
            pause_ms_max: None,
        }
    }
}

impl Default for Options {
    /// The defaults, with the clock of this machine.
    fn default() -> Self {
        Self::new(Arc::new(MachineClock::new()))
    }
}
