//! Jobs that failed for good: their documents are told.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use futures::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use windlass_engine::core::query::{Cursor, JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::Store;
use windlass_engine::{JobRecord, Kind, QueueName};

use super::ledger::{self, Booked};
use crate::context::Context;
use crate::event::id_text;
use crate::history;
use crate::home::is_passing;
use crate::job::Origin;
use crate::lane::Handle;
use crate::listener::Listener;
use crate::metrics::add;
use crate::settings::JobsTarget;
use crate::sink::Trouble;

/// How many pages of failed jobs of a queue and kind are looked at at once; twice as many each time.
const PAGES_MAX: usize = 25;
/// How many failures are remembered as told.
const TOLD_MAX: usize = 100_000;

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

/// What is remembered of failed jobs of the store between two looks; a hint, which saves asking.
#[derive(Default)]
pub(super) struct Looked {
    /// How far back the jobs of a queue and kind were looked at.
    back_to: HashMap<(QueueName, Kind), Cursor>,
    /// Failures that are booked, and of which their documents know.
    told: HashSet<(String, DateTime)>,
}

impl Looked {
    /// Remembers failures of which their documents know now.
    pub(super) fn remember(&mut self, told: Vec<(String, DateTime)>) {
        if self.told.len() >= TOLD_MAX {
            self.told.clear();
        }
        self.told.extend(told);
    }
}

/// Jobs of the store that failed for good, one look for all listeners: of their queues and kinds alone, so that what
/// others have stored hides nothing. The newest each time, and some of those further back. Agenda's rows are looked
/// for by listener.
pub(super) async fn of_store(context: &Context, looked: &mut Looked) -> Result<Vec<Failed>, Trouble> {
    let mut found = Vec::new();
    if context.home.target != JobsTarget::Windlass {
        return Ok(found);
    }
    let listeners = context.registry.all().into_iter().filter_map(|handle| handle.seen().listener);
    let places: HashSet<(QueueName, Kind)> = listeners
        .filter_map(|listener| {
            Some((QueueName::new(&listener.queue).ok()?, Kind::new(&listener.job_name).ok()?))
        })
        .collect();
    looked.back_to.retain(|place, _| places.contains(place));
    for place in places {
        let (mut new, next) = pages(context, &place, None).await?;
        if next.is_some() {
            let from = looked.back_to.remove(&place).or(next);
            let (old, next) = pages(context, &place, from).await?;
            new.extend(old);
            // At the end it begins again behind the newest.
            looked.back_to.extend(next.map(|next| (place, next)));
        }
        found.extend(new.iter().filter_map(Failed::of_job));
    }
    found.retain(|failed| !looked.told.contains(&(failed.job.clone(), failed.at)));
    // Those of a document in the order in which they failed.
    found.sort_by_key(|failed| failed.at);
    Ok(found)
}

/// Some pages of failed jobs of a queue and kind, the newest first, and where to go on.
async fn pages(
    context: &Context,
    (queue, kind): &(QueueName, Kind),
    from: Option<Cursor>,
) -> Result<(Vec<JobRecord>, Option<Cursor>), Trouble> {
    let (queue, kind) = (Some(queue.clone()), Some(kind.clone()));
    let filter = JobFilter { states: vec![StateName::Failed], queue, kind, ..JobFilter::default() };
    let mut request = ListRequest { filter, limit: PAGE_MAX, after: from };
    let mut jobs = Vec::new();
    for _ in 0..PAGES_MAX {
        let page = context.home.store().await?.list(request.clone()).await?;
        jobs.extend(page.jobs);
        request.after = page.next;
        if request.after.is_none() {
            break;
        }
    }
    Ok((jobs, request.after))
}

/// Tells documents of jobs of the store.
pub(super) async fn note_jobs(
    context: &Context,
    handle: &Handle,
    listener: &Listener,
    failed: &[Failed],
    told: &Mutex<Vec<(String, DateTime)>>,
) -> Result<(), Trouble> {
    let id = listener.id();
    for failed in failed.iter().filter(|failed| failed.listener == id) {
        if handle.id.takes(&failed.document) {
            if !note(context, handle, listener, failed).await? {
                break;
            }
            told.lock().unwrap_or_else(PoisonError::into_inner).push((failed.job.clone(), failed.at));
        }
    }
    Ok(())
}

/// Looks for rows that Agenda, or we, marked as failed and that nobody will try again.
pub(super) async fn note_rows(
    context: &Context,
    handle: &Handle,
    listener: &Listener,
) -> Result<(), Trouble> {
    let query = doc! {
        "data.listenerId": listener.id(),
        "failedAt": { "$type": "date" },
        "nextRunAt": Bson::Null,
        "lockedAt": Bson::Null,
        "$expr": { "$and": [ { "$ne": [ "$failedAt", "$windlassSeen" ] }, { "$gte": [ "$failedAt", "$lastFinishedAt" ] } ] },
    };
    let mut rows = context.home.jobs.find(query).limit(context.work.scan_documents_max as i64).await?;
    while let Some(row) = rows.try_next().await? {
        let Some(failed) = Failed::of_row(&row).filter(|failed| handle.id.takes(&failed.document)) else {
            continue;
        };
        if !note(context, handle, listener, &failed).await? {
            break;
        }
        // Marked last: a crash before this books the same failure, which changes nothing.
        let seen = doc! { "$set": { "windlassSeen": failed.at } };
        let row = doc! { "_id": row.get("_id").cloned().unwrap_or(Bson::Null) };
        context.home.jobs.update_one(row, seen).await?;
    }
    Ok(())
}

/// Books a failure, and tells its document, the history and the log. False when the lane is somebody else's.
async fn note(
    context: &Context,
    handle: &Handle,
    listener: &Listener,
    failed: &Failed,
) -> Result<bool, Trouble> {
    let dead = match ledger::book(context, handle, failed).await? {
        Booked::Before => return Ok(true),
        Booked::NotOurs => return Ok(false),
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
    history::note(context, &origin, what, &failed.job, Some(&failed.why)).await;
    if dead {
        add(&context.metrics.dead, 1);
        tracing::error!(listener = %failed.listener, document = %id_text(&failed.document), error = failed.why, "A document is given up, and is a dead letter");
    }
    ledger::told(context, failed).await?;
    Ok(true)
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
    match documents.update_one(last, status).await {
        // A document that takes no status is no reason to leave the others alone.
        Err(error) if !is_passing(&error) => {
            add(&context.metrics.status_failures, 1);
            tracing::warn!(document = %id_text(&failed.document), error = %error.kind, "A document cannot be told that its job failed");
            Ok(())
        }
        told => told.map(drop),
    }
}
