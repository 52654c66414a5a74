//! The journal: what was done to the store, in order (a replicated log of operations), with snapshots.
//!
//! An entry is one document whose `_id` is its number. Whoever inserts number `n + 1` has seen all up to `n`; two that
//! try it at once meet at the unique index, and one of them looks again. Entries are read only when a majority has
//! them, so that an election takes back nothing that was read. An entry names the mark of the one before it (a chain):
//! one that was written behind a history which is lost is void.

mod ahead;
pub(crate) mod entry;
pub(crate) mod history;
mod jobs_form;
pub(crate) mod op;
pub(crate) mod record_form;
pub(crate) mod snapshot;

use std::sync::Arc;

use futures::TryStreamExt;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Document, doc};
use mongodb::error::Error;
use mongodb::options::ReadConcern;
use mongodb::{ClientSession, Collection, Database};
use windlass_core::book::Book;
use windlass_core::epoch::Epoch;
use windlass_core::error::StoreError;
use windlass_core::time::Time;

use self::entry::{Entry, Part, Stored};
use self::history::{History, Primary};
use self::op::Op;
use crate::error::{code, failed};
use crate::server;
use crate::store::MongoStore;
use crate::within::WithinError;

pub(crate) const DUPLICATE_KEY: i32 = 11_000;
const NAMESPACE_EXISTS: i32 = 48;
/// How often a journal is read from its snapshot while others cut it.
const READS_MAX: usize = 10;

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
    /// The mark of the entry before the last, where it is known: an entry of ours that went behind another history is
    /// told by it.
    pub(crate) before: Option<ObjectId>,
    /// When it was made.
    pub(crate) at: Time,
    /// Which history this is, once somebody has written it down.
    pub(crate) history: Option<History>,
    /// The epoch of a history that we have read and that is gone, until the next epoch begins.
    pub(crate) lost: Option<Epoch>,
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
            before: None,
            at: Time::from_ms(0),
            history: None,
            lost: None,
            bytes: 0,
            snapshot_bytes: 0,
            since: 0,
        }
    }
}

/// What is behind a copy.
struct Behind {
    last: Last,
    next: Vec<Stored>,
    now: Option<Time>,
}

/// What became of the last entries of a copy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// They are what they were.
    Same,
    /// They are not there: cut off behind a snapshot, or lost.
    Gone,
    /// There are others.
    Other,
}

impl Copy {
    /// The entry that would follow.
    pub(crate) fn next(&self, at: Time, by: ObjectId, ops: Vec<Arc<Op>>) -> Entry {
        Entry { number: self.number + 1, mark: ObjectId::new(), after: Some(self.mark), at, by, ops }
    }

