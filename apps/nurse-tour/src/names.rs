//! Which message a job is: the engine speaks of jobs, an operator of messages.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use windlass_engine::core::id::JobId;

/// How many are remembered: far more than a worker holds, and some that have ended.
const NAMES_MAX: usize = 4_096;

/// The newest jobs of this worker, and their messages.
#[derive(Debug, Default)]
pub struct Names(Mutex<(HashMap<JobId, String>, VecDeque<JobId>)>);

impl Names {
    pub(crate) fn put(&self, job: JobId, sid: &str) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (known, order) = &mut *names;
        if known.insert(job, sid.to_owned()).is_none() {
            order.push_back(job);
        }
        if order.len() > NAMES_MAX
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
    }

    pub(crate) fn of(&self, job: JobId) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0.get(&job).cloned()
    }

    /// The message of a job whose id is written like this.
    pub(crate) fn of_text(&self, job: &str) -> Option<String> {
        self.of(job.parse().ok()?)
    }
}
