//! The default store: one SQLite file that needs nothing else.
//!
//! One thread writes: it takes all calls that wait, runs each in a savepoint,
//! commits once and only then answers (group commit, `synchronous = FULL`).
//! Reads have connections of their own. Several processes may share a file.
//!
//! Read it in this order: `store` (the verbs), `run` (who runs them: `writer`,
//! `readers`, and `tx`, what a write works with), `rows` (what is in the tables;
//! `row` is the codec), `ready` (how ready jobs are found without scanning), then
//! `verbs`, a file for each; `disk` keeps the file. What a job may do is decided in `windlass_core::transition`, never here.
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

#[macro_use]
mod sql;

mod disk;
mod fail;
mod options;
mod ready;
mod rows;
mod run;
mod store;
mod verbs;

pub use options::Options;
/// The driver, in the version whose transactions [`enqueue_in`] takes.
pub use rusqlite;
pub use store::SqliteStore;
pub use verbs::enqueue_in::enqueue_in;
