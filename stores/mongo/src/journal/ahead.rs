//! Entries that are written without a look at the journal before (optimistic concurrency control).
//!
//! Whoever inserts number `n + 1` has seen all up to `n`, or is not first: the unique index tells, so that nothing need be
//! read before. What the look is for otherwise is asked beside the insert: whether the entries that it rests on are still
//! there. The time is told by the server as it writes. Who the primary is is not asked: the floor of fences, which follows
//! from that, means nothing to an entry that hands out none.

use futures::{TryFutureExt, TryStreamExt};
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::options::{ReadConcern, ReturnDocument};
use windlass_core::error::StoreError;
use windlass_core::time::Time;

use super::entry::{Entry, Stored};
use super::{Appended, Copy, Journal, Last, is_duplicate};
use crate::error::failed;

impl Journal {
    /// Puts an entry behind the last one of a copy, at the server's time unless `is_timed` says that it has its own. The
    /// entry is taken for one that was not first also where the copy's last entries are not there any more: then
    /// nobody reads it.
    pub(crate) async fn append_ahead(
        &self,
        copy: &Copy,
        entry: &mut Entry,
        is_timed: bool,
    ) -> Result<Appended, StoreError> {
        if is_timed {
            let (appended, last) = futures::try_join!(self.append(entry), self.last_of(copy))?;
            return Ok(if last == Last::Same { appended } else { Appended::Taken });
        }
        let (stored, parts, bytes) = entry.stored()?;
        if !parts.is_empty() {
            return Ok(Appended::Taken);
        }
        let stamped = self.insert_stamped(stored, copy.at).map_err(failed);
        let (at, last) = futures::try_join!(stamped, self.last_of(copy))?;
        match at {
            Some(at) if last == Last::Same => {
                entry.at = Time::from_ms(at.timestamp_millis());
                Ok(Appended::Done { bytes })
            }
            _ => Ok(Appended::Taken),
        }
    }

    /// Inserts an entry at the server's time, or at the moment of the one before it where that is later. Answers when that
    /// was; nothing where somebody else has the number.
    async fn insert_stamped(
        &self,
        stored: Stored,
        not_before: Time,
    ) -> Result<Option<DateTime>, mongodb::error::Error> {
        let mut entry = mongodb::bson::serialize_to_document(&stored)?;
        let (number, mark) = (entry.remove("_id"), entry.remove("mark"));
        let mut set: Document =
            entry.into_iter().map(|(name, value)| (name, Bson::from(doc! { "$literal": value }))).collect();
        let not_before = DateTime::from_millis(not_before.ms());
        // One that was written already, whose answer was lost, stays as it is.
        set.insert("at", doc! { "$ifNull": ["$at", { "$max": ["$$NOW", not_before] }] });
        // Another's entry of this number has another mark, and is in the way.
        let found = self
            .entries
            .clone_with_type::<Document>()
            .find_one_and_update(doc! { "_id": number, "mark": mark }, vec![doc! { "$set": set }])
            .upsert(true)
            .return_document(ReturnDocument::After)
            .projection(doc! { "at": 1 })
            .await;
        match found {
            Ok(found) => Ok(found.and_then(|entry| entry.get_datetime("at").ok().copied())),
            Err(error) if is_duplicate(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What became of the last entries of a copy.
    async fn last_of(&self, copy: &Copy) -> Result<Last, StoreError> {
        match self.look_at_last(copy).await? {
            Last::Gone => {
                self.know_the_majority().await?;
                self.look_at_last(copy).await
            }
            last => Ok(last),
        }
    }

    async fn look_at_last(&self, copy: &Copy) -> Result<Last, StoreError> {
        let found = self
            .entries
            .find(doc! { "_id": { "$gte": copy.number - 1, "$lte": copy.number } })
            .projection(doc! { "body": 0 })
            .read_concern(ReadConcern::majority())
            .await
            .map_err(failed)?;
        let known: Vec<Stored> = found.try_collect().await.map_err(failed)?;
        Ok(copy.last_of(known.into_iter()))
    }
}
