//! What is known of a document that did not go through: how often, since when, and when it is tried again. Those that
//! are given up are dead letters in the same collection.

use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use windlass_mongo::agenda::row_id;

use super::collision::Tries;
use super::failed::Failed;
use crate::commit::end;
use crate::context::Context;
use crate::event::id_text;
use crate::home::number;
use crate::job::Origin;
use crate::lane::Handle;
use crate::lease;
use crate::settings::JobsTarget;
use crate::sink::Trouble;

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
    /// The lane is somebody else's: whoever has it books it.
    NotOurs,
}

/// Books a job that failed for good: the document is tried again by the ladder, and behind its last rung given up.
/// The same failure is booked once, and so is none that lies before one that was: jobs of a document end in order.
/// Only while the lane is ours: the count of attempts is read and written in one transaction with the lock.
pub(super) async fn book(context: &Context, handle: &Handle, failed: &Failed) -> Result<Booked, Trouble> {
    let mut tries = Tries::new();
    loop {
        match book_once(context, handle, failed).await.map_err(Trouble::from) {
            Err(trouble) if tries.again(context.home.world.as_ref(), &trouble).await => {}
            ended => return ended,
        }
    }
}

async fn book_once(context: &Context, handle: &Handle, failed: &Failed) -> Result<Booked, Error> {
    let home = &context.home;
    let mut session = home.session().await?;
    session.start_transaction().await?;
    let booked = async {
        match lease::fence(home, &mut session, &context.instance, handle).await? {
            true => book_within(context, &mut session, failed).await,
            false => Ok(Booked::NotOurs),
        }
    };
    match booked.await {
        Ok(booked @ (Booked::Waiting | Booked::Dead)) => end(home, &mut session).await.map(|()| booked),
        other => {
            let _ = session.abort_transaction().await;
            other
        }
    }
}

async fn book_within(
    context: &Context,
    session: &mut ClientSession,
    failed: &Failed,
) -> Result<Booked, Error> {
    let home = &context.home;
    let id = id_of(failed);
    let failure = failure(failed);
    let entry = home.dead.find_one(doc! { "_id": id }).session(&mut *session).await?.unwrap_or_default();
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
    home.dead.update_one(doc! { "_id": id }, doc! { "$set": set }).upsert(true).session(session).await?;
    Ok(booked)
}

/// The document knows of the failure.
pub(super) async fn told(context: &Context, failed: &Failed) -> Result<(), Error> {
    let this = doc! { "_id": id_of(failed), "failure": failure(failed) };
    context.home.dead.update_one(this, doc! { "$set": { "isTold": true } }).await?;
    Ok(())
}

/// Whether an error of a document is the one that this entry told it: what becomes of it then is up to the ladder. Any
/// other was written by somebody else, and asks.
pub(super) fn has_told(entry: &Document, (error, at): &(Bson, Bson)) -> bool {
    let is_open = matches!(entry.get_str("state"), Ok("waiting" | "dead"));
    is_open && entry.get("error") == Some(error) && entry.get("failedAt") == Some(at)
}

/// Books a document whose job can never be written. False when the lane is somebody else's.
pub(super) async fn give_up(
    context: &Context,
    handle: &Handle,
    origin: &Origin,
    at: DateTime,
    why: &str,
) -> Result<bool, Trouble> {
    let id = entry_id(&origin.listener, &origin.database, &origin.collection, &origin.document);
    let set = doc! {
        "listener": &origin.listener, "state": "dead", "reason": "job", "error": why, "at": at, "dueAt": at,
        "database": &origin.database, "collection": &origin.collection, "document": id_text(&origin.document),
        "documentId": origin.document.clone(), "failedAt": at, "isTold": true,
    };
    let mut tries = Tries::new();
    loop {
        match give_up_once(context, handle, id, &set).await.map_err(Trouble::from) {
            Err(trouble) if tries.again(context.home.world.as_ref(), &trouble).await => {}
            ended => return ended,
        }
    }
}

async fn give_up_once(
    context: &Context,
    handle: &Handle,
    id: ObjectId,
    set: &Document,
) -> Result<bool, Error> {
    let home = &context.home;
    let mut session = home.session().await?;
    session.start_transaction().await?;
    let written = async {
        let is_ours = lease::fence(home, &mut session, &context.instance, handle).await?;
        if is_ours {
            let entry = home.dead.update_one(doc! { "_id": id }, doc! { "$set": set });
            entry.upsert(true).session(&mut session).await?;
        }
        Ok::<bool, Error>(is_ours)
    };
    match written.await {
        Ok(true) => end(home, &mut session).await.map(|()| true),
        other => {
            let _ = session.abort_transaction().await;
            other
        }
    }
}

fn id_of(failed: &Failed) -> ObjectId {
    entry_id(&failed.listener, &failed.database, &failed.collection, &failed.document)
}

fn failure(failed: &Failed) -> String {
    format!("{}@{}", failed.job, failed.at.timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever was taken over from books nothing, and two that book at the same time count one attempt.
    #[tokio::test(flavor = "multi_thread")]
    async fn b02_only_the_owner_books_a_failure() {
        let place = crate::testing::Place::new().await;
        let context = place.context("a").await;
        let home = &context.home;
        let people = doc! { "_id": "l", "collection": "people", "jobName": "j" };
        let (handle, _) = crate::testing::lane(&context, people).await;
        let failed = |job: &str| Failed {
            listener: "l".to_owned(),
            database: "d".to_owned(),
            collection: "people".to_owned(),
            document: Bson::Int32(1),
            job: job.to_owned(),
            at: DateTime::from_millis(1_000),
            why: "no".to_owned(),
        };
        assert_eq!(book(&context, &handle, &failed("one")).await.unwrap(), Booked::Waiting);
        let one = failed("one");
        // They collide; the one that comes second is tried again, and counts nothing twice.
        let (first, second) = tokio::join!(book(&context, &handle, &one), book(&context, &handle, &one));
        assert_eq!((first.unwrap(), second.unwrap()), (Booked::Waiting, Booked::Waiting));
        // A lease of no length is stale at once.
        lease::claim(home, "b", &handle.id, -60_000).await.unwrap().unwrap();
        assert_eq!(book(&context, &handle, &failed("two")).await.unwrap(), Booked::NotOurs);
        let entry = home.dead.find_one(doc! { "listener": "l" }).await.unwrap().unwrap();
        assert_eq!((number(&entry, "attempts"), entry.get_str("jobId").unwrap()), (1, "one"), "{entry}");
    }

    #[test]
    fn an_error_that_we_did_not_write_asks() {
        let at = |ms: i64| Bson::DateTime(DateTime::from_millis(ms));
        let error = |text: &str, ms: i64| (Bson::String(text.to_owned()), at(ms));
        let entry = |state: &str| doc! { "state": state, "error": "no", "failedAt": at(5) };
        assert!(has_told(&entry("waiting"), &error("no", 5)) && has_told(&entry("dead"), &error("no", 5)));
        assert!(!has_told(&entry("dead"), &error("no", 6)) && !has_told(&entry("dead"), &error("other", 5)));
        assert!(!has_told(&entry("settled"), &error("no", 5)));
        assert!(!has_told(&entry("dead"), &(Bson::String("no".to_owned()), Bson::Null)));
    }
}
