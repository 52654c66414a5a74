//! The MongoDB room.
//!
//! [`agenda`] is the collection of Node's Agenda: its rows, written so that each of Agenda's versions runs them.
//!
//! What this deliberately does not do: it reads no clock (times come from the server, as `$$NOW`, or from the
//! caller), and it knows nothing of the engine.

#![forbid(unsafe_code)]

pub mod agenda;

pub use mongodb;
