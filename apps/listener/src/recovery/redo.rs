//! One job more for a document, and the end of its wish: one transaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::TryStreamExt;
use mongodb::ClientSession;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use windlass_mongo::Within;

use super::collision::Tries;
use super::rows::set_aside;
use super::{entry_id, ledger};
use crate::commit::end;
use crate::context::Context;
use crate::event::{Event, id_text};
use crate::history;
use crate::home::number;
use crate::job::{Cause, Making, NewJob};
use crate::lane::Handle;
use crate::lease;
use crate::listener::Listener;
use crate::metrics::add;
use crate::settings::JobsTarget;
use crate::sink::{Trouble, write_within};
use crate::status_field::StatusField;
use crate::status_writer::{complete, given_up};

/// What became of a document that asked.
pub(super) enum Redone {
    Made,
    /// Its job can never be written.
    GivenUp,
    /// Somebody writes the document at this moment, has ended the wish, or has the lane.
    Later,
}

/// One job more for a document. Its row and the end of the wish are one transaction, so that a wish makes one job.
pub(super) async fn redo(
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
    let wish = Wish { listener, event, siblings: &siblings, job: &job };
    let mut tries = Tries::new();
    let ended = loop {
        match wish.fulfil(context, handle).await {
            Err(trouble) if tries.again(home.world.as_ref(), &trouble).await => {}
            ended => break ended,
        }
    };
    match ended {
        Ok(Ended::Made) => {}
        Ok(Ended::Refused(trouble)) if !trouble.passes() => {
            return wish.give_up(context, handle, &entry, &trouble.why()).await;
        }
        Ok(Ended::NotAsked | Ended::Refused(_)) => return Ok(Redone::Later),
        Err(trouble) if trouble.is_collision() => return Ok(Redone::Later),
        Err(trouble) => return Err(trouble),
    }
    add(&context.metrics.recovered, 1);
    add(&context.metrics.jobs, 1);
    handle.jobs.fetch_add(1, Ordering::Relaxed);
    history::note(context, &job.origin, "again", &job.name, None).await;
    Ok(Redone::Made)
}

/// A document that asks, and the job that is made for it.
struct Wish<'a> {
    listener: &'a Listener,
    event: &'a Event,
    siblings: &'a Document,
    job: &'a NewJob,
}

/// How a transaction ended that collided with nobody.
enum Ended {
    Made,
    /// Somebody has ended the wish, or has the lane.
    NotAsked,
    Refused(Trouble),
}

impl Wish<'_> {
    /// The row and the end of the wish, in one transaction. An error is a collision, or an end that nobody knows.
    async fn fulfil(&self, context: &Context, handle: &Handle) -> Result<Ended, Trouble> {
        let home = &context.home;
        let mut session = home.session().await?;
        session.start_transaction().await?;
        match self.write(context, handle, &mut session).await {
            Ok(Some(within)) => {
                end(home, &mut session).await?;
                if let Some(within) = within {
                    within.committed();
                }
                Ok(Ended::Made)
            }
            other => {
                // It ends by itself when this does not arrive.
                let _ = session.abort_transaction().await;
                match other {
                    Err(trouble) if trouble.is_collision() => Err(trouble),
                    Err(trouble) => Ok(Ended::Refused(trouble)),
                    Ok(_) => Ok(Ended::NotAsked),
                }
            }
        }
    }

    async fn write<'h>(
        &self,
        context: &'h Context,
        handle: &Handle,
        session: &mut ClientSession,
    ) -> Result<Option<Option<Within<'h>>>, Trouble> {
        let Self { listener, event, siblings, job } = *self;
        let home = &context.home;
        if !lease::fence(home, session, &context.instance, handle).await? {
            return Ok(None);
        }
        if let Some(field) = &listener.status_field {
            let documents = home.client.database(&event.database).collection::<Document>(&event.collection);
            let mut asks = field.query_again();
            asks.insert("_id", event.id().clone());
            if let Some((parent, asked)) = map_anew(field, event, siblings) {
                documents.update_one(parent, asked).session(&mut *session).await?;
            }
            let done = complete(context, field, &listener.id(), &job.name);
            let ended = documents.update_one(asks, done).session(&mut *session).await?;
            if ended.matched_count == 0 {
                return Ok(None);
            }
        }
        let booked = doc! {
            "$inc": { "times": 1_i64 },
            "$setOnInsert": { "listener": listener.id(), "state": "again", "attempts": 0_i64, "database": &event.database,
                "collection": &event.collection, "document": id_text(event.id()), "documentId": event.id().clone() },
        };
        let id = entry_id(&listener.id(), &event.database, &event.collection, event.id());
        home.dead.update_one(doc! { "_id": id }, booked).upsert(true).session(&mut *session).await?;
        write_within(home, session, std::slice::from_ref(job)).await.map(Some)
    }

    /// A document whose job can never be written is a dead letter, and says why: until somebody asks for it anew it
    /// asks no more, and those behind it are looked at.
    async fn give_up(
        &self,
        context: &Context,
        handle: &Arc<Handle>,
        before: &Document,
        why: &str,
    ) -> Result<Redone, Trouble> {
        let Self { listener, event, siblings, job } = *self;
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

#[cfg(test)]
mod tests {
    use super::super::Memory;
    use super::super::again::wished;
    use super::*;

    /// Whoever finds a document while another writes it (a second listener that was asked for the same, its owner) comes
    /// back at once: what it was asked for is done by the same look, and not a whole round later.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_wish_that_collides_is_done_by_the_same_look() {
        let place = crate::testing::Place::new().await;
        let (context, mut waits) = place.stepped("a").await;
        let home = &context.home;
        // Collections are made by the first write, which a transaction may not wait for.
        for own in [&home.jobs, &home.dead, &home.history] {
            home.client.database(&home.database).create_collection(own.name()).await.unwrap();
        }
        let people = home.client.database(&home.database).collection::<Document>("people");
        let asks = doc! { "_id": "x", "metadata": { "listener": { "status": Bson::Null } } };
        people.insert_one(asks).await.unwrap();
        let all = doc! { "_id": "l", "collection": "people", "database": &home.database, "jobName": "j" };
        let (handle, listener) = crate::testing::lane(&context, all).await;
        let mut other = home.client.start_session().await.unwrap();
        other.start_transaction().await.unwrap();
        let written = doc! { "$set": { "other": 1 } };
        people.update_one(doc! { "_id": "x" }, written).session(&mut other).await.unwrap();
        let memory = Memory::default();
        let field = listener.status_field.as_ref().unwrap();
        let look = wished(&context, &memory, &handle, &listener, &home.database, field);
        let mut look = std::pin::pin!(look);
        let wait = tokio::select! {
            ended = &mut look => panic!("it left the document to another look: {ended:?}"),
            wait = waits.next() => wait,
        };
        assert_eq!(home.jobs.count_documents(doc! {}).await.unwrap(), 0);
        other.commit_transaction().await.unwrap();
        waits.pass(wait);
        waits.passing(look).await.unwrap();
        assert_eq!(home.jobs.count_documents(doc! { "data.documentId": "x" }).await.unwrap(), 1);
        let done = doc! { "_id": "x", "metadata.listener.status": "complete", "other": 1 };
        assert_eq!(people.count_documents(done).await.unwrap(), 1);
    }
}
