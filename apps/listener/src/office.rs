//! What people and programs ask of listeners: made, changed, looked at, done again.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use serde_json::{Value, json};
use windlass_engine::Kind;
use windlass_engine::core::query::{JobFilter, ListRequest};
use windlass_engine::core::store::Store;

use crate::event::id_text;
use crate::history::{self, SHOWN_MAX};
use crate::home::Home;
use crate::lane::LaneId;
use crate::listener::{Listener, Neighbour, applied, refused, validate};
use crate::settings::JobsTarget;
use crate::token::Token;

/// Rows of a list that are shown.
const LIST_MAX: i64 = 1_000;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OfficeError {
    /// What was said cannot be.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// There is no such thing.
    #[error("{0}")]
    NotFound(String),
    /// The database.
    #[error("MongoDB: {}", .0.kind)]
    Database(#[from] Error),
}

fn nobody(id: &str) -> OfficeError {
    OfficeError::NotFound(format!("listener {id} is not known; `windlass listener ls` shows all"))
}

/// A document as JSON.
pub(crate) fn as_json(document: Document) -> Value {
    Bson::Document(document).into_relaxed_extjson()
}

/// JSON as a document: `{"$oid": …}` and `{"$date": …}` are understood.
pub(crate) fn as_document(value: Value) -> Result<Document, OfficeError> {
    match Bson::try_from(value) {
        Ok(Bson::Document(document)) => Ok(document),
        _ => Err(OfficeError::Refused(vec!["it must be a JSON object".to_owned()])),
    }
}

/// An id as it was typed: of an object, a text or a number.
pub(crate) fn by_id(text: &str) -> Document {
    let mut ways = vec![Bson::String(text.to_owned())];
    ways.extend(ObjectId::parse_str(text).ok().map(Bson::ObjectId));
    ways.extend(text.parse::<i64>().ok().map(Bson::Int64));
    doc! { "_id": { "$in": ways } }
}

async fn all(home: &Home) -> Result<Vec<Document>, Error> {
    home.listeners.find(doc! {}).sort(doc! { "_id": 1 }).await?.try_collect().await
}

async fn fits(home: &Home, document: &Document) -> Result<Listener, OfficeError> {
    let others = all(home).await?;
    // One that is refused does not run, and is in nobody's way.
    let refused = refused(&others, &home.database, &home.own_names());
    let runs = |other: &&Document| !refused.contains_key(&other.get("_id").map(id_text).unwrap_or_default());
    let others: Vec<Listener> =
        others.iter().filter(runs).filter_map(|other| Listener::read(other).ok()).collect();
    let neighbours: Vec<Neighbour<'_>> = others.iter().map(Neighbour).collect();
    let listener = validate(document, &home.database, &home.own_names(), &neighbours);
    let listener = listener.map_err(OfficeError::Refused)?;
    if home.target == JobsTarget::Windlass
        && let Err(why) = Kind::new(&listener.job_name)
    {
        return Err(OfficeError::Refused(vec![format!("jobName is no kind of a job: {why}")]));
    }
    Ok(listener)
}

/// Makes a listener. It hears what is written from this moment on.
pub(crate) async fn add(home: &Home, mut document: Document) -> Result<Document, OfficeError> {
    document.entry("_id").or_insert_with(|| Bson::ObjectId(ObjectId::new()));
    for held in ["lockInfo", "fence"] {
        document.remove(held);
    }
    let now = home.now();
    document.entry("isActive").or_insert(Bson::Boolean(true));
    document.insert("createdAt", now);
    document.insert("updatedAt", now);
    let listener = fits(home, &document).await?;
    let start = Token::before(home.after_everything().await?);
    for lane in LaneId::of(&listener) {
        let position = doc! { "$setOnInsert": {
            "listener": listener.key.clone(), "fence": 0_i64, "token": start.text(), "statusToken": start.text(),
            "clusterTime": start.cluster_time(), "at": now, "applied": applied(&document),
        } };
        home.positions.update_one(doc! { "_id": lane.text() }, position).upsert(true).await?;
    }
    home.listeners.insert_one(&document).await?;
    Ok(document)
}

/// Changes parts of a listener; a null takes a part away, but for `statusField`, where it means off.
pub(crate) async fn edit(home: &Home, id: &str, change: Document) -> Result<Document, OfficeError> {
    let mut document = show(home, id).await?;
    // Whatever is wrong with a listener, it can be stopped.
    let is_pause = change == doc! { "isActive": false };
    let mut update = doc! { "$set": { "updatedAt": home.now() }, "$unset": {} };
    for (name, value) in change {
        if matches!(name.as_str(), "_id" | "lockInfo" | "fence" | "createdAt") {
            return Err(OfficeError::Refused(vec![format!("{name} cannot be changed")]));
        }
        let (kind, new) = match value {
            Bson::Null if name != "statusField" => {
                document.remove(&name);
                ("$unset", Bson::Int32(1))
            }
            value => {
                document.insert(name.clone(), value.clone());
                ("$set", value)
            }
        };
        if let Ok(part) = update.get_document_mut(kind) {
            part.insert(name, new);
        }
    }
    if !is_pause {
        fits(home, &document).await?;
    }
    if update.get_document("$unset").is_ok_and(Document::is_empty) {
        update.remove("$unset");
    }
    home.listeners
        .update_one(doc! { "_id": document.get("_id").cloned().unwrap_or(Bson::Null) }, update)
        .await?;
    show(home, id).await
}

/// All listeners.
pub(crate) async fn list(home: &Home) -> Result<Vec<Document>, OfficeError> {
    Ok(all(home).await?)
}

/// One listener.
pub(crate) async fn show(home: &Home, id: &str) -> Result<Document, OfficeError> {
    home.listeners.find_one(by_id(id)).await?.ok_or_else(|| nobody(id))
}

/// Pauses or resumes a listener.
pub(crate) async fn set_active(home: &Home, id: &str, is_active: bool) -> Result<Document, OfficeError> {
    edit(home, id, doc! { "isActive": is_active }).await
}

/// Deletes a listener. Its jobs stay.
pub(crate) async fn remove(home: &Home, id: &str) -> Result<Document, OfficeError> {
    let document = home.listeners.find_one_and_delete(by_id(id)).await?.ok_or_else(|| nobody(id))?;
    let its_own = doc! { "listener": document.get("_id").cloned().unwrap_or(Bson::Null) };
    home.partitions.delete_many(its_own.clone()).await?;
    home.positions.delete_many(its_own).await?;
    Ok(document)
}

/// What happened to a document: the last entries of a month, its rows, and what it waits for.
pub(crate) async fn history(home: &Home, id: &str) -> Result<Value, OfficeError> {
    let entries: Vec<Value> = history::of(home, id).await?.into_iter().map(as_json).collect();
    let mut letters = Vec::new();
    // The ledger also knows what was done again and what went through since: nobody waits for that.
    let open = doc! { "document": id, "state": { "$in": ["dead", "waiting"] } };
    let mut found = home.dead.find(open).limit(SHOWN_MAX as i64).await?;
    while let Some(letter) = found.try_next().await? {
        letters.push(as_json(letter));
    }
    let rows = jobs_of(home, id).await?;
    if entries.is_empty() && letters.is_empty() && rows.is_empty() {
        return Err(OfficeError::NotFound(format!("nothing is known of document {id}")));
    }
    Ok(json!({ "document": id, "history": entries, "dead_letters": letters, "jobs": rows }))
}

/// The newest jobs of a document, without what they embed.
async fn jobs_of(home: &Home, id: &str) -> Result<Vec<Value>, OfficeError> {
    let mut jobs = Vec::new();
    match home.target {
        JobsTarget::Agenda => {
            let of_document = doc! { "data.documentId": id };
            let found = home.jobs.find(of_document).sort(doc! { "nextRunAt": -1, "lastRunAt": -1 });
            let mut found = found.limit(SHOWN_MAX as i64).projection(doc! { "data.change": 0 }).await?;
            while let Some(mut row) = found.try_next().await? {
                let state = state_of(&row, home.now());
                row.insert("state", state);
                jobs.push(as_json(row));
            }
        }
        JobsTarget::Windlass => {
            let filter = JobFilter { text: Some(id.to_owned()), ..JobFilter::default() };
            let Ok(filter) = filter.checked() else { return Ok(jobs) };
            let request = ListRequest { filter, limit: SHOWN_MAX as u32, after: None };
            let page = home.store().await?.list(request).await.map_err(Error::custom)?;
            for job in page.jobs {
                let data: Value = job.spec.payload.read().unwrap_or_default();
                if data["documentId"] == id {
                    jobs.push(json!({
                        "id": job.id, "kind": job.spec.kind, "queue": job.spec.queue, "state": job.state.name(),
                        "attempt": job.attempt, "createdAt": job.created_at, "data": data,
                    }));
                }
            }
        }
    }
    Ok(jobs)
}

/// The state of a row, as Agenda 6 and its Agendash tell it.
fn state_of(row: &Document, now: DateTime) -> &'static str {
    let date = |name: &str| row.get_datetime(name).ok();
    let (failed, finished, next) = (date("failedAt"), date("lastFinishedAt"), date("nextRunAt"));
    match next {
        _ if date("lockedAt").is_some() => "running",
        _ if failed.is_some() && failed >= finished => "failed",
        Some(next) if *next > now => "scheduled",
        Some(_) => "queued",
        None => "completed",
    }
}

