//! Documents that are done again: one job for each time that it was asked for.

use std::sync::atomic::Ordering;

use futures::TryStreamExt;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;

use super::entry_id;
use crate::context::Context;
use crate::event::{Event, Operation};
use crate::history;
use crate::home::number;
use crate::job::{Cause, Making, NewJob};
use crate::lane::Handle;
use crate::listener::Listener;
use crate::metrics::add;
use crate::sink::{Trouble, write_within};
use crate::status_field::StatusField;
use crate::status_writer::complete;
use crate::token::Token;

/// How long one look may take.
const LOOK_MS_MAX: u64 = 10_000;

/// A document that was found, as if it had just been heard of.
pub(super) fn as_event(
    home_now: mongodb::bson::DateTime,
    database: &str,
    collection: &str,
    document: Document,
) -> Event {
    let id = document.get("_id").cloned().unwrap_or(Bson::Null);
    let seconds = u32::try_from(home_now.timestamp_millis() / 1_000).unwrap_or(0);
    let time = mongodb::bson::Timestamp { time: seconds, increment: 1 };
    Event {
        token: Token::before(time),
        cluster_time: time,
        wall_time: None,
        operation: Operation::Update,
        database: database.to_owned(),
        collection: collection.to_owned(),
        key: doc! { "_id": id },
        bytes: document.to_vec().map_or(0, |bytes| bytes.len()),
        document: Some(document),
        before: None,
        update: None,
    }
}

/// Documents of a database whose status somebody has set to null.
pub(super) async fn wished(
    context: &Context,
    handle: &Handle,
    listener: &Listener,
    database: &str,
    field: &StatusField,
) -> Result<(), Trouble> {
    let documents = context.home.client.database(database).collection::<Document>(&listener.collection);
    // Those with an error are tried again by their ladder.
    let mut query = doc! { "$and": [ field.query_again(), { field.part("error"): Bson::Null } ] };
    if listener.dialect == crate::listener::Dialect::Document && !listener.query.is_empty() {
        query = doc! { "$and": [ query, listener.query.clone() ] };
    }
    let found = documents
        .find(query)
        .limit(context.work.scan_documents_max as i64)
        .max_time(std::time::Duration::from_millis(LOOK_MS_MAX))
        .await;
    let mut found = found?;
    while let Some(document) = found.try_next().await? {
        if context.stop.is_asked() || handle.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        if !handle.id.takes(listener, document.get("_id").unwrap_or(&Bson::Null))
            || !field.asks_again(&document)
        {
            continue;
        }
        let event = as_event(context.home.now(), database, &listener.collection, document);
        let matches = event
            .document
            .as_ref()
            .is_some_and(|document| listener.matches_found(document, || event.clone()));
        if matches {
            redo(context, handle, listener, &event).await?;
        }
    }
    Ok(())
}

/// Documents whose jobs have failed, and whose time has come.
pub(super) async fn due(context: &Context, handle: &Handle, listener: &Listener) -> Result<(), Trouble> {
    let home = &context.home;
    let query = doc! { "listener": listener.id(), "state": "waiting", "dueAt": { "$lte": home.now() } };
    let mut found = home.dead.find(query).limit(context.work.scan_documents_max as i64).await?;
    while let Some(letter) = found.try_next().await? {
        let (Ok(database), Ok(collection), Some(id)) =
            (letter.get_str("database"), letter.get_str("collection"), letter.get("documentId"))
        else {
            continue;
        };
        if !handle.id.takes(listener, id) {
            continue;
        }
        let documents = home.client.database(database).collection::<Document>(collection);
        let document = documents.find_one(doc! { "_id": id.clone() }).await?;
        let wanted = document.as_ref().is_some_and(|document| {
            listener.status_field.as_ref().is_none_or(|field| field.asks_again(document))
        });
        let done = match document.filter(|_| wanted) {
            Some(document) => {
                let event = as_event(home.now(), database, collection, document);
                redo(context, handle, listener, &event).await?
            }
            // It is gone, or has gone through since.
            None => true,
        };
        if done {
            let state = if wanted { "again" } else { "settled" };
            let this = doc! { "_id": letter.get("_id").cloned().unwrap_or(Bson::Null), "state": "waiting" };
            home.dead.update_one(this, doc! { "$set": { "state": state } }).await?;
        }
    }
    Ok(())
}

