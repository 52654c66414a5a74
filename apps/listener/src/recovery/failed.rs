//! Jobs that failed for good: their documents are told.

use futures::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;

use super::ledger;
use crate::context::Context;
use crate::event::id_text;
use crate::job::Origin;
use crate::lane::Handle;
use crate::listener::Listener;
use crate::metrics::add;
use crate::status_writer::entry;

/// Where a row's document is.
pub(super) struct Place {
    pub(super) listener: String,
    pub(super) database: String,
    pub(super) collection: String,
    pub(super) document: Bson,
    pub(super) failed: DateTime,
}

impl Place {
    fn of(row: &Document) -> Option<Self> {
        let data = row.get_document("data").ok()?;
        let text = |name: &str| data.get_str(name).ok().map(str::to_owned);
        Some(Self {
            listener: text("listenerId")?,
            database: text("database")?,
            collection: text("collection")?,
            document: data.get_document("documentKey").ok()?.get("_id")?.clone(),
            failed: *row.get_datetime("failedAt").ok()?,
        })
    }
}

/// Looks for rows that Agenda, or we, marked as failed and that nobody will try again.
pub(super) async fn note(context: &Context, handle: &Handle, listener: &Listener) -> Result<(), Error> {
    let query = doc! {
        "data.listenerId": listener.id(),
        "failedAt": { "$type": "date" },
        "nextRunAt": Bson::Null,
        "lockedAt": Bson::Null,
        "$expr": { "$and": [ { "$ne": [ "$failedAt", "$windlassSeen" ] }, { "$gte": [ "$failedAt", "$lastFinishedAt" ] } ] },
    };
    let mut rows = context.home.jobs.find(query).limit(context.work.scan_documents_max as i64).await?;
    while let Some(row) = rows.try_next().await? {
        let Some(place) = Place::of(&row).filter(|place| handle.id.takes(listener, &place.document)) else {
            continue;
        };
        let why = row.get_str("failReason").unwrap_or("the job failed");
        let dead = ledger::book(context, &row, &place, why).await?;
        tell(context, listener, &row, &place, why).await?;
        let origin = Origin {
            listener: place.listener.clone(),
            database: place.database.clone(),
            collection: place.collection.clone(),
            document: place.document.clone(),
            operation: "",
            status_field: None,
            null_is_no_wish: false,
            wall_ms: None,
        };
        let job = row.get_object_id("_id").map(|id| id.to_hex()).unwrap_or_default();
        let what = if dead { "dead" } else { "failed" };
        let _ = context.home.history.insert_one(entry(context, &origin, what, Some(&job), Some(why))).await;
        if dead {
            add(&context.metrics.dead, 1);
            tracing::error!(listener = %place.listener, document = %id_text(&place.document), error = why, "A document is given up, and is a dead letter");
        }
        // Marked last: a crash before this books the same failure, which changes nothing.
        let seen = doc! { "$set": { "windlassSeen": place.failed } };
        context
            .home
            .jobs
            .update_one(doc! { "_id": row.get("_id").cloned().unwrap_or(Bson::Null) }, seen)
            .await?;
    }
    Ok(())
}

/// Writes `error`, `lastError` and a null status into the document, if that job was its last.
async fn tell(
    context: &Context,
    listener: &Listener,
    row: &Document,
    place: &Place,
    why: &str,
) -> Result<(), Error> {
    let Some(field) = &listener.status_field else { return Ok(()) };
    let job = row.get_object_id("_id").map(|id| id.to_hex()).unwrap_or_default();
    let documents = context.home.client.database(&place.database).collection::<Document>(&place.collection);
    let last = doc! { "_id": place.document.clone(), field.part("jobId"): &job };
    let status = doc! { "$set": { field.path(): {
        "status": Bson::Null, "lastRun": context.home.now(), "listenerId": &place.listener, "jobId": &job,
        "error": why, "lastError": place.failed,
    } } };
    documents.update_one(last, status).await?;
    Ok(())
}
