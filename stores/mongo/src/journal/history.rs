//! Which history a journal is, and what follows when it was cut (`core::epoch`).
//!
//! Entries are read and acknowledged only when a majority has them, so that an election loses nothing that anybody was
//! told. What loses it is a restore, a copy, a set that was forced to go on without its majority. A program notices that
//! by an entry that it has read and that is gone or another, and one that was not there at the time by what it finds
//! written about the journal: which replica set it is in, and which collection it is (a restored one is another). Any
//! other primary, or the same one started anew, lifts the floor of all fences: the disk may have come back as it was.

use mongodb::Database;
use mongodb::bson::{Document, doc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass_core::epoch::Epoch;
use windlass_core::error::StoreError;
use windlass_core::time::Time;

use super::Copy;
use super::entry::Done;
use super::op::Answer;
use crate::error::failed;

/// What a journal was written into. A part is nothing where the server does not tell it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    /// The id that a replica set is given when it is made.
    pub(crate) set: Option<String>,
    /// The id of the collection.
    pub(crate) collection: Option<String>,
    pub(crate) primary: Primary,
}

/// Who takes the writes: the process, and the election that it has won.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Primary {
    process: Option<String>,
    election: Option<String>,
}

/// A change of the history, as it is written down.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Turn {
    what: What,
    history: History,
}

#[derive(Debug, Serialize, Deserialize)]
enum What {
    /// A store is given its name. One that has jobs already may have been anywhere: its floor is lifted.
    Begin { instance: Uuid, lift: Option<u64> },
    /// The history was cut.
    Next(Epoch),
    /// The primary is another.
    Lift(u64),
}

impl Primary {
    /// The one that answers now.
    pub(crate) async fn of(database: &Database) -> Result<Self, StoreError> {
        let hello = database.run_command(doc! { "hello": 1 }).await.map_err(failed)?;
        let process =
            hello.get_document("topologyVersion").and_then(|version| version.get_object_id("processId"));
        Ok(Self {
            process: process.ok().map(|id| id.to_hex()),
            election: hello.get_object_id("electionId").ok().map(|id| id.to_hex()),
        })
    }
}

impl History {
    /// The one that is here now.
    pub(crate) async fn of(database: &Database, collection: &str) -> Result<Self, StoreError> {
        Ok(Self {
            set: set_of(database).await,
            collection: collection_of(database, collection).await?,
            primary: Primary::of(database).await?,
        })
    }

    /// Whether a journal of that history is not the one that it was: it was restored, or copied.
    fn is_another(&self, was: &Self) -> bool {
        let differ = |one: &Option<String>, other: &Option<String>| {
            one.as_ref().zip(other.as_ref()).is_some_and(|(one, other)| one != other)
        };
        differ(&self.set, &was.set) || differ(&self.collection, &was.collection)
    }
}

/// The id of the replica set. Not everybody may ask for it.
async fn set_of(database: &Database) -> Option<String> {
    let admin = database.client().database("admin");
    let answer: Document = admin.run_command(doc! { "replSetGetConfig": 1 }).await.ok()?;
    let settings = answer.get_document("config").ok()?.get_document("settings").ok()?;
    settings.get_object_id("replicaSetId").ok().map(|id| id.to_hex())
}

async fn collection_of(database: &Database, name: &str) -> Result<Option<String>, StoreError> {
    let answer = database
        .run_command(doc! { "listCollections": 1, "filter": { "name": name } })
        .await
        .map_err(failed)?;
    let first = answer.get_document("cursor").and_then(|cursor| cursor.get_array("firstBatch")).ok();
    let first = first.and_then(|batch| batch.first()).and_then(|found| found.as_document());
    let info = first.and_then(|found| found.get_document("info").ok());
    Ok(info.and_then(|info| info.get("uuid")).map(ToString::to_string))
}

/// Numbers that nobody else has.
pub(crate) fn chance() -> Result<u64, StoreError> {
    getrandom::u64()
        .map_err(|error| StoreError::Unavailable(format!("the machine gives no random numbers: {error}")))
}

