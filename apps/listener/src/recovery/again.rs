//! Documents that are done again: one job for each time that it was asked for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::TryStreamExt;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;

use super::redo::{Redone, redo};
use super::{Memory, entry_id, ledger};
use crate::context::Context;
use crate::event::{Event, Operation};
use crate::lane::Handle;
use crate::listener::{Dialect, Listener};
use crate::sink::Trouble;
use crate::status_field::StatusField;
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
