//! Adopted tables: a Postgres table that belongs to somebody else, worked as a
//! [`windlass_core::store::Source`].
//!
//! A [`mapping::Mapping`] says which column means what. The table's own words and times
//! stay; what is written is guarded by owner and fence, as the row has them, and the database's
//! clock decides. No process remembers whose a row is. A lock that ran out is taken back in two looks, and what the first
//! has seen is kept in memory: each process looks for itself. [`AdoptedTable::check`] says in plain words what a table
//! lacks, with the SQL that would add it.
//!
//! What an app wants to write together with a step or an end (a document, a line
//! of an audit) is *carried*: SQL of the mapping that goes into the same
//! statement, so that it happens if and only if the fence still holds.
//!
//! What this deliberately does not do: it adds no column by itself, it keeps no
//! budgets beside their cool-downs, no progress and no events, and it does not enqueue.

mod asked;
mod check;
mod claim;
mod codec;
mod columns;
mod expire;
mod fence;
mod lease;
pub mod mapping;
mod marks;
mod moment;
mod settle;
mod source;
mod statements;
mod ticket;
mod watch;
mod write;

pub use check::Finding;
pub use source::AdoptedTable;
