//! Looking through collections: after a gap, and for a listener that wants what was there before it.

use std::sync::atomic::Ordering;

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};

use super::again::as_event;
use super::databases;
use crate::context::Context;
use crate::event::id_text;
use crate::job::{Cause, Making, NewJob};
use crate::lane::Handle;
use crate::listener::{Dialect, Listener};
use crate::metrics::add;
use crate::sink::{Trouble, ensure, known};
use crate::token::Token;

const PAUSE_MS: u64 = 20;
/// How long the stream may take to come to where the scan is.
const STREAM_MS_MAX: u64 = 20_000;

/// Scans the gaps of a lane that are open.
pub(super) async fn gaps(context: &Context, handle: &Handle, listener: &Listener) -> Result<(), Trouble> {
    let open = doc! { "listener": listener.id(), "lane": handle.id.text(), "state": "open" };
    let mut found = context.home.gaps.find(open).await?;
    while let Some(gap) = found.try_next().await? {
        let Ok(id) = gap.get_str("_id") else { continue };
        let Some(outcome) = scan(context, handle, listener, &Cause::Gap(id)).await? else { return Ok(()) };
        let done = doc! { "$set": {
            "state": "reconciled", "reconciledAt": context.home.now(), "scanned": outcome.scanned, "jobs": outcome.jobs,
        } };
        context.home.gaps.update_one(doc! { "_id": id }, done).await?;
        let open = context.home.gaps.count_documents(doc! { "state": "open" }).await?;
        context.metrics.open_gaps.store(open, Ordering::Relaxed);
        tracing::warn!(listener = %listener.id(), gap = id, jobs = outcome.jobs, "A gap was looked through");
    }
    Ok(())
}

/// Makes jobs of what was there before the listener, once.
pub(super) async fn backfill(context: &Context, handle: &Handle, listener: &Listener) -> Result<(), Trouble> {
    if !listener.backfill {
        return Ok(());
    }
    let position = context.home.positions.find_one(doc! { "_id": handle.id.text() }).await?;
    if position.is_none_or(|position| position.contains_key("backfilledAt")) {
        return Ok(());
    }
    let Some(outcome) = scan(context, handle, listener, &Cause::Backfill).await? else { return Ok(()) };
    let ours = doc! { "_id": handle.id.text(), "fence": handle.fence };
    let done = doc! { "$set": { "backfilledAt": context.home.now(), "backfilled": outcome.jobs } };
    context.home.positions.update_one(ours, done).await?;
    tracing::info!(listener = %listener.id(), jobs = outcome.jobs, "Documents that were there have their jobs");
    Ok(())
}

struct Outcome {
    scanned: i64,
    jobs: i64,
}

/// Looks at all documents of a listener, some at a time. Nothing when it was interrupted; a later one finds what this
/// one has done by the ids of its rows.
async fn scan(
    context: &Context,
    handle: &Handle,
    listener: &Listener,
    cause: &Cause<'_>,
) -> Result<Option<Outcome>, Trouble> {
    let mut outcome = Outcome { scanned: 0, jobs: 0 };
    for database in databases(context, &listener.target).await? {
        let mut after: Option<Bson> = None;
        loop {
            if context.stop.is_asked() || handle.stop.load(Ordering::Relaxed) || !context.holds() {
                return Ok(None);
            }
            let page = page(context, listener, &database, after.as_ref()).await?;
            let Some(last) = page.last().and_then(|document| document.get("_id")).cloned() else { break };
            after = Some(last);
            outcome.scanned += page.len() as i64;
            outcome.jobs += take(context, handle, listener, &database, page, cause).await?;
            context.home.world.sleep_ms(PAUSE_MS).await;
        }
    }
    Ok(Some(outcome))
}

async fn page(
    context: &Context,
    listener: &Listener,
    database: &str,
    after: Option<&Bson>,
) -> Result<Vec<Document>, Trouble> {
    let documents = context.home.client.database(database).collection::<Document>(&listener.collection);
    let mut wanted = match listener.dialect {
        Dialect::Document => listener.query.clone(),
        Dialect::Event => Document::new(),
    };
    if let Some(after) = after {
        // By the order of ids over all types, which a plain comparison does not cross.
        let behind = doc! { "$expr": { "$gt": [ "$_id", { "$literal": after.clone() } ] } };
        wanted = if wanted.is_empty() {
            behind
        } else {
            doc! { "$and": [ wanted, behind ] }
        };
    }
    let mut found =
        documents.find(wanted).sort(doc! { "_id": 1 }).limit(context.work.scan_documents_max as i64).await?;
    let mut page = Vec::new();
    while let Some(document) = found.try_next().await? {
        page.push(document);
    }
    Ok(page)
}

/// Makes a job for each document that matches and has no record: no status of being done, and no row.
async fn take(
    context: &Context,
    handle: &Handle,
    listener: &Listener,
    database: &str,
    page: Vec<Document>,
    cause: &Cause<'_>,
) -> Result<i64, Trouble> {
    let home = &context.home;
    let now = home.now();
    let mut events = Vec::new();
    for document in page {
        let done = listener.status_field.as_ref().is_some_and(|field| field.is_complete(&document));
        if done || !handle.id.takes(listener, document.get("_id").unwrap_or(&Bson::Null)) {
            continue;
        }
        let event = as_event(now, database, &listener.collection, document);
        let matches = event
            .document
            .as_ref()
            .is_some_and(|document| listener.matches_found(document, || event.clone()));
        if matches {
            events.push(event);
        }
    }
    if events.is_empty() {
        return Ok(0);
    }
    // What the stream has yet to tell of these documents comes first, so that none of them has two jobs.
    let here = Token::before(home.after_everything().await?);
    let until = home.world.boot_ms() + STREAM_MS_MAX;
    while handle.seen().token < here && home.world.boot_ms() < until && !context.stop.is_asked() {
        home.world.sleep_ms(PAUSE_MS).await;
    }
    let known = known(home, listener, database, &events).await?;
    let making = Making {
        lane: &handle.id.text(),
        instance: &context.instance,
        due: now,
        payload_bytes_max: context.work.payload_bytes_max,
        target: home.target,
    };
    let new = events.iter().filter(|event| !known.contains(&id_text(event.id())));
    let jobs: Vec<NewJob> = new.map(|event| NewJob::of(listener, event, cause, &making)).collect();
    if jobs.is_empty() {
        return Ok(0);
    }
    ensure(home, &jobs).await?;
    add(&context.metrics.jobs, jobs.len());
    handle.jobs.fetch_add(jobs.len() as u64, Ordering::Relaxed);
    let many = jobs.len() as i64;
    handle.pending.fetch_add(jobs.len() as u64, Ordering::AcqRel);
    let _ = context.statuses.send(jobs).await;
    Ok(many)
}
