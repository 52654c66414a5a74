//! The journal: what was done to the store, in order (a replicated log of operations), with snapshots.
//!
//! An entry is one document whose `_id` is its number. Whoever inserts number `n + 1` has seen all up to `n`; two that
//! try it at once meet at the unique index, and one of them looks again. Entries are read only when a majority has
//! them, so that what was read is never rolled back.

pub(crate) mod entry;
pub(crate) mod op;
pub(crate) mod record_form;
mod snapshot;

use futures::TryStreamExt;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use mongodb::error::{Error, ErrorKind, WriteFailure};
use mongodb::options::ReadConcern;
use mongodb::{Collection, Database};
use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::time::Time;

use self::entry::{Entry, Part, Stored};
use crate::error::failed;
use crate::server;

const DUPLICATE_KEY: i32 = 11_000;

/// The collections of a store, and how to read and write them.
pub(crate) struct Journal {
    database: Database,
    entries: Collection<Stored>,
    parts: Collection<Part>,
    snapshots: Collection<Document>,
    chunks: Collection<Part>,
}

/// A book, and the entry up to which it is true.
#[derive(Debug, Clone)]
pub(crate) struct Copy {
    pub(crate) book: Book,
    /// The number of the last entry, and its mark: another mark under the same number is another history.
    pub(crate) number: i64,
    pub(crate) mark: ObjectId,
    /// When it was made.
    pub(crate) at: Time,
}

impl Default for Copy {
    /// Of nothing.
    fn default() -> Self {
        Self { book: Book::new(), number: 0, mark: ObjectId::from_bytes([0; 12]), at: Time::from_ms(0) }
    }
}

/// What a look at the journal found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// Nothing new.
    Nothing,
    /// Entries of others.
    More,
}

/// What became of an entry.
pub(crate) enum Appended {
    /// A majority has it.
    Done {
        /// How many bytes its operations have.
        bytes: usize,
    },
    /// Somebody else was first.
    Taken,
}

impl Journal {
    /// Opens the journal of a database.
    pub(crate) async fn open(database: &Database) -> Result<Self, StoreError> {
        server::now(database).await?;
        let journal = Self {
            database: database.clone(),
            entries: server::collection(database, "windlass_journal"),
            parts: server::collection(database, "windlass_parts"),
            snapshots: server::collection(database, "windlass_snapshots"),
            chunks: server::collection(database, "windlass_chunks"),
        };
        journal.prepare().await.map_err(failed)?;
        Ok(journal)
    }

    /// The indexes. The first lets a look at the last entry be answered without reading it.
    async fn prepare(&self) -> Result<(), Error> {
        let index = |keys: Document| mongodb::IndexModel::builder().keys(keys).build();
        self.entries.create_index(index(doc! { "_id": 1, "mark": 1 })).await?;
        self.parts.create_index(index(doc! { "number": 1 })).await?;
        self.chunks.create_index(index(doc! { "number": 1 })).await?;
        Ok(())
    }

    /// The time by the server's clock.
    pub(crate) async fn now(&self) -> Result<Time, StoreError> {
        let now = server::now(&self.database).await?;
        Ok(Time::from_ms(now.timestamp_millis()))
    }

    /// Where entries appear.
    pub(crate) fn entries(&self) -> &Collection<Stored> {
        &self.entries
    }

    /// Brings a copy up to date.
    pub(crate) async fn follow(&self, copy: &mut Copy) -> Result<Seen, StoreError> {
        let (same, mut next) = futures::try_join!(self.has(copy), self.after(copy.number))?;
        let follows = next.first().is_none_or(|first| first.number == copy.number + 1);
        if same && follows {
            return self.apply(copy, next).await;
        }
        // The history is another, or entries that we have not seen are in a snapshot already.
        *copy = self.newest_snapshot().await?;
        next = self.after(copy.number).await?;
        if next.first().is_some_and(|first| first.number != copy.number + 1) {
            return Err(StoreError::Unavailable("the journal was cut while it was read".to_owned()));
        }
        self.apply(copy, next).await?;
        Ok(Seen::More)
    }

    async fn apply(&self, copy: &mut Copy, next: Vec<Stored>) -> Result<Seen, StoreError> {
        let seen = if next.is_empty() { Seen::Nothing } else { Seen::More };
        for stored in next {
            let entry = self.whole(stored).await?;
            entry.replay(copy)?;
        }
        Ok(seen)
    }

    /// Whether the last entry of a copy is still what it was.
    async fn has(&self, copy: &Copy) -> Result<bool, StoreError> {
        if copy.number == 0 {
            return Ok(true);
        }
        let found = self
            .entries
            .clone_with_type::<Document>()
            .find_one(doc! { "_id": copy.number })
            .projection(doc! { "_id": 1, "mark": 1 })
            .read_concern(ReadConcern::majority())
            .await
            .map_err(failed)?;
        Ok(found.is_some_and(|found| found.get_object_id("mark").is_ok_and(|mark| mark == copy.mark)))
    }

    async fn after(&self, number: i64) -> Result<Vec<Stored>, StoreError> {
        let found = self
            .entries
            .find(doc! { "_id": { "$gt": number } })
            .sort(doc! { "_id": 1 })
            .read_concern(ReadConcern::majority())
            .await
            .map_err(failed)?;
        found.try_collect().await.map_err(failed)
    }

    /// Puts an entry behind the one that it names. Its answer may be lost; then nobody knows, and the next look at
    /// the journal tells.
    pub(crate) async fn append(&self, entry: &Entry) -> Result<Appended, StoreError> {
        let (stored, parts, bytes) = entry.stored()?;
        for part in parts {
            self.parts.insert_one(part).await.map_err(failed)?;
        }
        match self.entries.insert_one(stored).await {
            Ok(_) => Ok(Appended::Done { bytes }),
            Err(error) if is_duplicate(&error) => Ok(Appended::Taken),
            Err(error) => Err(failed(error)),
        }
    }

    /// An entry with the parts that did not fit into it.
    async fn whole(&self, stored: Stored) -> Result<Entry, StoreError> {
        let parts = match stored.parts {
            0 => Vec::new(),
            count => self.parts_of(&self.parts, &stored.mark.to_hex(), count).await?,
        };
        Entry::read(stored, parts)
    }

    async fn parts_of(
        &self,
        from: &Collection<Part>,
        mark: &str,
        count: u32,
    ) -> Result<Vec<Part>, StoreError> {
        let ids: Vec<String> = (0..count).map(|at| Part::id(mark, at)).collect();
        let found =
            from.find(doc! { "_id": { "$in": ids } }).sort(doc! { "_id": 1 }).await.map_err(failed)?;
        let found: Vec<Part> = found.try_collect().await.map_err(failed)?;
        if found.len() != count as usize {
            return Err(StoreError::Unavailable("the journal was cut while it was read".to_owned()));
        }
        Ok(found)
    }
}

fn is_duplicate(error: &Error) -> bool {
    match &*error.kind {
        ErrorKind::Write(WriteFailure::WriteError(refused)) => refused.code == DUPLICATE_KEY,
        _ => false,
    }
}