/// What is to be done again.
#[derive(Debug, Clone)]
pub(crate) enum Again {
    /// A document, of all listeners that have had it, or of one.
    Document(String, Option<String>),
    Listener(String),
    AllFailed,
}

/// Asks for documents to be done again, at once and with a new ladder. Answers how many.
pub(crate) async fn retry(home: &Home, again: Again) -> Result<u64, OfficeError> {
    let states = doc! { "$in": [ "dead", "waiting" ] };
    let mut query = doc! { "state": states };
    if let Again::Document(id, _) = &again {
        query.insert("document", id);
    }
    if let Again::Document(_, Some(id)) | Again::Listener(id) = &again {
        query.insert("listener", known(home, id).await?);
    }
    let mut asked = 0;
    let mut found = home.dead.find(query.clone()).await?;
    while let Some(letter) = found.try_next().await? {
        asked += u64::from(ask(home, &letter).await?);
    }
    if asked == 0
        && let Again::Document(id, _) = &again
    {
        asked = ask_by_history(home, id, query.get_str("listener").ok()).await?;
    }
    Ok(asked)
}

/// A document that is not known as failed is done again by the places of its last jobs: of each listener one.
async fn ask_by_history(home: &Home, id: &str, listener: Option<&str>) -> Result<u64, OfficeError> {
    let mut places = BTreeSet::new();
    let mut asked = 0;
    let entries = history::of(home, id).await?;
    let jobs = jobs_of(home, id).await?;
    for mut letter in entries {
        let text = |name: &str| letter.get_str(name).unwrap_or_default().to_owned();
        let (of, place) = (text("listener"), [text("listener"), text("database"), text("collection")]);
        if listener.is_some_and(|listener| listener != of) || !places.insert(place) {
            continue;
        }
        let key = jobs.iter().find_map(|job| {
            let same = job["data"]["listenerId"].as_str() == Some(of.as_str());
            let key = job["data"]["documentKey"]["_id"].clone();
            same.then(|| Bson::try_from(key).ok()).flatten().filter(|key| *key != Bson::Null)
        });
        let key = match key {
            Some(key) => Some(key),
            // Rows that are over may have been deleted.
            None => typed(home, &letter, id).await?,
        };
        let Some(key) = key else { continue };
        letter.insert("documentId", key);
        asked += u64::from(ask(home, &letter).await?);
    }
    match (places.is_empty(), asked) {
        (true, _) => Err(OfficeError::NotFound(format!("nothing is known of document {id}"))),
        (false, 0) => Err(OfficeError::NotFound(format!(
            "document {id} is not there any more, or its listeners are not"
        ))),
        (false, asked) => Ok(asked),
    }
}

