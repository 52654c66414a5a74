//! How a JSON store is opened.

use std::sync::Arc;

use windlass_core::time::Clock;

use crate::layout::{Layout, Native};

/// How many jobs a store keeps unless told otherwise. Every change writes all
/// of them, so this is also a bound on how long a change takes.
pub const JOBS_MAX_DEFAULT: usize = 100_000;

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    /// Where the store reads the time.
    pub clock: Arc<dyn Clock>,
    /// How many jobs it keeps, finished ones included; above that, new ones are refused.
    pub jobs_max: usize,
    /// How the document is written.
    pub layout: Arc<dyn Layout>,
    /// What becomes of jobs that were not over when the store was last open.
    pub on_open: OnOpen,
}

impl Options {
    /// The usual: our own layout, room for 100 000 jobs, jobs go on.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, jobs_max: JOBS_MAX_DEFAULT, layout: Arc::new(Native), on_open: OnOpen::Resume }
    }
}

/// What becomes of jobs that were not over when the store was last open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnOpen {
    /// Queued ones wait on; leases of running ones stay until they run out.
    #[default]
    Resume,
    /// All of them are failed, with the reason `worker_restart`.
    FailUnfinished,
}
