//! Snapshots: whole books, so that the journal need not be read from its beginning and can be cut.

use mongodb::bson::{Document, doc};
use mongodb::options::ReadConcern;
use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::time::Time;

use super::entry::Part;
use super::{Copy, Journal, is_duplicate};
use crate::error::failed;

/// How many entries before a snapshot are kept, for programs that are a little behind.
const TAIL_KEPT: i64 = 1_000;
/// The one that tells which snapshot is the newest.
const NEWEST: &str = "newest";

impl Journal {
    /// Writes a snapshot of a copy and cuts the journal behind it, unless somebody else has of late. Answers how many
    /// bytes it has. A program that dies half-way leaves parts that nobody reads, until the next snapshot takes them
    /// away.
    pub(crate) async fn write_snapshot(&self, copy: &Copy) -> Result<usize, StoreError> {
        let newest = self.snapshots.find_one(doc! { "_id": NEWEST }).await.map_err(failed)?;
        if let Some(newest) = newest.filter(|newest| newest.get_i64("number").is_ok_and(|at| at > copy.since))
        {
            return Ok(newest.get_i64("bytes").unwrap_or_default() as usize);
        }
        let document = copy.book.to_document();
        let bytes = serde_json::to_vec(&document).map_err(|error| StoreError::Unfit(error.to_string()))?;
        // Two programs that write it at once write the same, part by part.
        let name = format!("{}-{}", copy.number, copy.mark.to_hex());
        let parts = Part::cut(&name, copy.number, &bytes);
        let count = parts.len() as i64;
        for part in parts {
            match self.chunks.insert_one(part).await {
                Err(error) if !is_duplicate(&error) => return Err(failed(error)),
                _ => {}
            }
        }
        let newest = doc! {
            "number": copy.number, "name": &name, "parts": count, "at": copy.at.ms(), "mark": copy.mark,
            "bytes": bytes.len() as i64, "before": copy.before,
            "history": copy.history.as_ref().and_then(|history| bson::serialize_to_bson(history).ok()),
        };
        let older = doc! { "_id": NEWEST, "number": { "$lt": copy.number } };
        let replaced = self.snapshots.update_one(older, doc! { "$set": newest }).upsert(true).await;
        if replaced.is_ok() {
            self.cut(copy.number).await?;
        }
        Ok(bytes.len())
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
