//! Windlass on one JSON file.
//!
//! Core's book in memory, one document on disk. Every change writes the whole
//! document: to a temporary file, fsync, rename, fsync of the folder; changes
//! that wait are written together. Nobody is answered before that is done, and
//! nobody sees what is not done yet. One process at a time has it open.
//!
//! What it deliberately does not do: keep a log of changes, or more than some
//! hundred thousand jobs. Whoever needs that needs the SQLite store.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod options;
mod store;

mod desk;
mod records;
mod source;
mod verbs;
mod writer;

mod file;
mod layout;
mod lock;
mod mark;
mod opening;

mod checksum;

pub use checksum::checksum;
pub use layout::Native;
pub use opening::Opening;
pub use options::{JOBS_MAX_DEFAULT, OnDamage, OnOpen, Options, RECORDS_MAX_DEFAULT};
pub use store::{EVENTS_KEPT, JsonStore};
pub use windlass_core::book::layout::{Content, Layout, Unreadable};
