//! Records: documents that a worker keeps in the store, beside its jobs.
//!
//! What a worker has to remember between jobs (an article, a listing, a cursor)
//! stands on a named shelf under a key. A batch of writes is one commit with
//! the jobs that it enqueues, guarded by the lease of the attempt that writes
//! and by the revisions that the writer has seen: so a page and its cursor are
//! stored together or not at all, and an attempt that lost its lease stores
//! nothing. There are no queries by content: a record is found by its key, by
//! its place in one order, by one label, or by when it changed.
//!
//! What is written is there for whoever asks after the answer, through whatever
//! handle of the store. Records do not follow their jobs: they stay until they
//! are deleted or expire.

use std::fmt;
use std::str::FromStr;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Invalid, StoreError};
use crate::id::{Label, RecordKey, ShelfName};
use crate::job::NewJob;
use crate::json::Json;
use crate::store::{Enqueued, LeaseRef, check_jobs};
use crate::time::Time;

/// Bytes of a record's value.
pub const RECORD_BYTES_MAX: usize = 1024 * 1024;
/// How many writes one batch may carry.
pub const WRITES_MAX: usize = 1_000;
/// Bytes of values that one batch may carry.
pub const WRITES_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How long the id of a batch is remembered.
pub const BATCH_MEMORY_MS: i64 = 600_000;
/// How many keys one read may name.
pub const READ_MAX: usize = 100;
/// How many records one scan gives.
pub const SCAN_MAX: u32 = 1_000;
/// Bytes of values that one scan gives, but for its first record.
pub const SCAN_BYTES_MAX: usize = 32 * 1024 * 1024;

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
    /// How long it is there.
    pub keep: Keep,
}

/// How long a record is there, unless it is written again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Keep {
    /// Until it is deleted.
    #[default]
    Forever,
    /// For so many milliseconds from its writing, by the store's clock.
    ForMs(u64),
    /// Until a moment: what a record that is changed had before.
    Until(Time),
}

impl Keep {
    /// The moment from which on a record written at `now` is not there.
    pub fn expires_at(self, now: Time) -> Option<Time> {
        match self {
            Self::Forever => None,
            Self::ForMs(ms) => Some(now.plus_ms(i64::try_from(ms).unwrap_or(i64::MAX))),
            Self::Until(at) => Some(at),
        }
    }
}

/// Writes that are one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordBatch {
    /// Written again within [`BATCH_MEMORY_MS`], a batch that was done answers as it did, and changes nothing:
    /// whoever did not hear the answer asks again, and a condition that the batch itself has outdated is no
    /// conflict.
    pub id: Uuid,
    /// Whose attempt writes: nothing is written when it has lost its lease.
    pub lease: Option<LeaseRef>,
    /// The writes, of which no two name the same record; at most [`WRITES_MAX`].
    pub writes: Vec<RecordWrite>,
    /// Jobs that are accepted with them.
    pub jobs: Vec<NewJob>,
}

impl RecordBatch {
    /// A batch of nothing.
    pub fn new(id: Uuid) -> Self {
        Self { id, lease: None, writes: Vec::new(), jobs: Vec::new() }
    }

    /// Refuses a batch that is too long, names a record twice or one id for two jobs. Every store asks this first.
    pub fn checked(&self) -> Result<(), StoreError> {
        if self.writes.len() > WRITES_MAX {
            let why = format!("are more than {WRITES_MAX}; make several batches");
            return Err(Invalid::new("writes", why).into());
        }
        check_jobs(&self.jobs)?;
        let bytes: usize = self
            .writes
            .iter()
            .filter_map(|write| write.put.as_ref())
            .map(|put| put.value.as_str().len())
            .sum();
        if bytes > WRITES_BYTES_MAX {
            let why = format!("have {bytes} bytes; at most {WRITES_BYTES_MAX} are allowed in a batch");
            return Err(Invalid::new("writes", why).into());
        }
        let mut named: Vec<_> = self.writes.iter().map(|write| (&write.shelf, &write.key)).collect();
        named.sort_unstable();
        match named.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                Err(Invalid::new("writes", format!("name {}/{} twice", pair[0].0, pair[0].1)).into())
            }
            None => Ok(()),
        }
    }

    /// What a batch is answered whose id was given to one that is done. Every store asks this.
    pub fn answered(&self, revs: Vec<u64>, jobs: Vec<Enqueued>) -> Result<BatchAnswer, Invalid> {
        if revs.len() != self.writes.len() || jobs.len() != self.jobs.len() {
            return Err(Invalid::new("batch", "was written before with another content; choose a new id"));
        }
        Ok(BatchAnswer::Done { revs, jobs })
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
    /// By revision: what changed last comes last. Whoever goes on behind the last revision that a scan of a
    /// shelf has given misses no write of that shelf: a write that is not there yet will have a higher one.
    /// Only the latest write of a record is found, and a delete is not.
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
    /// Only keys that begin so; empty for all. For the order by key alone: the others would have to read past
    /// what begins otherwise, however much that is.
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

    /// Refuses what no store does, and takes out of the cursor what the order does not compare. Every store
    /// asks this first.
    pub fn checked(mut self) -> Result<Self, Invalid> {
        check_text("prefix", &self.prefix)?;
        if !self.prefix.is_empty() && self.order != Order::Key {
            return Err(Invalid::new(
                "prefix",
                "is for the order by key alone; use a label, or a shelf for each prefix",
            ));
        }
        self.limit = self.limit.clamp(1, SCAN_MAX);
        if let Some(after) = &mut self.after {
            check_text("cursor", &after.key)?;
            match self.order {
                Order::Key => after.at = 0,
                Order::Sort => {}
                Order::Rev => after.key.clear(),
            }
        }
        Ok(self)
    }
}

