//! What every room here asks the server for: the time, a batch of updates, a transaction.

use mongodb::bson::{Bson, DateTime, Document, doc};
use mongodb::error::Error;
use mongodb::options::{Acknowledgment, CollectionOptions, ReadConcern, SelectionCriteria, WriteConcern};
use mongodb::{ClientSession, Collection, Database};
use windlass_core::error::StoreError;

use crate::error::failed;

/// With less than this on its disk the server would end soon: its own journal takes files of 100 MiB.
const ROOM_BYTES_MIN: u64 = 128 * 1024 * 1024;
/// How many statements one command carries; the server takes 100,000.
const STATEMENTS_MAX: usize = 1_000;

/// A collection of which only the primary is asked, and which is written to a majority.
pub(crate) fn collection<T: Send + Sync>(database: &Database, name: &str) -> Collection<T> {
    let options = CollectionOptions::builder()
        .write_concern(majority())
        .selection_criteria(SelectionCriteria::ReadPreference(mongodb::options::ReadPreference::Primary))
        .build();
    database.collection_with_options(name, options)
}

fn majority() -> WriteConcern {
    WriteConcern::builder().w(Acknowledgment::Majority).journal(true).build()
}

/// The time by the server's clock.
pub(crate) async fn now(database: &Database) -> Result<DateTime, StoreError> {
    let hello = database.run_command(doc! { "hello": 1 }).await.map_err(failed)?;
    if !hello.contains_key("setName") {
        let why = "this MongoDB is no replica set; one is needed, also for a single node: start mongod with --replSet";
        return Err(StoreError::Schema(why.to_owned()));
    }
    hello.get_datetime("localTime").copied().map_err(|error| StoreError::Broken(format!("hello: {error}")))
}

/// Whether the server's disk has room for jobs, as far as it says what there is. It ends itself when a write finds none.
pub(crate) async fn has_room(database: &Database) -> Result<(), StoreError> {
    match database.run_command(doc! { "dbStats": 1 }).await {
        Ok(stats) => room_of(&stats),
        // Somebody who may write and not look at that; the next write tells.
        Err(error) if crate::error::code(&error).is_some() => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn room_of(stats: &Document) -> Result<(), StoreError> {
    let (total, used) = (number(stats.get("fsTotalSize")), number(stats.get("fsUsedSize")));
    match total.saturating_sub(used) {
        left if total > 0 && left < ROOM_BYTES_MIN => {
            Err(StoreError::CannotWrite(format!("the disk of MongoDB has {} MiB left", left / (1024 * 1024))))
        }
        _ => Ok(()),
    }
}

/// What a batch of updates did.
#[derive(Debug, Default)]
pub(crate) struct Updated {
    /// How many statements found their document.
    pub(crate) matched: u64,
    /// The statements that stumbled.
    pub(crate) errors: Vec<Stumble>,
}

/// A statement that was refused.
#[derive(Debug)]
pub(crate) struct Stumble {
    /// Which one.
    pub(crate) at: usize,
    /// The first field of the index that was in its way, where one was.
    pub(crate) index: Option<String>,
}

/// Runs updates in order, in as few commands as there can be: `{ q, u, multi, upsert }` each. One that stumbles
/// does not hold up the others, but for those of a transaction.
pub(crate) async fn update(
    database: &Database,
    collection: &str,
    statements: Vec<Document>,
    mut session: Option<&mut ClientSession>,
) -> Result<Updated, Error> {
    let mut updated = Updated::default();
    for (at, chunk) in statements.chunks(STATEMENTS_MAX).enumerate() {
        let mut command = doc! { "update": collection, "updates": chunk, "ordered": session.is_some() };
        let answer = match session.as_deref_mut() {
            Some(session) => database.run_command(command).session(session).await?,
            None => {
                command.insert("writeConcern", doc! { "w": "majority", "j": true });
                database.run_command(command).await?
            }
        };
        if let Ok(refused) = answer.get_document("writeConcernError") {
            return Err(Error::custom(format!("a majority did not take the write: {refused}")));
        }
        updated.matched += number(answer.get("n"));
        for error in answer.get_array("writeErrors").into_iter().flatten().filter_map(Bson::as_document) {
            let pattern = error.get_document("keyPattern").ok();
            updated.errors.push(Stumble {
                at: number(error.get("index")) as usize + at * STATEMENTS_MAX,
                index: pattern.and_then(|pattern| pattern.keys().next().cloned()),
            });
        }
    }
    Ok(updated)
}

fn number(bson: Option<&Bson>) -> u64 {
    match bson {
        Some(Bson::Int32(number)) => *number as u64,
        Some(Bson::Int64(number)) => *number as u64,
        Some(Bson::Double(number)) => *number as u64,
        _ => 0,
    }
}

/// Begins a transaction that sees one moment, and is durable on a majority when it is committed.
pub(crate) async fn begin(database: &Database) -> Result<ClientSession, Error> {
    let mut session = database.client().start_session().await?;
    session
        .start_transaction()
        .read_concern(ReadConcern::snapshot())
        .write_concern(majority())
        .selection_criteria(SelectionCriteria::ReadPreference(mongodb::options::ReadPreference::Primary))
        .await?;
    Ok(session)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_nearly_full_has_no_room() {
        let gib = 1024.0 * 1024.0 * 1024.0;
        assert!(room_of(&doc! { "fsTotalSize": 10.0 * gib, "fsUsedSize": 9.0 * gib }).is_ok());
        assert!(room_of(&doc! { "ok": 1 }).is_ok(), "a server that does not say");
        let full = room_of(&doc! { "fsTotalSize": 10.0 * gib, "fsUsedSize": 9.99 * gib });
        let why = full.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(why.contains("the disk of MongoDB has 10 MiB left"), "{why}");
    }
}
