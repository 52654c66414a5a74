//! A record as a type.

use serde::de::DeserializeOwned;
use windlass_core::id::{Label, RecordKey, ShelfName};
use windlass_core::record::{Record, ScanCursor};
use windlass_core::time::Time;

use super::error::ShelfError;

/// A record that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<T> {
    /// Its name on the shelf.
    pub key: RecordKey,
    /// What it says.
    pub value: T,
    /// Its place in the order of its shelf, as its writer said.
    pub sort: i64,
    /// What it is marked with, if anything.
    pub label: Option<Label>,
    /// Rises with every write; for a write that is to be refused when somebody else has written meanwhile.
    pub rev: u64,
    /// When it was last written, by the store's clock.
    pub written_at: Time,
    /// From then on it is not there.
    pub expires_at: Option<Time>,
}

impl<T: DeserializeOwned> Entry<T> {
    pub(super) fn read(shelf: &ShelfName, record: Record) -> Result<Self, ShelfError> {
        let Record { key, value, sort, label, rev, written_at, expires_at } = record;
        match value.read() {
            Ok(value) => Ok(Self { key, value, sort, label, rev, written_at, expires_at }),
            Err(error) => Err(ShelfError::Unreadable { shelf: shelf.clone(), key, error }),
        }
    }
}

/// Records, in the order asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryPage<T> {
    /// The records.
    pub entries: Vec<Entry<T>>,
    /// Where to go on; nothing when there is no more. It can be handed on as text.
    pub next: Option<ScanCursor>,
}