/// The first text behind all that begin so, compared byte by byte; nothing when there is none.
pub fn prefix_end(prefix: &str) -> Option<String> {
    let mut head = prefix.to_owned();
    while let Some(last) = head.pop() {
        // The order of characters is that of their bytes; the surrogates between them are none.
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            head.push(next);
            return Some(head);
        }
    }
    None
}

/// Refuses a part of a key that no key can have.
pub fn check_text(field: &'static str, text: &str) -> Result<(), Invalid> {
    if text.len() > RecordKey::BYTES_MAX {
        return Err(Invalid::new(field, format!("has more than {} bytes", RecordKey::BYTES_MAX)));
    }
    if text.chars().any(char::is_control) {
        return Err(Invalid::new(field, "contains a control character"));
    }
    Ok(())
}

/// Where a scan ended: what the orders compare.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScanCursor {
    /// `sort` or the revision; 0 when the order is by key.
    pub at: i64,
    /// The key; empty when the order is by revision.
    pub key: String,
}

/// As text, for whoever hands it on: `AT:KEY`.
impl fmt::Display for ScanCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at, self.key)
    }
}

impl FromStr for ScanCursor {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parts = text.split_once(':').and_then(|(at, key)| Some((at.parse().ok()?, key)));
        let (at, key) =
            parts.ok_or_else(|| Invalid::new("cursor", "is not one that was given; begin without one"))?;
        check_text("cursor", key)?;
        Ok(Self { at, key: key.to_owned() })
    }
}

impl Record {
    /// Where a scan in this order is when it has come to this record.
    pub fn cursor(&self, order: Order) -> ScanCursor {
        let key = self.key.as_str();
        let (at, key) = match order {
            Order::Key => (0, key),
            Order::Sort => (self.sort, key),
            Order::Rev => (self.rev.cast_signed(), ""),
        };
        ScanCursor { at, key: key.to_owned() }
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

    /// Records by their keys, at most [`READ_MAX`], in the order asked; nothing for those that are not there.
    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError>;

    /// A page of a shelf.
    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError>;

    /// How many records of a shelf have keys that begin so, by their label. It may read them all.
    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError>;
}

/// Refuses a read of too many keys. Every store asks this first.
pub fn check_read(keys: &[RecordKey]) -> Result<(), Invalid> {
    if keys.len() > READ_MAX {
        return Err(Invalid::new("keys", format!("are more than {READ_MAX}; ask several times")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_survive_as_text() {
        for (at, key) in [(0, "a:b"), (-7, ""), (i64::MAX, "größe")] {
            let cursor = ScanCursor { at, key: key.into() };
            assert_eq!(cursor.to_string().parse(), Ok(cursor));
        }
        for text in ["", "7", "x:y", "7:a\nb"] {
            assert!(text.parse::<ScanCursor>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_prefix_ends_behind_all_that_begin_so() {
        for (prefix, end) in [
            ("", None),
            ("a", Some("b")),
            ("a:", Some("a;")),
            ("\u{d7ff}", Some("\u{e000}")),
            ("a\u{10ffff}", Some("b")),
            ("\u{10ffff}", None),
        ] {
            assert_eq!(prefix_end(prefix).as_deref(), end, "{prefix:?}");
        }
    }

    #[test]
    fn scans_are_checked() {
        let shelf = || ShelfName::new("s").unwrap();
        let scan = Scan { order: Order::Sort, prefix: "a".into(), ..Scan::of(shelf()) };
        assert!(scan.checked().unwrap_err().to_string().contains("order by key alone"));
        let after = Some(ScanCursor { at: 7, key: "k".into() });
        let scan = Scan { order: Order::Rev, after, limit: 0, ..Scan::of(shelf()) }.checked().unwrap();
        assert_eq!((scan.limit, scan.after), (1, Some(ScanCursor { at: 7, key: String::new() })));
    }
}
