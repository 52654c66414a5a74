//! Durable background work: jobs that survive any crash, are never held by two
//! workers at once, stop when they are told to, stay inside their quotas, and
//! go on from the last step that finished.
//!
//! Three things to know: a [`Client`] enqueues jobs into a store, a [`Worker`]
//! runs them with handlers, and a handler gets a [`Context`] with its job, its
//! steps and a line to the outside. Stores are crates of their own
//! (`windlass-sqlite`, `windlass-postgres`, `windlass-mongo`, `windlass-json`,
//! and `windlass-remote`, a server as a store).
//!
//! What is promised: an accepted job is never lost; an attempt may run twice;
//! only the newest attempt can change the job; two leases never overlap by the
//! store's clock; a side effect happens once only if it uses the fence or the
//! job's id to be so.

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod admission;
mod batcher;
mod client;
mod context;
mod failure;
mod handler;
mod job;
pub mod process;
mod request;
mod run_log;
mod runtime;
mod schedule;
mod shelf;
mod signal;
mod slots;
mod telemetry;
#[cfg(feature = "testing")]
pub mod testing;
mod waiting;
mod worker;
pub mod world;

/// What is put before an `impl` of [`Admission`] and of other traits with asynchronous functions.
pub use async_trait::async_trait;
/// The words, the state machine and the traits of a store.
pub use windlass_core as core;

pub use admission::{Admission, Admit, Unsettled};
pub use client::{Client, Enqueue};
pub use context::Context;
pub use failure::{BoxError, Failure, OrFail};
pub use handler::{AsyncHandler, BlockingHandler, Handler, HandlerResult, Layer, Next};
pub use job::Job;
pub use request::JobRequest;
pub use runtime::{BreakerPolicy, Housekeeper, Shutdown, Summary, WorkerEvent, shutdown_on_signals};
pub use schedule::ScheduleRequest;
pub use shelf::{
    Batch, Change, Committed, Counts, Draft, Entry, EntryPage, PutOptions, ScanRequest, Shelf, ShelfError,
    UPDATE_TRIES_MAX, Update, WriteOptions,
};
pub use signal::Stop;
pub use waiting::{JobHandle, WaitError};
pub use worker::{GRACE_DEFAULT, POLL_DEFAULT, SLOTS_DEFAULT, Worker, WorkerError};

// The words that users meet, at one level.
pub use windlass_core::eligible::Explanation;
pub use windlass_core::error::{Invalid, StoreError};
pub use windlass_core::id::{
    BudgetName, DedupeKey, JobId, Key, Kind, Label, QueueName, RecordKey, ScheduleName, ShelfName, StepName,
    WorkerName,
};
pub use windlass_core::job::Job as JobRecord;
pub use windlass_core::json::Json;
pub use windlass_core::policy::budget::BudgetPolicy;
pub use windlass_core::policy::ladder::Ladder;
pub use windlass_core::policy::queue::{OnCrash, QueuePolicy};
pub use windlass_core::policy::schedule::{Missed, Overlap};
pub use windlass_core::record::ScanCursor;
pub use windlass_core::state::{FailureReason, State, StateName};
pub use windlass_core::store::{
    CancelAnswer, Enqueued, LeaseRef, RetryAnswer, Settlement, Source, Store, Written,
};
pub use windlass_core::time::{Span, Time};
pub use windlass_core::trace::TraceParent;
pub use windlass_core::transition::Outcome;
