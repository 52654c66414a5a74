//! Making jobs durable: rows and positions in one transaction, so that each event has exactly one row, whatever crashes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::TryStreamExt;
use mongodb::ClientSession;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use windlass_mongo::Within;

use crate::event::{Operation, id_text};
use crate::home::{Home, is_passing, number};
use crate::job::{Dead, NewJob};
use crate::lane::Handle;
use crate::recovery::entry_id;
use crate::sink::{Trouble, write_within};
use crate::token::Token;

const PAUSE_MS: u64 = 50;
const PAUSE_MS_MAX: u64 = 2_000;

/// Where a lane will be.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) handle: Arc<Handle>,
    pub(crate) token: Token,
    pub(crate) run_at_max_ms: i64,
    /// The definition, where it has changed.
    pub(crate) applied: Option<Document>,
}

/// What became of a batch.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// The rows that are durable now.
    pub(crate) written: Vec<NewJob>,
    /// Lanes that somebody else has.
    pub(crate) lost: Vec<String>,
    /// Jobs that can never be written; they are dead letters now.
    pub(crate) dead: Vec<NewJob>,
}

/// Why a transaction did not happen.
enum Refused {
    /// These lanes belong to somebody else.
    Lost(Vec<String>),
    /// The jobs could not be written.
    Trouble(Trouble),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Trouble(error.into())
    }
}