/// The id of a document as it is in its collection: what was typed tells no type.
async fn typed(home: &Home, entry: &Document, id: &str) -> Result<Option<Bson>, OfficeError> {
    let (Ok(database), Ok(collection)) = (entry.get_str("database"), entry.get_str("collection")) else {
        return Ok(None);
    };
    let documents = home.client.database(database).collection::<Document>(collection);
    let found = documents.find_one(by_id(id)).projection(doc! { "_id": 1 }).await?;
    Ok(found.and_then(|found| found.get("_id").cloned()))
}

/// The id of a listener that there is, as its entries have it.
async fn known(home: &Home, id: &str) -> Result<String, OfficeError> {
    Ok(id_text(show(home, id).await?.get("_id").unwrap_or(&Bson::Null)))
}

/// Documents that did not go through, the newest first: those that are given up, and those that are tried again.
pub(crate) async fn dead(home: &Home, listener: Option<&str>) -> Result<Vec<Value>, OfficeError> {
    let mut query = doc! { "state": { "$in": [ "dead", "waiting" ] } };
    if let Some(listener) = listener {
        query.insert("listener", known(home, listener).await?);
    }
    let found = home.dead.find(query).sort(doc! { "at": -1 }).limit(LIST_MAX);
    Ok(found.await?.map_ok(as_json).try_collect().await?)
}

