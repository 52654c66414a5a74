//! Agenda's collection, adopted: rows that Node's Agenda (4, 5, 6 and @hokify's) reads and writes.
//!
//! [`AgendaRows`] is a source of work over such rows, beside Agenda's own workers. A row is ours while its
//! `lockedAt` is the one that we wrote and our own collection has the fence of that claim; every write compares
//! both, in one transaction. Whatever else writes `lockedAt` (Agenda at the end of a run that outlived its lock,
//! a person, a restart) has taken the row away, and nothing of ours is written over it.

mod check;
mod claim;
mod codec;
mod edit;
mod expire;
mod index;
mod interval;
mod key;
mod lease;
mod options;
mod repeat;
mod row;
mod settle;
mod source;

pub use check::{Finding, check};
pub use codec::payload;
pub use index::{INDEX_NAME, LOCKED_INDEX_NAME, ensure_index, ensure_locked_index, index_keys};
pub use options::Options;
pub use row::{NewRow, row_id};
pub use source::AgendaRows;