/// Writes jobs and moves lanes. Passing trouble is waited out until `stop` says that it is time to end: then what is
/// not written is abandoned as a whole.
pub(crate) async fn commit(
    home: &Home,
    jobs: Vec<NewJob>,
    steps: Vec<Step>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Option<Done> {
    let mut done = Done::default();
    let mut waiting = vec![(jobs, steps)];
    let mut pause_ms = PAUSE_MS;
    while let Some((mut jobs, mut steps)) = waiting.pop() {
        jobs.retain(|job| !done.lost.contains(&job.handle.name));
        steps.retain(|step| !done.lost.contains(&step.handle.name));
        if steps.is_empty() {
            continue;
        }
        match transaction(home, &jobs, &steps, None).await {
            Ok(()) => done.written.append(&mut jobs),
            Err(Refused::Lost(lanes)) => {
                done.lost.extend(lanes);
                waiting.push((jobs, steps));
            }
            Err(Refused::Trouble(trouble)) if trouble.passes() => {
                if stop() {
                    return None;
                }
                // Who was first is done by now.
                if !matches!(trouble, Trouble::Raced) {
                    tracing::warn!(error = trouble.why(), "Jobs cannot be written now, and will be");
                    home.world.sleep_ms(pause_ms).await;
                    pause_ms = (pause_ms * 2).min(PAUSE_MS_MAX);
                }
                waiting.push((jobs, steps));
            }
            Err(Refused::Trouble(trouble)) if trouble.is_duplicate() => {
                let there = match existing(home, &jobs).await {
                    Ok(there) => there,
                    Err(_) if stop() => return None,
                    Err(error) if is_passing(&error) => {
                        // Not known is not "nothing there".
                        home.world.sleep_ms(PAUSE_MS).await;
                        waiting.push((jobs, steps));
                        continue;
                    }
                    Err(_) => HashSet::new(),
                };
                let before = jobs.len();
                let (there, new): (Vec<_>, Vec<_>) =
                    jobs.into_iter().partition(|job| there.contains(&job.id));
                let new = without_twins(new);
                if new.len() == before {
                    // Not one of ours: another index is in the way.
                    split(home, new, steps, &trouble.why(), &mut waiting, &mut done).await;
                } else {
                    // Rows that are there are as good as written.
                    done.written.extend(there);
                    waiting.push((new, steps));
                }
            }
            Err(Refused::Trouble(trouble)) => {
                split(home, jobs, steps, &trouble.why(), &mut waiting, &mut done).await;
            }
        }
    }
    Some(done)
}

/// Halves of a batch that cannot be written, until what cannot is alone: that is a dead letter.
async fn split(
    home: &Home,
    mut jobs: Vec<NewJob>,
    steps: Vec<Step>,
    why: &str,
    waiting: &mut Vec<(Vec<NewJob>, Vec<Step>)>,
    done: &mut Done,
) {
    match jobs.len() {
        0 => tracing::error!(error = why, "A position cannot be written"),
        1 => {
            let job = jobs.remove(0);
            let dead = Dead { why: why.to_owned(), at: home.now() };
            match transaction(home, &[], &steps, Some(&letter(&job, &dead))).await {
                Ok(()) => done.dead.push(job.given_up(dead)),
                Err(Refused::Lost(lanes)) => done.lost.extend(lanes),
                Err(Refused::Trouble(again)) => {
                    tracing::warn!(error = again.why(), "A dead letter cannot be written now, and will be");
                    home.world.sleep_ms(PAUSE_MS_MAX).await;
                    waiting.push((vec![job], steps));
                }
            }
        }
        many => {
            let rest = jobs.split_off(many / 2);
            // What lies behind is written first only when what lies before it is: the last one pushed is next.
            waiting.push((rest, steps.clone()));
            let first = up_to(&jobs, steps);
            waiting.push((jobs, first));
        }
    }
}

/// Steps of the lanes of these jobs, each to its last job here.
fn up_to(jobs: &[NewJob], steps: Vec<Step>) -> Vec<Step> {
    let mut last: BTreeMap<&str, &Token> = BTreeMap::new();
    for job in jobs {
        if let Some(token) = &job.token {
            last.insert(&job.handle.name, token);
        }
    }
    let moved = steps.into_iter().filter_map(|mut step| {
        step.token = (*last.get(step.handle.name.as_str())?).clone();
        Some(step)
    });
    moved.collect()
}

/// Of jobs with one id the first: two events of a document that is taken once.
pub(crate) fn without_twins(jobs: Vec<NewJob>) -> Vec<NewJob> {
    let mut seen = HashSet::new();
    jobs.into_iter().filter(|job| seen.insert(job.id)).collect()
}

pub(crate) async fn existing(home: &Home, jobs: &[NewJob]) -> Result<HashSet<ObjectId>, Error> {
    let ids: Vec<ObjectId> = jobs.iter().map(|job| job.id).collect();
    let mut found = home.jobs.find(doc! { "_id": { "$in": ids } }).projection(doc! { "_id": 1 }).await?;
    let mut there = HashSet::new();
    while let Some(row) = found.try_next().await? {
        there.extend(row.get_object_id("_id"));
    }
    Ok(there)
}

/// The dead letter of a job: in the entry of its document, which can be asked for again. A delete has no document.
pub(crate) fn letter(job: &NewJob, dead: &Dead) -> Document {
    let origin = &job.origin;
    let entry = || entry_id(&origin.listener, &origin.database, &origin.collection, &origin.document);
    doc! {
        "_id": if origin.operation == Operation::Delete.word() { job.id } else { entry() },
        "listener": &origin.listener,
        "state": "dead",
        "reason": "job",
        "error": &dead.why,
        "at": dead.at,
        "dueAt": dead.at,
        "failedAt": dead.at,
        "isTold": true,
        "database": &origin.database,
        "collection": &origin.collection,
        "document": id_text(&origin.document),
        "documentId": origin.document.clone(),
        "operationType": origin.operation,
        "token": job.token.as_ref().map(Token::text),
        "bytes": i64::try_from(job.bytes).unwrap_or(i64::MAX),
    }
}

/// One transaction: dead letters, rows, and the position of each lane if it is still ours.
async fn transaction(
    home: &Home,
    jobs: &[NewJob],
    steps: &[Step],
    letter: Option<&Document>,
) -> Result<(), Refused> {
    let mut session = home.session().await?;
    session.start_transaction().await?;
    let written = write(home, &mut session, jobs, steps, letter).await;
    match written {
        Ok(within) => {
            end(home, &mut session).await?;
            if let Some(within) = within {
                within.committed();
            }
            Ok(())
        }
        Err(refused) => {
            // It ends by itself when this does not arrive.
            let _ = session.abort_transaction().await;
            Err(refused)
        }
    }
}

/// Writes a dead letter. What else is known of the document stays.
pub(crate) async fn send(home: &Home, session: &mut ClientSession, letter: &Document) -> Result<(), Error> {
    let id = doc! { "_id": letter.get("_id").cloned().unwrap_or(Bson::Null) };
    home.dead.update_one(id, doc! { "$set": letter }).upsert(true).session(session).await?;
    Ok(())
}

/// Commits a transaction.
pub(crate) async fn end(home: &Home, session: &mut ClientSession) -> Result<(), Error> {
    match session.commit_transaction().await {
        // The server answers the same commit once more with what became of it.
        Err(error) if error.contains_label("UnknownTransactionCommitResult") => {
            home.world.sleep_ms(PAUSE_MS).await;
            session.commit_transaction().await
        }
        ended => ended,
    }
}

async fn write<'a>(
    home: &'a Home,
    session: &mut ClientSession,
    jobs: &[NewJob],
    steps: &[Step],
    letter: Option<&Document>,
) -> Result<Option<Within<'a>>, Refused> {
    if let Some(letter) = letter {
        send(home, session, letter).await?;
    }
    let moved = move_lanes(home, steps, Some(&mut *session)).await?;
    if moved < steps.len() as i64 {
        return Err(Refused::Lost(lost(home, Some(session), steps).await?));
    }
    write_within(home, session, jobs).await.map_err(Refused::Trouble)
}

