//! The default store: one SQLite file that needs nothing else.
//!
//! One thread writes: it takes all calls that wait, runs each in a savepoint,
//! commits once and only then answers (group commit, `synchronous = FULL`).
//! Reads have connections of their own. Several processes may share a file.
//!
//! Read it in this order: `store` (the verbs), `writer` and `readers`
//! (who runs them), `tx` (what a write works with), `row` (the codec),
//! `lanes` (how ready jobs are found without scanning), then one file per
//! verb. What a job may do is decided in `windlass_core::transition`, never here.
//!
//! The writer has caches (`tx::Memory`): what never changes of the jobs that it
//! has leased (`known`); queues and the epoch, until a counter in the file says
//! that one has changed (`head`); who comes next in the lines of keys (`upcoming`)
//! and which lines have run empty (`emptied`), until another process has written
//! (`others`). Whether a lease is held is always asked of the file.
//!
//! Deliberately absent: a network protocol, a migration backwards, and a cache
//! that another process could make wrong without its being noticed.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod options;
mod store;

mod file;
mod incarnation;
mod log;
mod mark;
mod migrate;
mod watch;

mod audit;
mod ballast;
mod crew;
mod readers;
mod wake;
mod writer;

mod dedupe;
mod due;
mod ended;
mod epoch;
mod head;
mod known;
mod many;
mod others;
mod stretch;
mod tally;
mod tx;

mod past;
mod row;
mod row_write;

mod emptied;
mod gate;
mod keys;
mod lanes;
mod line;
mod slot;
mod upcoming;

mod claim;
mod enqueue;
mod enqueue_in;
mod expire;
mod offered;
mod operate;
mod pick;
mod settle;
mod worker_writes;

mod batches;
mod records;
mod scan;

mod budgets;
mod events;
mod explain;
mod list;
mod prune;
mod queues;
mod schedules;
mod workers;

mod claim_memory;
mod fail;
mod machine;

pub use enqueue_in::enqueue_in;
pub use options::Options;
/// The driver, in the version whose transactions [`enqueue_in`] takes.
pub use rusqlite;
pub use store::SqliteStore;
