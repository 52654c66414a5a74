//! Writing what became of documents into them: in bulk, after the jobs are durable.
//!
//! Not within the transaction of the jobs: that would collide with the writes of those whose documents they are. What
//! a crash leaves unwritten is written by the next owner, who reads the events since again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mongodb::bson::{Bson, Document, doc};
use mongodb::error::Error;
use tokio::sync::mpsc;
use windlass_app::AppError;

use crate::context::Context;
use crate::history;
use crate::home::{is_passing, number};
use crate::job::{NewJob, Origin};
use crate::metrics::add;

const PAUSE_MS: u64 = 200;
const AT_ONCE: usize = 1_000;

/// Writes until nobody sends any more.
pub(crate) async fn run(
    context: Arc<Context>,
    mut batches: mpsc::Receiver<Vec<NewJob>>,
) -> Result<(), AppError> {
    loop {
        let batch = tokio::select! {
            biased;
            batch = batches.recv() => batch,
            () = ended(&context) => None,
        };
        // Whoever sent has ended: what is here is the rest.
        let Some(batch) = batch.or_else(|| batches.try_recv().ok()) else { return Ok(()) };
        write(&context, &batch).await;
        settle(&context, &batch);
    }
}

/// It is time to end, and nobody sends any more.
async fn ended(context: &Context) {
    context.stop.wait().await;
    while !context.registry.all().iter().all(|lane| lane.gone.load(Ordering::Relaxed)) {
        context.home.world.sleep_ms(10).await;
    }
}

/// Notes up to where the lanes have their status.
fn settle(context: &Context, batch: &[NewJob]) {
    for job in batch {
        let Some(handle) = context.registry.get(&job.lane) else { continue };
        handle.pending.fetch_sub(1, Ordering::AcqRel);
        if let Some(token) = &job.token {
            handle.see(|seen| {
                if *token > seen.status_token {
                    seen.status_token = token.clone();
                }
            });
        }
    }
}

async fn write(context: &Arc<Context>, batch: &[NewJob]) {
    let mut places: BTreeMap<(&str, &str), Vec<&NewJob>> = BTreeMap::new();
    for job in batch {
        places.entry((&job.origin.database, &job.origin.collection)).or_default().push(job);
    }
    for ((database, collection), jobs) in places {
        for jobs in jobs.chunks(AT_ONCE) {
            loop {
                if !context.holds() {
                    // Whoever has the listeners now writes it.
                    return;
                }
                match update(context, database, collection, jobs).await {
                    Ok(()) => break,
                    Err(error) if is_passing(&error) => {
                        if !context.pause(PAUSE_MS).await {
                            return;
                        }
                    }
                    Err(error) => {
                        add(&context.metrics.status_failures, jobs.len());
                        tracing::warn!(database, collection, error = %error.kind, "The status of documents cannot be written");
                        break;
                    }
                }
            }
        }
    }
    history::note_jobs(context, batch).await;
}

async fn update(context: &Context, database: &str, collection: &str, jobs: &[&NewJob]) -> Result<(), Error> {
    let updates: Vec<Document> = jobs.iter().filter_map(|job| statement(context, job)).collect();
    if updates.is_empty() {
        return Ok(());
    }
    let command = doc! { "update": collection, "updates": updates, "ordered": false };
    let answer = context.home.client.database(database).run_command(command).await?;
    add(&context.metrics.statuses, usize::try_from(number(&answer, "n")).unwrap_or(0));
    let failed = answer.get_array("writeErrors").map(|failed| failed.as_slice()).unwrap_or_default();
    if let Some(first) = failed.first().and_then(Bson::as_document) {
        add(&context.metrics.status_failures, failed.len());
        let why = first.get_str("errmsg").unwrap_or_default();
        tracing::warn!(
            database,
            collection,
            documents = failed.len(),
            error = why,
            "The status of some documents cannot be written"
        );
    }
    Ok(())
}

/// `complete` means that the job's row is durable.
fn statement(context: &Context, job: &NewJob) -> Option<Document> {
    let Origin { listener, document, status_field, null_is_no_wish, .. } = &job.origin;
    let field = status_field.as_ref()?;
    let mut query = doc! { "_id": document.clone() };
    if !null_is_no_wish {
        // A null that somebody set since asks for the document to be done again, and stays until it is.
        let of_null = doc! { "$type": 10 };
        let mut wishes =
            vec![doc! { field.part("status"): of_null.clone() }, doc! { field.path(): of_null.clone() }];
        if field.private() != field.path() {
            wishes.push(doc! { field.private(): of_null });
        }
        query.insert("$nor", wishes);
    }
    let job = &job.name;
    if *null_is_no_wish && field.private() != field.path() {
        // Nothing can be set within a map that is null: the map is made, with what it has.
        let name = field.path().rsplit('.').next().unwrap_or_default();
        let done = complete(context, field, listener, job);
        let entry = done
            .get_document("$set")
            .ok()
            .and_then(|set| set.get(field.path()))
            .cloned()
            .unwrap_or(Bson::Null);
        let whole =
            doc! { "$mergeObjects": [ format!("${}", field.private()), { "$literal": { name: entry } } ] };
        return Some(doc! { "q": query, "u": [ { "$set": { field.private(): whole } } ] });
    }
    Some(doc! { "q": query, "u": complete(context, field, listener, job) })
}

/// The update that says that a document is done.
pub(crate) fn complete(
    context: &Context,
    field: &crate::status_field::StatusField,
    listener: &str,
    job: &str,
) -> Document {
    doc! { "$set": { field.path(): {
        "status": "complete", "lastRun": context.home.now(), "listenerId": listener, "jobId": job,
    } } }
}
