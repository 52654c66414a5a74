//! Documents that are done again: one job for each time that it was asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::TryStreamExt;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;

use super::rows::set_aside;
use super::{Memory, entry_id, ledger};
use crate::commit::end;
use crate::context::Context;
use crate::event::{Event, Operation, id_text};
use crate::history;
use crate::home::number;
use crate::job::{Cause, Making, NewJob};
use crate::lane::Handle;
use crate::lease;
use crate::listener::{Dialect, Listener};
use crate::metrics::add;
use crate::settings::JobsTarget;
use crate::sink::{Trouble, write_within};
use crate::status_field::StatusField;
use crate::status_writer::{complete, given_up};
use crate::token::Token;

/// How long one look may take.
const LOOK_MS_MAX: u64 = 10_000;
/// Pages of documents that one look reads: most of them may ask for nothing that is due.
const PAGES_MAX: usize = 20;

/// A document that was found, as if it had just been heard of.
pub(super) fn as_event(home_now: DateTime, database: &str, collection: &str, document: Document) -> Event {
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

/// Documents behind one of them, by the order of ids over all types, which a plain comparison does not cross.
pub(super) fn behind(mut wanted: Vec<Document>, after: Option<&Bson>) -> Document {
    wanted.retain(|part| !part.is_empty());
    wanted.extend(after.map(|after| doc! { "$expr": { "$gt": [ "$_id", { "$literal": after.clone() } ] } }));
    match wanted.len() {
        0 | 1 => wanted.pop().unwrap_or_default(),
        _ => doc! { "$and": wanted },
    }
}

/// Documents of a database whose status somebody has set to null, or to the word for an error. Those that our own ledger told of an error are
/// tried again by their ladder; an error of anybody else asks as a plain null does. A look goes on behind the last
/// one, so that documents which ask for nothing that is due never hide the others.
pub(super) async fn wished(
    context: &Context,
    memory: &Memory,
    handle: &Arc<Handle>,
    listener: &Listener,
    database: &str,
    field: &StatusField,
) -> Result<(), Trouble> {
    let documents = context.home.client.database(database).collection::<Document>(&listener.collection);
    let place = format!("{}/{database}", handle.id.text());
    let until = context.home.world.boot_ms() + LOOK_MS_MAX;
    let at_once = context.work.scan_documents_max;
    let mut after = memory.reached(&place);
    let mut left = at_once;
    for _ in 0..PAGES_MAX {
        let of_listener = match listener.dialect {
            Dialect::Document => listener.query.clone(),
            Dialect::Event => Document::new(),
        };
        let page: Vec<Document> = documents
            .find(behind(vec![field.query_again(), of_listener], after.as_ref()))
            .sort(doc! { "_id": 1 })
            .limit(at_once as i64)
            .max_time(std::time::Duration::from_millis(LOOK_MS_MAX))
            .await?
            .try_collect()
            .await?;
        let is_last = page.len() < at_once;
        let told = told(context, listener, database, field, &page).await?;
        for document in page {
            if context.stop.is_asked() || handle.stop.load(Ordering::Relaxed) || left == 0 {
                break;
            }
            after = document.get("_id").cloned();
            if is_wish(context, handle, listener, database, field, &document, &told) {
                let event = as_event(context.home.now(), database, &listener.collection, document);
                redo(context, handle, listener, &event).await?;
                left -= 1;
            }
        }
        if is_last && left > 0 {
            // From the beginning, next time.
            after = None;
        }
        if is_last || left == 0 || context.home.world.boot_ms() > until {
            break;
        }
    }
    memory.reach(place, after);
    Ok(())
}

/// What the ledger knows of those documents of a page that have an error.
async fn told(
    context: &Context,
    listener: &Listener,
    database: &str,
    field: &StatusField,
    page: &[Document],
) -> Result<HashMap<ObjectId, Document>, Error> {
    let with_error = page.iter().filter(|document| field.error(document).is_some());
    let id = |document: &Document| {
        let id = document.get("_id").unwrap_or(&Bson::Null);
        entry_id(&listener.id(), database, &listener.collection, id)
    };
    let ids: Vec<ObjectId> = with_error.map(id).collect();
    let mut told = HashMap::new();
    if ids.is_empty() {
        return Ok(told);
    }
    let mut found = context.home.dead.find(doc! { "_id": { "$in": ids } }).await?;
    while let Some(entry) = found.try_next().await? {
        if let Ok(id) = entry.get_object_id("_id") {
            told.insert(id, entry);
        }
    }
    Ok(told)
}

fn is_wish(
    context: &Context,
    handle: &Arc<Handle>,
    listener: &Listener,
    database: &str,
    field: &StatusField,
    document: &Document,
    told: &HashMap<ObjectId, Document>,
) -> bool {
    let id = document.get("_id").unwrap_or(&Bson::Null);
    if !handle.id.takes(id) || !field.asks_again(document) {
        return false;
    }
    if let Some(error) = field.error(document).filter(|_| !field.says_error(document)) {
        let entry = told.get(&entry_id(&listener.id(), database, &listener.collection, id));
        if entry.is_some_and(|entry| ledger::has_told(entry, &error)) {
            return false;
        }
    }
    let event = || as_event(context.home.now(), database, &listener.collection, document.clone());
    listener.matches_found(document, event)
}

/// Documents whose jobs have failed, and whose time has come.
pub(super) async fn due(context: &Context, handle: &Arc<Handle>, listener: &Listener) -> Result<(), Trouble> {
    let home = &context.home;
    let query = doc! { "listener": listener.id(), "state": "waiting", "dueAt": { "$lte": home.now() } };
    let mut found = home.dead.find(query).limit(context.work.scan_documents_max as i64).await?;
    while let Some(letter) = found.try_next().await? {
        let (Ok(database), Ok(collection), Some(id)) =
            (letter.get_str("database"), letter.get_str("collection"), letter.get("documentId"))
        else {
            continue;
        };
        if !handle.id.takes(id) {
            continue;
        }
        let documents = home.client.database(database).collection::<Document>(collection);
        let document = documents.find_one(doc! { "_id": id.clone() }).await?;
        let wanted = document.as_ref().is_some_and(|document| {
            listener.status_field.as_ref().is_none_or(|field| field.asks_again(document))
        });
        let state = match document.filter(|_| wanted) {
            Some(document) => {
                let event = as_event(home.now(), database, collection, document);
                match redo(context, handle, listener, &event).await? {
                    Redone::Made => "again",
                    // Its entry says so already.
                    Redone::GivenUp | Redone::Later => continue,
                }
            }
            // It is gone, or has gone through since.
            None => "settled",
        };
        let this = doc! { "_id": letter.get("_id").cloned().unwrap_or(Bson::Null), "state": "waiting" };
        home.dead.update_one(this, doc! { "$set": { "state": state } }).await?;
    }
    Ok(())
}

/// What became of a document that asked.
enum Redone {
    Made,
    /// Its job can never be written.
    GivenUp,
    /// Somebody writes the document at this moment, has ended the wish, or has the lane.
    Later,
}

/// One job more for a document. Its row and the end of the wish are one transaction, so that a wish makes one job.
async fn redo(
    context: &Context,
    handle: &Arc<Handle>,
    listener: &Listener,
    event: &Event,
) -> Result<Redone, Trouble> {
    let home = &context.home;
    let id = entry_id(&listener.id(), &event.database, &event.collection, event.id());
    let entry = home.dead.find_one(doc! { "_id": id }).await?.unwrap_or_default();
    let times = number(&entry, "times");
    let making = Making {
        handle,
        instance: &context.instance,
        due: due_behind(context, listener, event).await?,
        payload_bytes_max: context.work.payload_bytes_max,
        target: home.target,
    };
    let job = NewJob::of(listener, event, &Cause::Again(u64::try_from(times).unwrap_or(0) + 1), &making);
    let siblings = siblings(context, listener, event).await?;
    let mut session = home.session().await?;
    session.start_transaction().await?;
    let written = async {
        if !lease::fence(home, &mut session, &context.instance, handle).await? {
            return Ok(None);
        }
        if let Some(field) = &listener.status_field {
            let documents = home.client.database(&event.database).collection::<Document>(&event.collection);
            let mut asks = field.query_again();
            asks.insert("_id", event.id().clone());
            if let Some((parent, asked)) = map_anew(field, event, &siblings) {
                documents.update_one(parent, asked).session(&mut session).await?;
            }
            let done = complete(context, field, &listener.id(), &job.name);
            let ended = documents.update_one(asks, done).session(&mut session).await?;
            if ended.matched_count == 0 {
                return Ok(None);
            }
        }
        let booked = doc! {
            "$inc": { "times": 1_i64 },
            "$setOnInsert": { "listener": listener.id(), "state": "again", "attempts": 0_i64, "database": &event.database,
                "collection": &event.collection, "document": id_text(event.id()), "documentId": event.id().clone() },
        };
        home.dead.update_one(doc! { "_id": id }, booked).upsert(true).session(&mut session).await?;
        let jobs = std::slice::from_ref(&job);
        write_within(home, &mut session, jobs).await.map(Some)
    }
    .await;
    match written {
        Ok(Some(within)) => {
            end(home, &mut session).await?;
            if let Some(within) = within {
                within.committed();
            }
        }
        other => {
            let _ = session.abort_transaction().await;
            return match other {
                Err(trouble) if !trouble.passes() => {
                    let given_up =
                        GivenUp { listener, event, siblings: &siblings, job: &job, why: &trouble.why() };
                    given_up.tell(context, handle, &entry).await
                }
                _ => Ok(Redone::Later),
            };
        }
    }
    add(&context.metrics.recovered, 1);
    add(&context.metrics.jobs, 1);
    handle.jobs.fetch_add(1, Ordering::Relaxed);
    history::note(context, &job.origin, "again", &job.name, None).await;
    Ok(Redone::Made)
}

/// A document whose job can never be written is a dead letter, and says why: until somebody asks for it anew it asks
/// no more, and those behind it are looked at.
struct GivenUp<'a> {
    listener: &'a Listener,
    event: &'a Event,
    siblings: &'a Document,
    job: &'a NewJob,
    why: &'a str,
}

