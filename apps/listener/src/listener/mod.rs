//! A listener: what is watched, and which job a change makes.

mod matching;
mod read;
mod refused;
mod target;
mod validate;

use std::collections::BTreeSet;

use mongodb::bson::{Bson, Document};

pub(crate) use matching::changed_names;
pub(crate) use read::{QUEUE, applied, databases};
pub(crate) use refused::refused;
pub(crate) use target::Target;
pub(crate) use validate::{Neighbour, validate};

use crate::event::{Operation, id_text};
use crate::filter::Filter;
use crate::status_field::StatusField;

/// Which paths a filter names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// Those of the document: `status`.
    Document,
    /// Those of the event: `fullDocument.status`, `updateDescription.updatedFields.status`.
    Event,
}

/// What a job carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// Keys and names.
    Small,
    /// The event, too, up to a cap.
    Full,
}

/// How often a document makes a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Once {
    /// For each change that matches.
    Change,
    /// For the first change that matches, until somebody sets its status to null.
    Document,
}

/// What happens to the changes that came while a listener was paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnResume {
    Skip,
    CatchUp,
}

/// When an update that matches counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// Always.
    Level,
    /// Only when it has changed something that the filter names.
    Edge,
}

/// A listener, read and understood.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    /// Its `_id`, as it is in the collection.
    pub(crate) key: Bson,
    pub(crate) collection: String,
    pub(crate) target: Target,
    pub(crate) operations: BTreeSet<Operation>,
    pub(crate) filter: Filter,
    /// The filter as it was written, for the server.
    pub(crate) query: Document,
    pub(crate) dialect: Dialect,
    pub(crate) job_name: String,
    pub(crate) is_active: bool,
    pub(crate) metadata: Document,
    pub(crate) status_field: Option<StatusField>,
    pub(crate) once: Once,
    pub(crate) payload: Payload,
    pub(crate) on_resume: OnResume,
    pub(crate) trigger: Trigger,
    pub(crate) backfill: bool,
    pub(crate) partitions: u32,
    /// The queue of its jobs in the store; Agenda has none.
    pub(crate) queue: String,
    pub(crate) priority: i16,
    /// Sorted, without repeats; Agenda has none.
    pub(crate) budgets: Vec<String>,
    /// How many of its jobs run at once.
    pub(crate) concurrency: Option<u32>,
    /// Whether filters of deletes are matched against images from before.
    pub(crate) pre_images: bool,
}

impl Listener {
    /// Its id as text.
    pub(crate) fn id(&self) -> String {
        id_text(&self.key)
    }

    /// The budget of the store that limits its jobs, where it does.
    pub(crate) fn own_budget(&self) -> Option<(String, u32)> {
        Some((format!("listener:{}", self.id()), self.concurrency?))
    }

    /// Whether it watches this collection.
    pub(crate) fn watches(&self, database: &str, collection: &str) -> bool {
        self.collection == collection && self.target.includes(database)
    }
}
