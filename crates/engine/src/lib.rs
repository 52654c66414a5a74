//! Durable background work: jobs that survive any crash, are never held by two
//! workers at once, stop when they are told to, stay inside their quotas, and
//! go on from the last step that finished.
//!
//! Three things to know: a [`Client`] enqueues jobs into a store, a [`Worker`]
//! runs them with handlers, and a handler gets a [`Context`] with its job, its
//! steps and a line to the outside. Stores are crates of their own
//! (`windlass-sqlite`, `windlass-postgres`, `windlass-json`).
//!
//! What is promised: an accepted job is never lost; an attempt may run twice;
//! only the newest attempt can change the job; two leases never overlap by the
//! store's clock; a side effect happens once only if it uses the fence or the
//! job's id to be so.

#![deny(missing_docs)]
#![deny(unsafe_code)]

mod batcher;
mod client;
mod context;
mod failure;
mod handler;
mod payload;
pub mod process;
mod runtime;
mod signal;
mod slots;
mod worker;
pub mod world;

/// The words, the state machine and the traits of a store.
pub use windlass_core as core;

pub use client::{Client, NewJobBuilder};
pub use context::Context;
pub use failure::Failure;
pub use handler::Handler;
pub use payload::Payload;
pub use runtime::{BreakerPolicy, Housekeeper, Shutdown, Summary, shutdown_on_signals};
pub use signal::Stop;
pub use worker::{GRACE_DEFAULT, POLL_DEFAULT, SLOTS_DEFAULT, Worker, WorkerError};
