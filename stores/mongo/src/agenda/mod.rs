//! Agenda's collection, adopted: rows that Node's Agenda (4, 5, 6 and @hokify's) reads and writes.

mod index;
mod row;

pub use index::{INDEX_NAME, ensure_index, index_keys};
pub use row::{NewRow, row_id};
