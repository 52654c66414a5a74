//! What is known of a document that did not go through: how often, since when, and when it is tried again. Those that
//! are given up are dead letters in the same collection.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, doc};
use mongodb::error::Error;
use windlass_mongo::agenda::row_id;

use super::failed::Failed;
use crate::context::Context;
use crate::event::id_text;
use crate::home::number;
use crate::settings::JobsTarget;

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

/// What became of a failure that was booked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Booked {
    /// It was booked, and told, before.
    Before,
    /// The document is tried again by the ladder.
    Waiting,
    /// It is given up.
    Dead,
}

/// Books a job that failed for good: the document is tried again by the ladder, and behind its last rung given up.
/// The same failure is booked once, and so is none that lies before one that was: jobs of a document end in order.
pub(super) async fn book(context: &Context, failed: &Failed) -> Result<Booked, Error> {
    let home = &context.home;
    let id = id_of(failed);
    let failure = failure(failed);
    let entry = home.dead.find_one(doc! { "_id": id }).await?.unwrap_or_default();
    if entry.get_str("failure").is_ok_and(|booked| booked == failure) {
        return Ok(match (entry.get_bool("isTold").unwrap_or(false), entry.get_str("state")) {
            (true, _) => Booked::Before,
            (false, Ok("dead")) => Booked::Dead,
            (false, _) => Booked::Waiting,
        });
    }
    if home.target == JobsTarget::Windlass && entry.get_datetime("failedAt").is_ok_and(|at| *at > failed.at) {
        return Ok(Booked::Before);
    }
    let attempts = number(&entry, "attempts") + 1;
    let rungs = context.work.ladder.rungs();
    let rung = usize::try_from(attempts - 1).ok().and_then(|at| rungs.get(at));
    let (booked, state, due) = match rung {
        Some(rung) => {
            let due = DateTime::from_millis(home.now().timestamp_millis() + rung.ms() as i64);
            (Booked::Waiting, "waiting", due)
        }
        None => (Booked::Dead, "dead", home.now()),
    };
    let set = doc! {
        "listener": &failed.listener, "state": state, "reason": "failed", "error": &failed.why, "at": home.now(),
        "dueAt": due, "database": &failed.database, "collection": &failed.collection,
        "document": id_text(&failed.document), "documentId": failed.document.clone(), "attempts": attempts,
        "failure": failure, "failedAt": failed.at, "jobId": &failed.job, "isTold": false,
    };
    home.dead.update_one(doc! { "_id": id }, doc! { "$set": set }).upsert(true).await?;
    Ok(booked)
}

/// The document knows of the failure.
pub(super) async fn told(context: &Context, failed: &Failed) -> Result<(), Error> {
    let this = doc! { "_id": id_of(failed), "failure": failure(failed) };
    context.home.dead.update_one(this, doc! { "$set": { "isTold": true } }).await?;
    Ok(())
}

fn id_of(failed: &Failed) -> ObjectId {
    entry_id(&failed.listener, &failed.database, &failed.collection, &failed.document)
}

fn failure(failed: &Failed) -> String {
    format!("{}@{}", failed.job, failed.at.timestamp_millis())
}