/// One job more for a document. Its row and the end of the wish are one transaction, so that a wish makes one job.
async fn redo(
    context: &Context,
    handle: &Handle,
    listener: &Listener,
    event: &Event,
) -> Result<bool, Trouble> {
    let home = &context.home;
    let id = entry_id(&listener.id(), &event.database, &event.collection, event.id());
    let times = home.dead.find_one(doc! { "_id": id }).await?.map_or(0, |entry| number(&entry, "times"));
    let making = Making {
        lane: &handle.id.text(),
        instance: &context.instance,
        due: home.now(),
        payload_bytes_max: context.work.payload_bytes_max,
        target: home.target,
    };
    let job = NewJob::of(listener, event, &Cause::Again(u64::try_from(times).unwrap_or(0) + 1), &making);
    let siblings = siblings(context, listener, event).await?;
    let mut session = home.session().await?;
    session.start_transaction().await?;
    let written = async {
        if let Some(field) = &listener.status_field {
            let documents = home.client.database(&event.database).collection::<Document>(&event.collection);
            let mut asks = field.query_again();
            asks.insert("_id", event.id().clone());
            let done = complete(context, field, &listener.id(), &job.name);
            // The map of all listeners may be null as a whole: then each of them was asked, and it is made anew so.
            if field.private() != field.path() {
                let parent = doc! { "_id": event.id().clone(), field.private(): { "$type": 10 } };
                let asked = doc! { "$set": { field.private(): siblings.clone() } };
                documents.update_one(parent, asked).session(&mut session).await?;
            }
            let ended = documents.update_one(asks, done).session(&mut session).await?;
            if ended.matched_count == 0 {
                return Ok(None);
            }
        }
        let booked = doc! {
            "$inc": { "times": 1_i64 },
            "$setOnInsert": { "listener": listener.id(), "state": "again", "attempts": 0_i64, "database": &event.database,
                "collection": &event.collection, "document": crate::event::id_text(event.id()), "documentId": event.id().clone() },
        };
        home.dead.update_one(doc! { "_id": id }, booked).upsert(true).session(&mut session).await?;
        let jobs = std::slice::from_ref(&job);
        write_within(home, &mut session, jobs).await.map(Some)
    }
    .await;
    match written {
        Ok(Some(within)) => {
            session.commit_transaction().await?;
            if let Some(within) = within {
                within.committed();
            }
        }
        other => {
            let _ = session.abort_transaction().await;
            return match other {
                Err(trouble) if !trouble.passes() => Err(trouble),
                // Somebody writes the document at this moment; another time.
                _ => Ok(false),
            };
        }
    }
    add(&context.metrics.recovered, 1);
    add(&context.metrics.jobs, 1);
    handle.jobs.fetch_add(1, Ordering::Relaxed);
    history::note(context, &job.origin, "again", &job.name, None).await;
    Ok(true)
}

/// All listeners that share the map of a document, each asked for again.
async fn siblings(context: &Context, listener: &Listener, event: &Event) -> Result<Document, Error> {
    let mut asked = Document::new();
    let Some(field) = listener.status_field.as_ref().filter(|field| field.private() != field.path()) else {
        return Ok(asked);
    };
    let mut found = context.home.listeners.find(doc! { "collection": &event.collection }).await?;
    while let Some(document) = found.try_next().await? {
        let Ok(other) = Listener::read(&document) else { continue };
        let Some(theirs) =
            other.status_field.as_ref().filter(|_| other.watches(&event.database, &event.collection))
        else {
            continue;
        };
        if theirs.private() == field.private()
            && let Some(name) = theirs.path().rsplit('.').next()
        {
            asked.insert(name, Bson::Null);
        }
    }
    Ok(asked)
}
