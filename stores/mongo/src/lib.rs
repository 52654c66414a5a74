//! The MongoDB room: a store on a replica set, and Agenda's collection, adopted.
//!
//! [`MongoStore`] writes down what is done to it, in order, and every program that has it open does the same to a
//! book of `core` in memory (a replicated state machine): there is no second version of that logic here.
//!
//! [`agenda`] is the collection of Node's Agenda, adopted: its rows, written so that each of Agenda's versions runs
//! them, and a source of work over rows that Agenda wrote.
//!
//! What this deliberately does not do: it reads no clock (times come from the server, as `$$NOW`, or from the
//! caller), and it knows nothing of the engine.

#![forbid(unsafe_code)]

pub mod agenda;
mod error;
mod journal;
mod options;
mod records;
mod server;
mod source;
mod store;
mod verbs;
mod wake;
mod within;
mod writer;

pub use mongodb;
pub use options::Options;
pub use store::MongoStore;
pub use within::{Within, WithinError};
