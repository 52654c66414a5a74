//! What we know of a row beside the row: the fence and the lease, in a collection of our own.
//!
//! They are not in the row, since Agenda 4 and 5 write the whole row back as they read it.

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{DateTime, Document, doc};
use serde::{Deserialize, Serialize};
use windlass_core::error::Invalid;
use windlass_core::id::StepName;
use windlass_core::json::Json;
use windlass_core::step::Step;
use windlass_core::time::Time;

/// How long a settled lease is known, for a settlement that is asked again.
pub(crate) const SETTLED_MS: i64 = 3_600_000;
/// How long a lease is kept that nobody settled: its row may have been deleted.
pub(crate) const KEPT_MS: i64 = 90 * 86_400_000;

/// A lease, or what is left of one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Lease {
    /// The row's id.
    #[serde(rename = "_id")]
    pub(crate) id: ObjectId,
    /// The moment of the claim in milliseconds, by the server's clock. It rises with each claim of the row: a claim
    /// replaces only a lease with an older lock.
    pub(crate) fence: i64,
    /// The lock that we wrote last.
    pub(crate) locked_at: DateTime,
    /// Whether the attempt goes on, as far as we know.
    pub(crate) held: bool,
    /// How it ended, when it has.
    pub(crate) outcome: Option<String>,
    /// Whether the row's work is over with that, so that another run of it begins afresh.
    pub(crate) over: bool,
    pub(crate) worker: String,
    /// The claim that took it, and what that asked for.
    pub(crate) request: String,
    pub(crate) asked: String,
    /// When the row was due, to be put back when it is released.
    pub(crate) due_at: Option<DateTime>,
    pub(crate) attempt: i32,
    pub(crate) crashes: i32,
    pub(crate) steps: Vec<Stored>,
    /// The key of its row, while it is held: an index lets no other lease have the same.
    #[serde(default)]
    pub(crate) key: Option<Document>,
    /// The server deletes it then.
    pub(crate) expire_at: DateTime,
}

/// The output of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) name: String,
    pub(crate) output: String,
    pub(crate) attempt: i32,
    pub(crate) at: DateTime,
}

impl Lease {
    /// The statement that writes this lease after a claim; it stumbles over one with a newer lock.
    pub(crate) fn claimed(&self) -> Result<Document, mongodb::error::Error> {
        let older = doc! { "_id": self.id, "lockedAt": { "$lt": self.locked_at } };
        Ok(doc! { "q": older, "u": mongodb::bson::serialize_to_document(self)?, "upsert": true })
    }

    /// What of it is otherwise than before; never nothing, so that a write is always one.
    pub(crate) fn changed_since(&self, before: &Self) -> Result<Document, mongodb::error::Error> {
        let old = mongodb::bson::serialize_to_document(before)?;
        let new = mongodb::bson::serialize_to_document(self)?;
        let changed = |(key, value): &(String, _)| key == "held" || old.get(key) != Some(value);
        Ok(new.into_iter().filter(changed).collect())
    }

    pub(crate) fn steps(&self) -> Result<Vec<Step>, Invalid> {
        let step = |stored: &Stored| {
            Ok(Step {
                name: StepName::new(&stored.name)?,
                output: Json::trusted(stored.output.as_str()),
                attempt: stored.attempt as u32,
                stored_at: Time::from_ms(stored.at.timestamp_millis()),
            })
        };
        self.steps.iter().map(step).collect()
    }
}