impl Turn {
    /// What must be written down before anything else is, given what is here now.
    pub(crate) fn due(copy: &Copy, here: History, now: Time) -> Result<Option<Self>, StoreError> {
        let epoch = copy.book.epoch();
        let another = copy.history.as_ref().is_some_and(|was| here.is_another(was));
        let what = if copy.lost.is_some() || another {
            let newest = copy.lost.filter(|lost| lost.number >= epoch.number).unwrap_or(*epoch);
            let instance = Uuid::from_u64_pair(chance()?, chance()?);
            What::Next(newest.next(instance, chance()?, 0, true, now))
        } else {
            match &copy.history {
                None => {
                    let lift = if copy.book.is_empty() { None } else { Some(chance()?) };
                    What::Begin { instance: Uuid::from_u64_pair(chance()?, chance()?), lift }
                }
                Some(was) if was.primary != here.primary => What::Lift(chance()?),
                Some(_) => return Ok(None),
            }
        };
        Ok(Some(Self { what, history: here }))
    }

    /// Does to a copy what it says.
    pub(crate) fn apply(&self, copy: &mut Copy, now: Time) -> Done {
        match &self.what {
            What::Begin { instance, lift } => {
                if copy.book.epoch().instance.is_nil() {
                    copy.book.begin(*instance);
                }
                if let Some(chance) = lift {
                    copy.book.lift(*chance, now);
                }
            }
            What::Next(epoch) => {
                copy.book.enter(*epoch);
                copy.lost = None;
            }
            What::Lift(chance) => copy.book.lift(*chance, now),
        }
        copy.history = Some(self.history.clone());
        Ok((Answer::Done, true))
    }

    /// Says in the log what an operator must know.
    pub(crate) fn tell(&self) {
        match &self.what {
            What::Begin { .. } => {}
            What::Lift(_) => {
                tracing::info!("another primary, or one that was started anew: the floor of fences is lifted")
            }
            What::Next(epoch) => tracing::error!(
                epoch = epoch.number,
                "the journal is not the one that it was: it was restored or copied, or its replica set went on without \
                 a majority. A new epoch begins: what was accepted or finished since is not known here, and jobs that \
                 somebody may hold by it are held back until their longest lease has run out"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(set: &str, collection: &str, election: &str) -> History {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let primary = Primary { process: None, election: some(election) };
        History { set: some(set), collection: some(collection), primary }
    }

    fn copy_of(history: Option<History>) -> Copy {
        Copy { history, ..Copy::default() }
    }

    #[test]
    fn what_is_due_follows_from_what_was_and_what_is() {
        let now = Time::from_ms(1_800_000_000_000);
        let was = || Some(history("s", "c", "1"));
        let due = |copy: &Copy, here: History| Turn::due(copy, here, now).unwrap().map(|turn| turn.what);
        assert!(matches!(due(&copy_of(None), history("s", "c", "1")), Some(What::Begin { lift: None, .. })));
        assert!(due(&copy_of(was()), history("s", "c", "1")).is_none());
        assert!(matches!(due(&copy_of(was()), history("s", "c", "2")), Some(What::Lift(_))));
        for here in [history("t", "c", "1"), history("s", "d", "1")] {
            assert!(matches!(due(&copy_of(was()), here), Some(What::Next(epoch)) if epoch.number == 2));
        }
        // What a server does not tell is no other.
        assert!(due(&copy_of(was()), history("", "", "1")).is_none());
        // An epoch that was lost with the rest is counted on.
        let lost = Epoch { number: 7, floor: 1 << 50, ..Epoch::default() };
        let copy = Copy { lost: Some(lost), ..copy_of(was()) };
        let Some(What::Next(epoch)) = due(&copy, history("s", "c", "1")) else { panic!("nothing is due") };
        assert!(epoch.number == 8 && epoch.floor > lost.floor && epoch.lossy);
    }
}
