//! Records: documents that a worker keeps in the store, beside its jobs.
//!
//! What a worker has to remember between jobs (an article, a listing, a cursor)
//! stands on a named shelf under a key. A batch of writes is one commit with
//! the jobs that it enqueues, guarded by the lease of the attempt that writes
//! and by the revisions that the writer has seen: so a page and its cursor are
//! stored together or not at all, and an attempt that lost its lease stores
//! nothing. There are no queries by content: a record is found by its key, by
//! its place in one order, by one label, or by when it changed.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::{Invalid, StoreError};
use crate::id::{Label, RecordKey, ShelfName};
use crate::job::NewJob;
use crate::json::Json;
use crate::store::{Enqueued, LeaseRef};
use crate::time::Time;

/// Bytes of a record's value.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;
/// How many writes one batch may carry.
pub const WRITES_MAX: usize = 1_000;
/// How many records one scan gives.
pub const SCAN_MAX: u32 = 1_000;
/// Bytes of values that one scan gives, but for its first record.
pub const SCAN_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How many expired records one prune deletes.
pub const EXPIRED_MAX: usize = 1_000;

/// A document on a shelf.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its name on the shelf.
    pub key: RecordKey,
    /// What it says.
    pub value: Json,
    /// Its place in the order of its shelf, as its writer said.
    pub sort: i64,
    /// What it is marked with, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// Rises with every write of any record of the store; no two writes have the same.
    pub rev: u64,
    /// When it was last written.
    pub written_at: Time,
    /// From then on it is not there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

/// What must be there before a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfRev {
    /// Anything, or nothing.
    #[default]
    Any,
    /// Nothing.
    Absent,
    /// The record with this revision.
    Is(u64),
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordWrite {
    /// On which shelf.
    pub shelf: ShelfName,
    /// Under which key.
    pub key: RecordKey,
    /// What must be there before.
    pub if_rev: IfRev,
    /// What is there afterwards; nothing deletes it.
    pub put: Option<Put>,
}

/// What a record is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Put {
    /// What it says.
    pub value: Json,
    /// Its place in the order of its shelf.
    pub sort: i64,
    /// What it is marked with.
    pub label: Option<Label>,
    /// How long it is kept; for ever when nothing is said.
    pub keep_ms: Option<u64>,
}

/// Writes that are one commit.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordBatch {
    /// Whose attempt writes: nothing is written when it has lost its lease.
    pub lease: Option<LeaseRef>,
    /// The writes, of which no two name the same record; at most [`WRITES_MAX`].
    pub writes: Vec<RecordWrite>,
    /// Jobs that are accepted with them.
    pub jobs: Vec<NewJob>,
}

impl RecordBatch {
    /// Refuses a batch that is too long or names a record twice.
    pub fn checked(&self) -> Result<(), Invalid> {
        if self.writes.len() > WRITES_MAX {
            return Err(Invalid::new("writes", format!("are more than {WRITES_MAX}")));
        }
        let mut named: Vec<_> = self.writes.iter().map(|write| (&write.shelf, &write.key)).collect();
        named.sort_unstable();
        match named.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Invalid::new("writes", format!("name {}/{} twice", pair[0].0, pair[0].1))),
            None => Ok(()),
        }
    }
}

/// What became of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchAnswer {
    /// All of it is durable.
    Done {
        /// The revision of each write, in the order asked; of a delete, too.
        revs: Vec<u64>,
        /// What became of the jobs.
        jobs: Vec<Enqueued>,
    },
    /// A record was not as it had to be. Nothing changed.
    Conflict {
        /// Which of the writes, by its place in the batch: the first of them.
        write: usize,
        /// The revision that is there, if any.
        rev: Option<u64>,
    },
    /// The lease is lost. Nothing changed.
    LeaseLost,
}

/// In which order records are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By key.
    #[default]
    Key,
    /// By `sort`, and by key where that is equal.
    Sort,
    /// By revision: what changed last comes last.
    Rev,
}

/// A wish for records of one shelf.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The shelf.
    pub shelf: ShelfName,
    /// In which order.
    pub order: Order,
    /// From the other end.
    pub descending: bool,
    /// Only keys that begin so; empty for all.
    pub prefix: String,
    /// Only those with this label.
    pub label: Option<Label>,
    /// Only what comes behind this one, in the order asked.
    pub after: Option<ScanCursor>,
    /// How many at most, up to [`SCAN_MAX`].
    pub limit: u32,
}

impl Scan {
    /// All records of a shelf, by key.
    pub fn of(shelf: ShelfName) -> Self {
        Self {
            shelf,
            order: Order::Key,
            descending: false,
            prefix: String::new(),
            label: None,
            after: None,
            limit: SCAN_MAX,
        }
    }
}

/// Where a scan ended: what the orders compare.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScanCursor {
    /// `sort` or the revision; 0 when the order is by key.
    pub at: i64,
    /// The key.
    pub key: String,
}

impl Record {
    /// Where a scan in this order is when it has come to this record.
    pub fn cursor(&self, order: Order) -> ScanCursor {
        let at = match order {
            Order::Key => 0,
            Order::Sort => self.sort,
            Order::Rev => self.rev.cast_signed(),
        };
        ScanCursor { at, key: self.key.as_str().to_owned() }
    }

    /// Whether it is there at `now`.
    pub fn is_there(&self, now: Time) -> bool {
        self.expires_at.is_none_or(|expires_at| now < expires_at)
    }
}

/// Records, in the order asked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordPage {
    /// The records.
    pub records: Vec<Record>,
    /// Where to go on; nothing when there is no more.
    pub next: Option<ScanCursor>,
}

/// A store that keeps records.
#[async_trait]
pub trait Records: Send + Sync {
    /// Writes a batch, all or none.
    async fn write(&self, batch: RecordBatch) -> Result<BatchAnswer, StoreError>;

    /// Records by their keys, in the order asked; nothing for those that are not there.
    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError>;

    /// A page of a shelf.
    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError>;

    /// How many records of a shelf have keys that begin so, by their label. It may read them all.
    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError>;
}