/// Sets a document's status to null, and has its entry say that it is due. False when it is not there.
async fn ask(home: &Home, letter: &Document) -> Result<bool, OfficeError> {
    let (Ok(listener), Ok(database), Ok(collection), Some(document)) = (
        letter.get_str("listener"),
        letter.get_str("database"),
        letter.get_str("collection"),
        letter.get("documentId"),
    ) else {
        return Ok(false);
    };
    let Ok(listener) = show(home, listener).await else { return Ok(false) };
    let Ok(listener) = Listener::read(&listener) else { return Ok(false) };
    let id = crate::recovery::entry_id(&listener.id(), database, collection, document);
    let documents = home.client.database(database).collection::<Document>(collection);
    let this = doc! { "_id": document.clone() };
    let is_there = match &listener.status_field {
        Some(field) => {
            let wish = doc! { "$set": { field.path(): Bson::Null } };
            documents.update_one(this, wish).await?.matched_count > 0
        }
        None => documents.find_one(this).projection(doc! { "_id": 1 }).await?.is_some(),
    };
    if !is_there {
        return Ok(false);
    }
    // By its entry it is done whatever the filter says by now: it was the listener's, and somebody asks for it by name.
    let set = doc! {
        "state": "waiting", "attempts": 0_i64, "dueAt": home.now(), "listener": listener.id(), "database": database,
        "collection": collection, "documentId": document.clone(), "document": id_text(document),
    };
    home.dead.update_one(doc! { "_id": id }, doc! { "$set": set }).upsert(true).await?;
    if letter.get("_id") != Some(&Bson::ObjectId(id)) {
        home.dead
            .update_one(
                doc! { "_id": letter.get("_id").cloned().unwrap_or(Bson::Null) },
                doc! { "$set": { "state": "again" } },
            )
            .await?;
    }
    Ok(true)
}

/// Gaps, the newest first.
pub(crate) async fn gaps(home: &Home) -> Result<Vec<Value>, OfficeError> {
    let mut found = home.gaps.find(doc! {}).sort(doc! { "at": -1 }).limit(LIST_MAX).await?;
    let mut gaps = Vec::new();
    while let Some(gap) = found.try_next().await? {
        gaps.push(as_json(gap));
    }
    Ok(gaps)
}
