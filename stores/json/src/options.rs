//! How a JSON store is opened.

use std::sync::Arc;

use windlass_core::book::layout::Layout;
use windlass_core::time::Clock;

use crate::layout::Native;

/// How many jobs a store keeps unless told otherwise. Every change writes all
/// of them, so this is also a bound on how long a change takes.
pub const JOBS_MAX_DEFAULT: usize = 100_000;

/// How many records a store keeps unless told otherwise: every change writes all of them, too.
pub const RECORDS_MAX_DEFAULT: usize = 10_000;

/// How to open a store.
#[derive(Clone)]
pub struct Options {
    /// Where the store reads the time.
    pub clock: Arc<dyn Clock>,
    /// How many jobs it keeps, finished ones included; above that, new ones are refused.
    pub jobs_max: usize,
    /// How many records it keeps; above that, new ones are refused.
    pub records_max: usize,
    /// How the document is written.
    pub layout: Arc<dyn Layout>,
    /// What becomes of jobs that were not over when the store was last open.
    pub on_open: OnOpen,
    /// What becomes of a document that cannot be read.
    pub on_damage: OnDamage,
    /// Finished jobs go this long after they were accepted, whenever they
    /// ended; beside the retention of their queue, which counts from their end.
    pub age_ms_max: Option<u64>,
    /// The longest that an epoch holds back jobs that somebody may hold by what was lost: 15 minutes unless it is said.
    pub pause_ms_max: Option<u32>,
}

impl Options {
    /// The usual: our own layout, room for 100 000 jobs and 10 000 records, jobs go on.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            jobs_max: JOBS_MAX_DEFAULT,
            records_max: RECORDS_MAX_DEFAULT,
            layout: Arc::new(Native),
            on_open: OnOpen::Resume,
            on_damage: OnDamage::TakeCopy,
            age_ms_max: None,
            pause_ms_max: None,
        }
    }
}

/// What becomes of a document that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnDamage {
    /// It is set aside as `NAME.corrupt-<time>` and the copy before it is
    /// taken. Without a copy the store does not open.
    #[default]
    TakeCopy,
    /// It is set aside as `STEM.corrupt-<time>.EXTENSION` and an empty one is
    /// begun; no copies are kept. For programs that say so to their operators.
    BeginAnew,
}

/// What becomes of jobs that are not over when the store is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnOpen {
    /// Queued ones wait on; leases of running ones stay until they run out.
    #[default]
    Resume,
    /// All of them are failed, with the reason `worker_restart`: when the store
    /// is closed in good order, and what is left when it is opened.
    FailUnfinished,
}
