//! Looking through collections: after a gap, and for a listener that wants what was there before it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};

use super::again::{as_event, behind};
use super::{databases, rows};
use crate::context::Context;
use crate::event::id_text;
use crate::job::{Cause, Making, NewJob};
use crate::lane::Handle;
use crate::listener::{Dialect, Listener};
use crate::metrics::add;
use crate::sink::{Trouble, known};
use crate::status_field::StatusField;
use crate::token::Token;

const PAUSE_MS: u64 = 20;
/// How many pages a scan looks at, and for how long, before others are looked at.
const PAGES_MAX: usize = 10;
const TURN_MS_MAX: u64 = 2_000;
/// How long the stream may take to come to where the scan is.
const STREAM_MS_MAX: u64 = 20_000;

/// Scans the gaps of a lane that are open, some pages of each. False when something is left to look at.
pub(super) async fn gaps(
    context: &Context,
    handle: &Arc<Handle>,
    listener: &Listener,
) -> Result<bool, Trouble> {
    let open = doc! { "listener": listener.id(), "lane": handle.id.text(), "state": "open" };
    let mut is_done = true;
    let mut found = context.home.gaps.find(open).await?;
    while let Some(gap) = found.try_next().await? {
        let Ok(id) = gap.get_str("_id") else { continue };
        let from = gap.get_document("cursor").ok();
        let Some(turn) = scan(context, handle, listener, &Cause::Gap(id), from).await? else {
            return Ok(true);
        };
        let did = doc! { "scanned": turn.scanned, "jobs": turn.jobs };
        let Some(cursor) = turn.cursor else {
            let closed = doc! { "state": "reconciled", "reconciledAt": context.home.now() };
            let closed = doc! { "$set": closed, "$inc": did, "$unset": { "cursor": "" } };
            context.home.gaps.update_one(doc! { "_id": id }, closed).await?;
            let open = context.home.gaps.count_documents(doc! { "state": "open" }).await?;
            context.metrics.open_gaps.store(open, Ordering::Relaxed);
            tracing::warn!(listener = %listener.id(), gap = id, "A gap was looked through");
            continue;
        };
        is_done = false;
        let reached = doc! { "$set": { "cursor": cursor }, "$inc": did };
        context.home.gaps.update_one(doc! { "_id": id }, reached).await?;
    }
    Ok(is_done)
}

/// Makes jobs of what was there before the listener, once, some pages at a time. False when something is left.
pub(super) async fn backfill(
    context: &Context,
    handle: &Arc<Handle>,
    listener: &Listener,
) -> Result<bool, Trouble> {
    if !listener.backfill {
        return Ok(true);
    }
    let position = context.home.positions.find_one(doc! { "_id": handle.id.text() }).await?;
    let Some(position) = position.filter(|position| !position.contains_key("backfilledAt")) else {
        return Ok(true);
    };
    let from = position.get_document("backfillCursor").ok();
    let Some(turn) = scan(context, handle, listener, &Cause::Backfill, from).await? else { return Ok(true) };
    let ours = doc! { "_id": handle.id.text(), "fence": handle.fence };
    let did = doc! { "backfilled": turn.jobs };
    let is_done = turn.cursor.is_none();
    let moved = match turn.cursor {
        Some(cursor) => doc! { "$set": { "backfillCursor": cursor }, "$inc": did },
        None => {
            let done = doc! { "backfilledAt": context.home.now() };
            doc! { "$set": done, "$inc": did, "$unset": { "backfillCursor": "" } }
        }
    };
    context.home.positions.update_one(ours, moved).await?;
    if is_done {
        tracing::info!(listener = %listener.id(), "Documents that were there have their jobs");
    }
    Ok(is_done)
}

/// What some pages came to.
struct Turn {
    scanned: i64,
    jobs: i64,
    /// Where to go on: a database, and a document in it. Nothing at the end.
    cursor: Option<Document>,
}

/// Looks at documents of a listener, some pages of them, from where the turn before came to. Nothing when it was
/// interrupted; a later one finds what this one has done by the rows.
async fn scan(
    context: &Context,
    handle: &Arc<Handle>,
    listener: &Listener,
    cause: &Cause<'_>,
    from: Option<&Document>,
) -> Result<Option<Turn>, Trouble> {
    let mut turn = Turn { scanned: 0, jobs: 0, cursor: None };
    let until = context.home.world.boot_ms() + TURN_MS_MAX;
    let first = from.and_then(|from| from.get_str("database").ok()).unwrap_or_default();
    let mut pages = 0;
    for database in
        databases(context, &listener.target).await?.into_iter().filter(|name| name.as_str() >= first)
    {
        let mut after = from.filter(|_| database == first).and_then(|from| from.get("after")).cloned();
        loop {
            if context.stop.is_asked() || handle.stop.load(Ordering::Relaxed) || !context.holds() {
                return Ok(None);
            }
            if pages == PAGES_MAX || context.home.world.boot_ms() > until {
                let after = after.map(|after| doc! { "after": after });
                let mut cursor = doc! { "database": database };
                cursor.extend(after.unwrap_or_default());
                turn.cursor = Some(cursor);
                return Ok(Some(turn));
            }
            pages += 1;
            let page = page(context, listener, &database, after.as_ref()).await?;
            let Some(last) = page.last().and_then(|document| document.get("_id")).cloned() else { break };
            after = Some(last);
            turn.scanned += page.len() as i64;
            let Some(jobs) = take(context, handle, listener, &database, page, cause).await? else {
                return Ok(None);
            };
            turn.jobs += jobs;
            context.home.world.sleep_ms(PAUSE_MS).await;
        }
    }
    Ok(Some(turn))
}

