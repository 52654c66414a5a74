//! Adopted tables: a Postgres table that belongs to somebody else, worked as a
//! [`windlass_core::store::Source`].
//!
//! A [`Mapping`] says which column means what. The table's own words and times
//! stay; what is written is guarded by owner and fence, and the database's
//! clock decides. [`AdoptedTable::check`] says in plain words what a table
//! lacks, with the SQL that would add it.
//!
//! What this deliberately does not do: it adds no column by itself, it keeps no
//! budgets, no progress and no events, and it does not enqueue.

mod check;
mod codec;
mod lease;
mod mapping;
mod source;
mod statements;

pub use check::Finding;
pub use mapping::{Mapping, Stage, StepColumn, Words};
pub use source::AdoptedTable;
