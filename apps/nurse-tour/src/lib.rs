//! The voice-message worker of Nurse Tour.
//!
//! A nurse speaks a note into WhatsApp; the worker archives the audio, has it
//! transcribed and analysed, and lays a document before a person. The table of
//! messages belongs to somebody else and is worked where it is ([`mapping`]);
//! each stage is a step of an ordinary handler (`job.rs`, `steps/`), and what
//! must happen together with a stage is carried by it.
//!
//! What is known of patients is wrapped in `Phi` from the moment it is read,
//! and never reaches a log, a metric or an error text.
//!
//! What this deliberately does not do: it knows no store, it keeps no queue of
//! its own, and it never changes a document that exists.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

pub mod mapping;
pub mod resume;
pub mod retry;
pub mod schema;
pub mod settings;
pub mod status;
pub mod webhook;
pub mod worker;

mod answer;
mod app;
mod database;
mod fit;
mod gate;
mod job;
mod log;
mod message;
mod meter;
mod migrate;
mod names;
mod people;
mod probe;
mod steps;
mod stops;
mod together;
mod trouble;
mod types;
mod verbs;
mod watch;

pub use app::NurseTourApp;
pub use database::DatabaseError;
