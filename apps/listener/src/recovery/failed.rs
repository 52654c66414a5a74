//! Jobs that failed for good: their documents are told.

use futures::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use windlass_engine::JobRecord;
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::Store;

use super::ledger::{self, Booked};
use crate::context::Context;
use crate::event::id_text;
use crate::job::Origin;
use crate::lane::Handle;
use crate::listener::Listener;
use crate::metrics::add;
use crate::settings::JobsTarget;
use crate::sink::Trouble;
use crate::status_writer::entry;

/// How many pages of failed jobs of the store are looked at; the newest, of listeners or of anybody else.
const PAGES_MAX: usize = 50;

/// A job that failed for good, and where its document is.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    pub(super) listener: String,
    pub(super) database: String,
    pub(super) collection: String,
    pub(super) document: Bson,
    /// The job, as whoever runs it knows it, and when and why it failed.
    pub(super) job: String,
    pub(super) at: DateTime,
    pub(super) why: String,
}

impl Failed {
    fn of(data: &Document, job: String, at: DateTime, why: &str) -> Option<Self> {
        let text = |name: &str| data.get_str(name).ok().map(str::to_owned);
        Some(Self {
            listener: text("listenerId")?,
            database: text("database")?,
            collection: text("collection")?,
            document: data.get_document("documentKey").ok()?.get("_id")?.clone(),
            job,
            at,
            why: why.to_owned(),
        })
    }

    fn of_row(row: &Document) -> Option<Self> {
        let (id, at) = (row.get_object_id("_id").ok()?, *row.get_datetime("failedAt").ok()?);
        let why = row.get_str("failReason").unwrap_or("the job failed");
        Self::of(row.get_document("data").ok()?, id.to_hex(), at, why)
    }

    fn of_job(job: &JobRecord) -> Option<Self> {
        let data =
            job.spec.payload.read().ok().and_then(|value: serde_json::Value| Bson::try_from(value).ok());
        let at = DateTime::from_millis(job.state.ended_at()?.ms());
        let why = job.history.iter().rev().find_map(|entry| entry.error.clone());
        Self::of(data?.as_document()?, job.id.to_string(), at, why.as_deref().unwrap_or("the job failed"))
    }
}

/// Jobs of the store that failed for good, one look for all listeners. Agenda's rows are looked for by listener.
pub(super) async fn of_store(context: &Context) -> Result<Vec<Failed>, Trouble> {
    let mut found = Vec::new();
    if context.home.target != JobsTarget::Windlass || context.registry.len() == 0 {
        return Ok(found);
    }
    let store = context.home.store().await?;
    let filter = JobFilter { states: vec![StateName::Failed], ..JobFilter::default() };
    let mut request = ListRequest { filter, limit: PAGE_MAX, after: None };
    for _ in 0..PAGES_MAX {
        let page = store.list(request.clone()).await?;
        found.extend(page.jobs.iter().filter_map(Failed::of_job));
        match page.next {
            Some(next) => request.after = Some(next),
            None => break,
        }
    }
    // Those of a document in the order in which they failed.
    found.reverse();
    Ok(found)
}

/// Tells documents of jobs of the store.
pub(super) async fn note_jobs(
    context: &Context,
    handle: &Handle,
    listener: &Listener,
    failed: &[Failed],
) -> Result<(), Error> {
    let id = listener.id();
    for failed in failed.iter().filter(|failed| failed.listener == id) {
        if handle.id.takes(listener, &failed.document) {
            note(context, listener, failed).await?;
        }
    }
    Ok(())
}

/// Looks for rows that Agenda, or we, marked as failed and that nobody will try again.
pub(super) async fn note_rows(context: &Context, handle: &Handle, listener: &Listener) -> Result<(), Error> {
    let query = doc! {
        "data.listenerId": listener.id(),
        "failedAt": { "$type": "date" },
        "nextRunAt": Bson::Null,
        "lockedAt": Bson::Null,
        "$expr": { "$and": [ { "$ne": [ "$failedAt", "$windlassSeen" ] }, { "$gte": [ "$failedAt", "$lastFinishedAt" ] } ] },
    };
    let mut rows = context.home.jobs.find(query).limit(context.work.scan_documents_max as i64).await?;
    while let Some(row) = rows.try_next().await? {
        let Some(failed) = Failed::of_row(&row).filter(|failed| handle.id.takes(listener, &failed.document))
        else {
            continue;
        };
        note(context, listener, &failed).await?;
        // Marked last: a crash before this books the same failure, which changes nothing.
        let seen = doc! { "$set": { "windlassSeen": failed.at } };
        let row = doc! { "_id": row.get("_id").cloned().unwrap_or(Bson::Null) };
        context.home.jobs.update_one(row, seen).await?;
    }
    Ok(())
}

/// Books a failure, and tells its document, the history and the log.
async fn note(context: &Context, listener: &Listener, failed: &Failed) -> Result<(), Error> {
    let dead = match ledger::book(context, failed).await? {
        Booked::Before => return Ok(()),
        Booked::Waiting => false,
        Booked::Dead => true,
    };
    tell(context, listener, failed).await?;
    let origin = Origin {
        listener: failed.listener.clone(),
        database: failed.database.clone(),
        collection: failed.collection.clone(),
        document: failed.document.clone(),
        operation: "",
        status_field: None,
        null_is_no_wish: false,
        wall_ms: None,
    };
    let what = if dead { "dead" } else { "failed" };
    let entry = entry(context, &origin, what, Some(&failed.job), Some(&failed.why));
    let _ = context.home.history.insert_one(entry).await;
    if dead {
        add(&context.metrics.dead, 1);
        tracing::error!(listener = %failed.listener, document = %id_text(&failed.document), error = failed.why, "A document is given up, and is a dead letter");
    }
    ledger::told(context, failed).await
}

/// Writes `error`, `lastError` and a null status into the document, if that job was its last.
async fn tell(context: &Context, listener: &Listener, failed: &Failed) -> Result<(), Error> {
    let Some(field) = &listener.status_field else { return Ok(()) };
    let documents = context.home.client.database(&failed.database).collection::<Document>(&failed.collection);
    let last = doc! { "_id": failed.document.clone(), field.part("jobId"): &failed.job };
    let status = doc! { "$set": { field.path(): {
        "status": Bson::Null, "lastRun": context.home.now(), "listenerId": &failed.listener, "jobId": &failed.job,
        "error": &failed.why, "lastError": failed.at,
    } } };
    documents.update_one(last, status).await?;
    Ok(())
}
