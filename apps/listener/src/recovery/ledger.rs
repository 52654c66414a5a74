//! What is known of a document that did not go through: how often, since when, and when it is tried again. Those that
//! are given up are dead letters in the same collection.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use windlass_mongo::agenda::row_id;

use crate::context::Context;
use crate::event::id_text;
use crate::home::number;

/// The id of a document's entry.
pub(crate) fn entry_id(listener: &str, database: &str, collection: &str, document: &Bson) -> ObjectId {
    row_id(&[
        b"document",
        listener.as_bytes(),
        database.as_bytes(),
        collection.as_bytes(),
        id_text(document).as_bytes(),
    ])
}

/// Books a job that failed for good: the document is tried again by the ladder, and behind its last rung given up.
/// The same failure is booked once. Answers whether it is given up.
pub(super) async fn book(
    context: &Context,
    row: &Document,
    at: &super::failed::Place,
    why: &str,
) -> Result<bool, Error> {
    let home = &context.home;
    let id = entry_id(&at.listener, &at.database, &at.collection, &at.document);
    let failure = format!(
        "{}@{}",
        row.get_object_id("_id").map(|id| id.to_hex()).unwrap_or_default(),
        at.failed.timestamp_millis()
    );
    let entry = home.dead.find_one(doc! { "_id": id }).await?.unwrap_or_default();
    if entry.get_str("failure").is_ok_and(|booked| booked == failure) {
        return Ok(entry.get_str("state").is_ok_and(|state| state == "dead"));
    }
    let attempts = number(&entry, "attempts") + 1;
    let rungs = context.work.ladder.rungs();
    let rung = usize::try_from(attempts - 1).ok().and_then(|at| rungs.get(at));
    let (state, due) = match rung {
        Some(rung) => ("waiting", DateTime::from_millis(home.now().timestamp_millis() + rung.ms() as i64)),
        None => ("dead", home.now()),
    };
    let set = doc! {
        "listener": &at.listener, "state": state, "reason": "failed", "error": why, "at": home.now(), "dueAt": due,
        "database": &at.database, "collection": &at.collection, "document": id_text(&at.document),
        "documentId": at.document.clone(), "attempts": attempts, "failure": failure,
        "jobId": row.get("_id").cloned().unwrap_or(Bson::Null),
    };
    home.dead.update_one(doc! { "_id": id }, doc! { "$set": set }).upsert(true).await?;
    Ok(state == "dead")
}