/// Moves lanes that are still ours. Answers how many.
pub(crate) async fn move_lanes(
    home: &Home,
    steps: &[Step],
    session: Option<&mut ClientSession>,
) -> Result<i64, Error> {
    let now = home.now();
    let boot_ms = home.world.boot_ms();
    let updates: Vec<Document> = steps.iter().map(|step| moving(step, now, boot_ms)).collect();
    let command = doc! { "update": home.positions.name(), "updates": updates, "ordered": false };
    let database = home.client.database(&home.database);
    let run = database.run_command(command);
    let answer = match session {
        Some(session) => run.session(session).await?,
        None => run.await?,
    };
    Ok(number(&answer, "n"))
}

fn moving(step: &Step, now: DateTime, boot_ms: u64) -> Document {
    let handle = &step.handle;
    let (rate, seen) = (handle.rate(boot_ms), handle.seen());
    let lag = seen.lag(now, boot_ms);
    // Only forward: what is remembered here may be older than what was written.
    let forward = doc! {
        "token": step.token.text(),
        "clusterTime": step.token.cluster_time(),
        "statusToken": seen.status_token.min(step.token.clone()).text(),
        "runAtMax": DateTime::from_millis(step.run_at_max_ms),
    };
    let mut set = doc! { "at": now, "did": {
        "jobs": handle.jobs.load(Ordering::Relaxed) as i64, "errors": handle.errors.load(Ordering::Relaxed) as i64,
        "rate": rate, "lag": lag, "lastError": seen.last_error,
    } };
    if let Some(applied) = &step.applied {
        set.insert("applied", applied.clone());
    }
    let ours = doc! { "_id": handle.id.text(), "fence": handle.fence };
    let mut update = doc! { "$max": forward, "$set": set };
    if step.applied.is_some() {
        // Whoever has a definition that holds is not refused.
        update.insert("$unset", doc! { "refused": "" });
    }
    doc! { "q": ours, "u": update }
}

/// Which of these lanes are not ours any more.
pub(crate) async fn lost(
    home: &Home,
    session: Option<&mut ClientSession>,
    steps: &[Step],
) -> Result<Vec<String>, Error> {
    let ids: Vec<String> = steps.iter().map(|step| step.handle.id.text()).collect();
    let find = home.positions.find(doc! { "_id": { "$in": &ids } }).projection(doc! { "fence": 1 });
    let found: Vec<Document> = match session {
        Some(session) => {
            let mut cursor = find.session(&mut *session).await?;
            cursor.stream(session).try_collect().await?
        }
        None => find.await?.try_collect().await?,
    };
    let fence = |position: &Document| {
        (position.get_str("_id").unwrap_or_default().to_owned(), number(position, "fence"))
    };
    let fences: BTreeMap<String, i64> = found.iter().map(fence).collect();
    let gone = steps.iter().filter(|step| fences.get(&step.handle.id.text()) != Some(&step.handle.fence));
    Ok(gone.map(|step| step.handle.id.text()).collect())
}
