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
use mongodb::error::Error;
use mongodb::options::ReadConcern;
use mongodb::{ClientSession, Collection, Database};
use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::time::Time;

use self::entry::{Entry, Part, Stored};
use crate::error::{code, failed};
use crate::server;
use crate::store::MongoStore;
use crate::within::WithinError;

pub(crate) const DUPLICATE_KEY: i32 = 11_000;

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
    /// How many bytes of entries there are since the last snapshot, and how many that has, as far as we know.
    pub(crate) bytes: usize,
    pub(crate) snapshot_bytes: usize,
    /// The entry up to which the bytes were last counted from nought.
    pub(crate) since: i64,
}

impl Default for Copy {
    /// Of nothing.
    fn default() -> Self {
        Self {
            book: Book::new(),
            number: 0,
            mark: ObjectId::from_bytes([0; 12]),
            at: Time::from_ms(0),
            bytes: 0,
            snapshot_bytes: 0,
            since: 0,
        }
    }
}

/// What is behind a copy.
struct Behind {
    /// Whether the last entry of the copy is still what it was.
    is_same: bool,
    next: Vec<Stored>,
    now: Option<Time>,
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
        let [entries, parts, snapshots, chunks] = MongoStore::COLLECTIONS;
        let journal = Self {
            database: database.clone(),
            entries: server::collection(database, entries),
            parts: server::collection(database, parts),
            snapshots: server::collection(database, snapshots),
            chunks: server::collection(database, chunks),
        };
        journal.prepare().await.map_err(failed)?;
        Ok(journal)
    }

    async fn prepare(&self) -> Result<(), Error> {
        let index = |keys: Document| mongodb::IndexModel::builder().keys(keys).build();
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

    /// Brings a copy up to date, and answers the server's time where the same question told it.
    pub(crate) async fn follow(&self, copy: &mut Copy) -> Result<Option<Time>, StoreError> {
        let Behind { is_same, next, now } = self.behind(copy).await?;
        let follows = next.first().is_none_or(|first| first.number == copy.number + 1);
        if is_same && follows {
            self.apply(copy, next).await?;
            return Ok(now);
        }
        // The history is another, or entries that we have not seen are in a snapshot already.
        *copy = self.newest_snapshot().await?;
        let Behind { next, now, .. } = self.behind(copy).await?;
        if next.first().is_some_and(|first| first.number != copy.number + 1) {
            return Err(StoreError::Unavailable("the journal was cut while it was read".to_owned()));
        }
        self.apply(copy, next).await?;
        Ok(now)
    }

    async fn apply(&self, copy: &mut Copy, next: Vec<Stored>) -> Result<(), StoreError> {
        for stored in next {
            let (entry, bytes) = self.whole(stored).await?;
            entry.replay(copy, bytes);
        }
        Ok(())
    }

    /// What is behind a copy. One question asks for the entries, for the last one that the copy has without its
    /// operations, and for the time.
    async fn behind(&self, copy: &Copy) -> Result<Behind, StoreError> {
        let known = doc! { "$eq": ["$_id", copy.number] };
        let wanted = doc! {
            "mark": 1, "at": 1, "by": 1, "meaning": 1, "parts": 1, "now": "$$NOW",
            "body": { "$cond": [known, "$$REMOVE", "$body"] },
        };
        let found = self
            .entries
            .find(doc! { "_id": { "$gte": copy.number } })
            .sort(doc! { "_id": 1 })
            .projection(wanted)
            .read_concern(ReadConcern::majority())
            .await
            .map_err(failed)?;
        let mut next: Vec<Stored> = found.try_collect().await.map_err(failed)?;
        let now = next.last().and_then(|stored| stored.now);
        let known = match next.first() {
            Some(first) if first.number == copy.number => Some(next.remove(0).mark),
            _ => None,
        };
        let is_same = copy.number == 0 || known == Some(copy.mark);
        Ok(Behind { is_same, next, now: now.map(|now| Time::from_ms(now.timestamp_millis())) })
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

    /// The same within a transaction of somebody else's. Answers how many bytes its operations have.
    pub(crate) async fn append_within(
        &self,
        entry: &Entry,
        session: &mut ClientSession,
    ) -> Result<usize, WithinError> {
        let (stored, parts, bytes) = entry.stored()?;
        let database = |error| WithinError::Database(Box::new(error));
        for part in parts {
            self.parts.insert_one(part).session(&mut *session).await.map_err(database)?;
        }
        self.entries.insert_one(stored).session(session).await.map_err(database)?;
        Ok(bytes)
    }

    /// An entry with the parts that did not fit into it.
    async fn whole(&self, stored: Stored) -> Result<(Entry, usize), StoreError> {
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
    code(error) == Some(DUPLICATE_KEY)
}