impl GivenUp<'_> {
    async fn tell(
        &self,
        context: &Context,
        handle: &Arc<Handle>,
        before: &Document,
    ) -> Result<Redone, Trouble> {
        let Self { listener, event, siblings, job, why } = *self;
        let home = &context.home;
        let at = home.now();
        if !ledger::give_up(context, handle, &job.origin, at, why).await? {
            return Ok(Redone::Later);
        }
        if let Some(field) = &listener.status_field {
            let documents = home.client.database(&event.database).collection::<Document>(&event.collection);
            let mut asks = field.query_again();
            asks.insert("_id", event.id().clone());
            let status = doc! { "$set": { field.path(): given_up(&listener.id(), why, at) } };
            let told = async {
                if let Some((parent, asked)) = map_anew(field, event, siblings) {
                    documents.update_one(parent, asked).await?;
                }
                documents.update_one(asks, status).await
            };
            // It may be the document itself that takes no status. Then it goes on asking, and nobody waits for it.
            if let Err(error) = told.await {
                add(&context.metrics.status_failures, 1);
                tracing::warn!(document = %id_text(event.id()), error = %error.kind, "A document cannot be told why it is given up");
            }
        }
        let is_known = before.get_str("state").is_ok_and(|state| state == "dead")
            && before.get_str("error").is_ok_and(|error| error == why);
        if !is_known {
            set_aside(context, handle, job, why);
            history::note(context, &job.origin, "dead", &job.name, Some(why)).await;
        }
        Ok(Redone::GivenUp)
    }
}

