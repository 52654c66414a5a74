//! Snapshots: whole books, so that the journal need not be read from its beginning and can be cut.

use mongodb::bson::{Document, doc};
use mongodb::options::ReadConcern;
use windlass_core::book::{Book, Document as BookDocument};
use windlass_core::error::StoreError;
use windlass_core::time::Time;

use super::entry::Part;
use super::{Copy, Journal, is_duplicate};
use crate::error::failed;

/// How many entries before a snapshot are kept, for programs that are a little behind.
const TAIL_KEPT: i64 = 1_000;
/// The one that tells which snapshot is the newest.
const NEWEST: &str = "newest";

/// A book as it was behind an entry, taken out so that the store goes on while it is written.
pub(crate) struct Snapshot {
    document: BookDocument,
    /// The copy that it was taken of, without its book.
    of: Copy,
}

impl Copy {
    pub(crate) fn snapshot(&self) -> Snapshot {
        let Self { book, number, mark, before, at, history, .. } = self;
        let (number, mark, before, at, history) = (*number, *mark, *before, *at, history.clone());
        Snapshot {
            document: book.to_document(),
            of: Self { number, mark, before, at, history, ..Self::default() },
        }
    }
}

impl Journal {
    /// How many bytes the newest snapshot has, where it is a later one than this copy knows.
    pub(crate) async fn later_snapshot(&self, copy: &Copy) -> Result<Option<usize>, StoreError> {
        let newest = self.snapshots.find_one(doc! { "_id": NEWEST }).await.map_err(failed)?;
        let later = newest.filter(|newest| newest.get_i64("number").is_ok_and(|at| at > copy.since));
        Ok(later.map(|newest| newest.get_i64("bytes").unwrap_or_default() as usize))
    }

    /// Writes a snapshot and cuts the journal behind it. Answers how many bytes it has. A program that dies half-way
    /// leaves parts that nobody reads, until the next snapshot takes them away.
    pub(crate) async fn write_snapshot(&self, snapshot: Snapshot) -> Result<usize, StoreError> {
        let Snapshot { document, of } = snapshot;
        // A million jobs are seconds of work, which no other task should wait for.
        let bytes = tokio::task::spawn_blocking(move || serde_json::to_vec(&document)).await;
        let bytes = bytes.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        let bytes = bytes.map_err(|error| StoreError::Unfit(error.to_string()))?;
        // Two programs that write it at once write the same, part by part.
        let name = format!("{}-{}", of.number, of.mark.to_hex());
        let parts = Part::cut(&name, of.number, &bytes);
        let count = parts.len() as i64;
        for part in parts {
            match self.chunks.insert_one(part).await {
                Err(error) if !is_duplicate(&error) => return Err(failed(error)),
                _ => {}
            }
        }
        let newest = doc! {
            "number": of.number, "name": &name, "parts": count, "at": of.at.ms(), "mark": of.mark,
            "bytes": bytes.len() as i64, "before": of.before,
            "history": of.history.as_ref().and_then(|history| bson::serialize_to_bson(history).ok()),
        };
        if !self.has(&of).await? {
            // Its history was lost meanwhile, or somebody has written a later one.
            return Ok(bytes.len());
        }
        let older = doc! { "_id": NEWEST, "number": { "$lt": of.number } };
        let replaced = self.snapshots.update_one(older, doc! { "$set": newest }).upsert(true).await;
        if replaced.is_ok() {
            self.cut(of.number).await?;
        }
        Ok(bytes.len())
    }

    /// Whether the last entry of a copy is in the journal.
    async fn has(&self, copy: &Copy) -> Result<bool, StoreError> {
        let last = doc! { "_id": copy.number, "mark": copy.mark };
        let found = self.entries.find_one(last).read_concern(ReadConcern::majority()).await;
        Ok(found.map_err(failed)?.is_some())
    }

    async fn cut(&self, number: i64) -> Result<(), StoreError> {
        let before = doc! { "number": { "$lt": number } };
        self.chunks.delete_many(before).await.map_err(failed)?;
        let old = number - TAIL_KEPT;
        self.entries.delete_many(doc! { "_id": { "$lt": old } }).await.map_err(failed)?;
        self.parts.delete_many(doc! { "number": { "$lt": old } }).await.map_err(failed)?;
        Ok(())
    }

    /// Whether there is a snapshot behind this entry.
    pub(crate) async fn has_snapshot_behind(&self, number: i64) -> Result<bool, StoreError> {
        let behind = doc! { "_id": NEWEST, "number": { "$gt": number } };
        let found = self.snapshots.find_one(behind).read_concern(ReadConcern::majority()).await;
        Ok(found.map_err(failed)?.is_some())
    }

    /// The newest snapshot; an empty book where there is none.
    pub(crate) async fn newest_snapshot(&self) -> Result<Copy, StoreError> {
        let newest: Option<Document> = self
            .snapshots
            .find_one(doc! { "_id": NEWEST })
            .read_concern(ReadConcern::majority())
            .await
            .map_err(failed)?;
        let Some(newest) = newest else { return Ok(Copy::default()) };
        let unreadable = |why: String| StoreError::Broken(format!("the snapshot cannot be read: {why}"));
        let text = |key: &str| newest.get_str(key).map_err(|error| unreadable(error.to_string()));
        let whole = |key: &str| newest.get_i64(key).map_err(|error| unreadable(error.to_string()));
        let parts = self.parts_of(&self.chunks, text("name")?, whole("parts")? as u32).await?;
        let (document, bytes) = {
            let json = Part::joined(&parts);
            drop(parts);
            (serde_json::from_slice(&json).map_err(|error| unreadable(error.to_string()))?, json.len())
        };
        Ok(Copy {
            book: Book::from_document(document)?,
            number: whole("number")?,
            mark: newest.get_object_id("mark").map_err(|error| unreadable(error.to_string()))?,
            before: newest.get_object_id("before").ok(),
            at: Time::from_ms(whole("at")?),
            history: newest
                .get_document("history")
                .ok()
                .and_then(|history| bson::deserialize_from_document(history.clone()).ok()),
            lost: None,
            bytes: 0,
            snapshot_bytes: bytes,
            since: whole("number")?,
        })
    }
}
