//! The MongoDB room.
//!
//! [`agenda`] is the collection of Node's Agenda, adopted: its rows, written so that each of Agenda's versions runs
//! them, and a source of work over rows that Agenda wrote.
//!
//! What this deliberately does not do: it reads no clock (times come from the server, as `$$NOW`, or from the
//! caller), and it knows nothing of the engine.

#![forbid(unsafe_code)]

pub mod agenda;
mod error;
mod server;

pub use mongodb;
