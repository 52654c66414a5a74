//! How a store is opened.

use std::sync::Arc;

use windlass_core::time::Clock;

/// How a store is opened. The default is right for production.
#[derive(Clone)]
pub struct Options {
    /// The clock; nothing means the server's own. Only a test sets it.
    pub clock: Option<Arc<dyn Clock>>,
    /// How many jobs the store may keep. Every program that has it open holds all of them in memory.
    pub jobs_max: usize,
    /// How many bytes of entries are written before a snapshot is, at least.
    pub snapshot_bytes_min: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { clock: None, jobs_max: 1_000_000, snapshot_bytes_min: 16 * 1024 * 1024 }
    }
}
