//! Locks that have run out, of whoever held them.

use futures::TryStreamExt;
use mongodb::bson::{Document, doc};
use windlass_core::error::StoreError;
use windlass_core::store::{EXPIRE_MAX, Expired};

use super::codec;
use super::source::AgendaRows;
use crate::error::failed;
use crate::server;

impl AgendaRows {
    /// Takes back locks that are older than their lifetime, as Agenda's own claim does, whoever holds them. A row
    /// whose run had started is due at once, also one that repeats. Each is compared with the lock that was seen:
    /// one that was touched meanwhile stays.
    pub(super) async fn take_back(&self) -> Result<Expired, StoreError> {
        let now = self.now().await?;
        let names = self.names(None).await?;
        let stale = doc! {
            "lockedAt": { "$type": "date", "$lte": self.deadline(now) },
            "name": { "$in": &names },
            "disabled": { "$ne": true },
            "_id": { "$type": "objectId" },
        };
        let looked_at = doc! { "lockedAt": 1 };
        let cursor = self.rows.find(stale).projection(looked_at).limit(i64::from(EXPIRE_MAX)).await;
        let stale: Vec<Document> = cursor.map_err(failed)?.try_collect().await.map_err(failed)?;
        let mut expired = Expired::default();
        let mut statements = Vec::with_capacity(stale.len());
        for row in &stale {
            let (Ok(id), Ok(locked_at)) = (row.get_object_id("_id"), row.get_datetime("lockedAt")) else {
                continue;
            };
            let due = doc! { "$min": [{ "$ifNull": ["$nextRunAt", "$$NOW"] }, "$$NOW"] };
            let free = doc! { "$set": { "lockedAt": mongodb::bson::Bson::Null, "nextRunAt": due } };
            statements.push(doc! { "q": { "_id": id, "lockedAt": locked_at }, "u": [free] });
            expired.jobs.push(codec::job_id(self.prefix, id));
        }
        if !statements.is_empty() {
            server::update(&self.database, self.rows.name(), statements, None).await.map_err(failed)?;
            tracing::info!(collection = self.namespace, rows = expired.jobs.len(), "locks had run out");
        }
        Ok(expired)
    }
}