/// When a job of this document is due: now, or behind those of its jobs that are yet to run.
async fn due_behind(context: &Context, listener: &Listener, event: &Event) -> Result<DateTime, Error> {
    let home = &context.home;
    let now = home.now();
    if home.target == JobsTarget::Windlass {
        // They share a key, which keeps them in order.
        return Ok(now);
    }
    let rows = doc! {
        "data.documentId": id_text(event.id()), "data.listenerId": listener.id(),
        "data.database": &event.database, "data.collection": &event.collection, "nextRunAt": { "$gte": now },
    };
    let last = home.jobs.find_one(rows).sort(doc! { "nextRunAt": -1 }).projection(doc! { "nextRunAt": 1 });
    let last = last.await?.and_then(|row| row.get_datetime("nextRunAt").ok().copied());
    Ok(last.map_or(now, |last| DateTime::from_millis(last.timestamp_millis() + 1)))
}

/// The map of all listeners may be null as a whole: then each of them was asked, and it is made anew so.
fn map_anew(field: &StatusField, event: &Event, siblings: &Document) -> Option<(Document, Document)> {
    (field.private() != field.path()).then(|| {
        let parent = doc! { "_id": event.id().clone(), field.private(): { "$type": 10 } };
        (parent, doc! { "$set": { field.private(): siblings.clone() } })
    })
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
