//! Jobs on their way into the database.

use std::collections::HashMap;

use tokio::task::JoinHandle;

use crate::commit::Done;
use crate::event::Event;
use crate::job::NewJob;
use crate::token::Token;

/// Jobs that are written together.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) jobs: Vec<NewJob>,
    pub(super) bytes: usize,
    /// Jobs that exist, and whose status may be missing.
    pub(super) again: Vec<NewJob>,
    /// The last event of each lane that has jobs here.
    pub(super) last: HashMap<usize, Token>,
}

/// A batch that is being written.
pub(super) struct Writing {
    pub(super) task: JoinHandle<Option<Done>>,
    pub(super) last: HashMap<usize, Token>,
    pub(super) again: Vec<NewJob>,
}

impl Batch {
    /// Adds a job; `is_there` when the owner before us has written it, and may not have come to the status.
    pub(super) fn add(&mut self, place: usize, event: &Event, job: NewJob, is_there: bool) {
        if is_there {
            self.again.push(job);
            return;
        }
        self.bytes += job.bytes;
        self.jobs.push(job);
        self.last.insert(place, event.token.clone());
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.again.is_empty()
    }
}