    /// What became of our last entries, given those of the journal that have their numbers.
    fn last_of(&self, known: impl Iterator<Item = Stored>) -> Last {
        if self.number == 0 {
            return Last::Same;
        }
        let (mut last, mut before) = (None, None);
        for stored in known {
            let place = if stored.number == self.number { &mut last } else { &mut before };
            *place = Some(stored.mark);
        }
        let differs = |found: Option<ObjectId>, ours: Option<ObjectId>| {
            found.zip(ours).is_some_and(|(found, ours)| found != ours)
        };
        if differs(last, Some(self.mark)) || differs(before, self.before) {
            return Last::Other;
        }
        let before_is_there = self.before.is_none() || self.number == 1 || before.is_some();
        if last.is_some() && before_is_there { Last::Same } else { Last::Gone }
    }
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
        // A collection has an id from its beginning on; the first entry names it.
        match self.database.create_collection(self.entries.name()).await {
            Err(error) if code(&error) != Some(NAMESPACE_EXISTS) => Err(error),
            _ => Ok(()),
        }
    }

    /// The time by the server's clock.
    pub(crate) async fn now(&self) -> Result<Time, StoreError> {
        let now = server::now(&self.database).await?;
        Ok(Time::from_ms(now.timestamp_millis()))
    }

    /// Whether the server has room for more.
    pub(crate) async fn has_room(&self) -> Result<(), StoreError> {
        server::has_room(&self.database).await
    }

    /// Who takes the writes now.
    pub(crate) async fn primary(&self) -> Result<Primary, StoreError> {
        Primary::of(&self.database).await
    }

    /// Which history this is now.
    pub(crate) async fn history(&self) -> Result<History, StoreError> {
        History::of(&self.database, self.entries.name()).await
    }

    /// Where entries appear.
    pub(crate) fn entries(&self) -> &Collection<Stored> {
        &self.entries
    }

    /// Brings a copy up to date, and answers the server's time where the same question told it. A copy whose last
    /// entries are lost is read anew, and remembers the epoch that it was in.
    pub(crate) async fn follow(&self, copy: &mut Copy) -> Result<Option<Time>, StoreError> {
        let Behind { last, next, now } = self.behind(copy).await?;
        let follows = next.first().is_none_or(|first| first.number == copy.number + 1);
        if last == Last::Same && (follows || !self.has_snapshot_behind(copy.number).await?) {
            self.apply(copy, next).await?;
            return Ok(now);
        }
        let (mut fresh, is_behind, now) = self.read_anew(copy).await?;
        let is_cut = last == Last::Other || !is_behind;
        let seen = *copy.book.epoch();
        // Where the epoch is a later one, somebody has noticed before us.
        let is_unnoticed = fresh.book.epoch().number <= seen.number;
        fresh.lost = if is_cut && is_unnoticed { Some(seen) } else { copy.lost };
        *copy = fresh;
        Ok(now)
    }

    /// A copy from the newest snapshot on, and whether that explains why the last entry of the one before is not there:
    /// it was only behind.
    async fn read_anew(&self, before: &Copy) -> Result<(Copy, bool, Option<Time>), StoreError> {
        for _ in 0..READS_MAX {
            let mut copy = self.newest_snapshot().await?;
            let is_behind =
                copy.number > before.number || (copy.number == before.number && copy.mark == before.mark);
            let Behind { next, now, .. } = self.behind(&copy).await?;
            let follows = next.first().is_none_or(|first| first.number == copy.number + 1);
            // What does not follow is the rest of a lost history, unless the journal was cut meanwhile.
            if follows || !self.has_snapshot_behind(copy.number).await? {
                self.apply(&mut copy, next).await?;
                return Ok((copy, is_behind, now));
            }
        }
        Err(StoreError::Unavailable("the journal was cut while it was read".to_owned()))
    }

    /// Applies entries up to the first that does not follow.
    async fn apply(&self, copy: &mut Copy, next: Vec<Stored>) -> Result<(), StoreError> {
        for stored in next {
            if stored.number != copy.number + 1 {
                break;
            }
            let (entry, bytes) = self.whole(stored).await?;
            entry.replay(copy, bytes);
        }
        Ok(())
    }

    /// What is behind a copy.
    async fn behind(&self, copy: &Copy) -> Result<Behind, StoreError> {
        let behind = self.look_behind(copy).await?;
        if behind.last != Last::Gone {
            return Ok(behind);
        }
        self.know_the_majority().await?;
        self.look_behind(copy).await
    }

    /// Has the primary find out what a majority has. One that was elected a moment ago may not know it yet, and would tell
    /// a majority's state of before: entries that everybody has would seem to be gone.
    async fn know_the_majority(&self) -> Result<(), StoreError> {
        let bare = self.entries.clone_with_type::<Document>();
        let asked = bare.find_one(doc! { "_id": 1_i64 }).projection(doc! { "_id": 1 });
        asked.read_concern(ReadConcern::linearizable()).await.map_err(failed)?;
        Ok(())
    }

    /// One question asks for the entries, for the last two that the copy has without their operations, and for the time.
    async fn look_behind(&self, copy: &Copy) -> Result<Behind, StoreError> {
        let known = doc! { "$lte": ["$_id", copy.number] };
        let wanted = doc! {
            "mark": 1, "after": 1, "at": 1, "by": 1, "meaning": 1, "parts": 1, "now": "$$NOW",
            "body": { "$cond": [known, "$$REMOVE", "$body"] },
        };
        let found = self
            .entries
            .find(doc! { "_id": { "$gte": copy.number - 1 } })
            .sort(doc! { "_id": 1 })
            .projection(wanted)
            .read_concern(ReadConcern::majority())
            .await
            .map_err(failed)?;
        let mut next: Vec<Stored> = found.try_collect().await.map_err(failed)?;
        let now = next.last().and_then(|stored| stored.now);
        let known = next.iter().take_while(|stored| stored.number <= copy.number).count();
        let last = copy.last_of(next.drain(..known));
        Ok(Behind { last, next, now: now.map(|now| Time::from_ms(now.timestamp_millis())) })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A program whose entry went behind another history than it had read knows that by the entry before it.
    #[test]
    fn the_last_two_entries_tell_whether_the_history_is_the_same() {
        let mark = |byte: u8| ObjectId::from_bytes([byte; 12]);
        let copy = Copy { number: 101, mark: mark(1), before: Some(mark(2)), ..Copy::default() };
        let last = |known: &[(i64, u8)]| {
            let stored = |(number, byte): &(i64, u8)| {
                let document = doc! { "_id": number, "mark": mark(*byte), "at": bson::DateTime::MIN, "by": mark(0), "meaning": 4, "parts": 0 };
                bson::deserialize_from_document(document).expect("an entry")
            };
            copy.last_of(known.iter().map(stored))
        };
        assert!(last(&[(100, 2), (101, 1)]) == Last::Same);
        assert!(last(&[(100, 2), (101, 7)]) == Last::Other);
        assert!(last(&[(100, 7), (101, 1)]) == Last::Other);
        for gone in [&[][..], &[(100, 2)], &[(101, 1)]] {
            assert!(last(gone) == Last::Gone, "{gone:?}");
        }
    }
}
