//! Writing what became of documents into them: in bulk, after the jobs are durable.
//!
//! Not within the transaction of the jobs: that would collide with the writes of those whose documents they are. What
//! a crash leaves unwritten is written by the next owner, who reads the events since again.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::join;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windlass_app::AppError;

use crate::context::Context;
use crate::event::id_text;
use crate::history;
use crate::home::{is_passing, number};
use crate::job::{Dead, NewJob, Origin};
use crate::metrics::add;

const PAUSE_MS: u64 = 200;
const AT_ONCE: usize = 1_000;
/// Fewer than these are one command.
const TOGETHER_MAX: usize = 100;
/// Pages of the history that may be on their way.
const NOTES_AT_ONCE: usize = 4;

/// Writes until nobody sends any more. The history of a batch is written beside the status of the next.
pub(crate) async fn run(
    context: Arc<Context>,
    mut batches: mpsc::Receiver<Vec<NewJob>>,
) -> Result<(), AppError> {
    let mut noting = JoinSet::new();
    loop {
        let batch = tokio::select! {
            biased;
            batch = batches.recv() => batch,
            () = ended(&context) => None,
        };
        // Whoever sent has ended: what is here is the rest.
        let Some(batch) = batch.or_else(|| batches.try_recv().ok()) else { break };
        write(&context, &batch).await;
        settle(&batch);
        if noting.len() >= NOTES_AT_ONCE {
            noting.join_next().await;
        }
        let context = context.clone();
        noting.spawn(async move {
            let (dead, written): (Vec<NewJob>, Vec<NewJob>) =
                batch.into_iter().partition(|job| job.dead.is_some());
            history::note_jobs(&context, &written).await;
            for job in dead {
                let why = job.dead.as_ref().map(|dead| dead.why.as_str());
                history::note(&context, &job.origin, "dead", &job.name, why).await;
            }
        });
    }
    while noting.join_next().await.is_some() {}
    Ok(())
}

/// It is time to end, and nobody sends any more.
async fn ended(context: &Context) {
    context.stop.wait().await;
    while !context.registry.all().iter().all(|lane| lane.gone.load(Ordering::Relaxed)) {
        context.home.world.sleep_ms(10).await;
    }
}

/// Notes up to where the lanes have their status.
fn settle(batch: &[NewJob]) {
    for job in batch {
        job.handle.pending.fetch_sub(1, Ordering::AcqRel);
        if let Some(token) = &job.token {
            job.handle.see(|seen| {
                if *token > seen.status_token {
                    seen.status_token = token.clone();
                }
            });
        }
    }
}

async fn write(context: &Arc<Context>, batch: &[NewJob]) {
    let mut places: BTreeMap<(&str, &str), Vec<&NewJob>> = BTreeMap::new();
    for job in batch.iter().filter(|job| job.origin.status_field.is_some()) {
        places.entry((&job.origin.database, &job.origin.collection)).or_default().push(job);
    }
    for ((database, collection), jobs) in places {
        for jobs in newest(&jobs).chunks(AT_ONCE) {
            // Two commands, since the server works on one of them alone.
            let half = if jobs.len() < TOGETHER_MAX { jobs.len() } else { jobs.len() / 2 };
            let (first, second) = jobs.split_at(half);
            let both =
                join(bulk(context, database, collection, first), bulk(context, database, collection, second));
            if both.await != (true, true) {
                return;
            }
        }
    }
}

/// What is written into a document: its newest job. Of several jobs the last has the last word, so that the others need
/// no write of their own.
struct Newest<'a> {
    job: &'a NewJob,
    /// Whether an event of one of them brought a null of its own.
    null_is_no_wish: bool,
}

fn newest<'a>(jobs: &[&'a NewJob]) -> Vec<Newest<'a>> {
    let mut newest: Vec<Newest<'a>> = Vec::with_capacity(jobs.len());
    let mut places: HashMap<(u8, String, Option<&str>), usize> = HashMap::new();
    for job in jobs {
        let Origin { document, status_field, null_is_no_wish, .. } = &job.origin;
        let field = status_field.as_ref().map(|field| field.path());
        match places.entry((document.element_type() as u8, id_text(document), field)) {
            Entry::Occupied(there) => {
                let there = &mut newest[*there.get()];
                (there.job, there.null_is_no_wish) = (job, there.null_is_no_wish || *null_is_no_wish);
            }
            Entry::Vacant(free) => {
                free.insert(newest.len());
                newest.push(Newest { job, null_is_no_wish: *null_is_no_wish });
            }
        }
    }
    newest
}

/// Writes some of them by one command. False when it is time to end, or nothing is ours any more.
async fn bulk(context: &Context, database: &str, collection: &str, jobs: &[Newest<'_>]) -> bool {
    loop {
        if !context.holds() {
            // Whoever has the listeners now writes it.
            return false;
        }
        match update(context, database, collection, jobs).await {
            Ok(()) => return true,
            Err(error) if is_passing(&error) => {
                if !context.pause(PAUSE_MS).await {
                    return false;
                }
            }
            Err(error) => {
                add(&context.metrics.status_failures, jobs.len());
                tracing::warn!(database, collection, error = %error.kind, "The status of documents cannot be written");
                return true;
            }
        }
    }
}

async fn update(
    context: &Context,
    database: &str,
    collection: &str,
    jobs: &[Newest<'_>],
) -> Result<(), Error> {
    // A lane that somebody else has is told by him.
    let ours = jobs.iter().filter(|newest| !newest.job.handle.is_lost());
    let updates: Vec<Document> = ours.filter_map(|newest| statement(context, newest)).collect();
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

/// `complete` means that the job's row is durable. One that can never be is told why.
fn statement(context: &Context, newest: &Newest<'_>) -> Option<Document> {
    let Newest { job, null_is_no_wish } = newest;
    let Origin { listener, document, status_field, .. } = &job.origin;
    let field = status_field.as_ref()?;
    let mut query = doc! { "_id": document.clone() };
    if !null_is_no_wish {
        // A null that somebody set since asks for the document to be done again, and stays until it is.
        query.insert("$nor", field.wishes());
    }
    let told = match &job.dead {
        None => done(context, listener, &job.name),
        Some(Dead { why, at }) => given_up(listener, why, *at),
    };
    if *null_is_no_wish && field.private() != field.path() {
        // Nothing can be set within a map that is null: the map is made, with what it has.
        let name = field.path().rsplit('.').next().unwrap_or_default();
        let whole =
            doc! { "$mergeObjects": [ format!("${}", field.private()), { "$literal": { name: told } } ] };
        return Some(doc! { "q": query, "u": [ { "$set": { field.private(): whole } } ] });
    }
    Some(doc! { "q": query, "u": { "$set": { field.path(): told } } })
}

/// The update that says that a document is done.
pub(crate) fn complete(
    context: &Context,
    field: &crate::status_field::StatusField,
    listener: &str,
    job: &str,
) -> Document {
    doc! { "$set": { field.path(): done(context, listener, job) } }
}

fn done(context: &Context, listener: &str, job: &str) -> Document {
    doc! { "status": "complete", "lastRun": context.home.now(), "listenerId": listener, "jobId": job }
}

/// What a document is told whose job can never be written.
pub(crate) fn given_up(listener: &str, why: &str, at: DateTime) -> Document {
    doc! { "status": Bson::Null, "lastRun": at, "listenerId": listener, "error": why, "lastError": at }
}