async fn page(
    context: &Context,
    listener: &Listener,
    database: &str,
    after: Option<&Bson>,
) -> Result<Vec<Document>, Trouble> {
    let documents = context.home.client.database(database).collection::<Document>(&listener.collection);
    let wanted = match listener.dialect {
        Dialect::Document => listener.query.clone(),
        Dialect::Event => Document::new(),
    };
    let wanted = behind(vec![wanted], after);
    let mut found =
        documents.find(wanted).sort(doc! { "_id": 1 }).limit(context.work.scan_documents_max as i64).await?;
    let mut page = Vec::new();
    while let Some(document) = found.try_next().await? {
        page.push(document);
    }
    Ok(page)
}

/// Makes a job for each document that matches and has no record: no status of being done, and no row. Nothing when the
/// lane is somebody else's, or its stream far behind.
async fn take(
    context: &Context,
    handle: &Arc<Handle>,
    listener: &Listener,
    database: &str,
    page: Vec<Document>,
    cause: &Cause<'_>,
) -> Result<Option<i64>, Trouble> {
    let home = &context.home;
    let now = home.now();
    let mut events = Vec::new();
    for document in page {
        // One that asks has its job for that.
        let has_its_own = |field: &StatusField| field.is_complete(&document) || field.asks_again(&document);
        if listener.status_field.as_ref().is_some_and(has_its_own)
            || !handle.id.takes(document.get("_id").unwrap_or(&Bson::Null))
        {
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
        return Ok(Some(0));
    }
    // What the stream has yet to tell of these documents comes first, so that none of them has two jobs.
    let here = Token::before(home.after_everything().await?);
    let until = home.world.boot_ms() + STREAM_MS_MAX;
    while handle.seen().token < here {
        if home.world.boot_ms() >= until || context.stop.is_asked() {
            // Another time: whatever the stream is about to tell of them would have a second job.
            return Ok(None);
        }
        home.world.sleep_ms(PAUSE_MS).await;
    }
    let known = known(home, listener, database, &events).await?;
    let making = Making {
        handle,
        instance: &context.instance,
        due: now,
        payload_bytes_max: context.work.payload_bytes_max,
        target: home.target,
    };
    let new = events.iter().filter(|event| !known.contains(&id_text(event.id())));
    let jobs: Vec<NewJob> = new.map(|event| NewJob::of(listener, event, cause, &making)).collect();
    if jobs.is_empty() {
        return Ok(Some(0));
    }
    let mut written = rows::Written::default();
    let is_done = rows::write(context, handle, jobs, &mut written).await;
    let rows::Written { told, new } = written;
    add(&context.metrics.jobs, new);
    handle.jobs.fetch_add(new as u64, Ordering::Relaxed);
    if !told.is_empty() {
        handle.pending.fetch_add(told.len() as u64, Ordering::AcqRel);
        let _ = context.statuses.send(told).await;
    }
    Ok(is_done?.then_some(new as i64))
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Timestamp;

    use super::*;

    /// A scan never runs ahead of its stream, however long that takes: a document that the stream has yet to tell of
    /// would have two jobs.
    #[tokio::test(flavor = "multi_thread")]
    async fn b04_a_scan_waits_for_the_stream_and_makes_nothing_before_it() {
        let place = crate::testing::Place::new().await;
        let (context, mut waits) = place.stepped("a").await;
        let home = &context.home;
        let people = home.client.database(&home.database).collection::<Document>("people");
        people.insert_one(doc! { "_id": "x" }).await.unwrap();
        let all = doc! { "_id": "l", "collection": "people", "database": &home.database, "jobName": "j" };
        let (handle, listener) = crate::testing::lane(&context, all).await;
        let turn = waits.passing(scan(&context, &handle, &listener, &Cause::Gap("g"), None)).await;
        assert!(turn.unwrap().is_none(), "it goes on another time");
        assert_eq!(home.jobs.count_documents(doc! {}).await.unwrap(), 0);
        let end = Token::before(Timestamp { time: u32::MAX, increment: 1 });
        handle.see(|seen| seen.token = end.clone());
        let turn = waits.passing(scan(&context, &handle, &listener, &Cause::Gap("g"), None)).await;
        assert_eq!(turn.unwrap().unwrap().jobs, 1);
    }
}
