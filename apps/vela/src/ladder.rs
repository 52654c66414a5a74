//! When a task that failed is tried again: its rungs are its own failures.
//!
//! A crash is none of them, and neither is a quota or a lost authorisation: so
//! the rungs are counted by what happened to the task, and not by its attempts.

use std::time::Duration;

use windlass_engine::core::event::What;
use windlass_engine::world::World;
use windlass_engine::{Failure, JobRecord};

use crate::settings::TaskSettings;
use crate::tasks::kind_of;

/// How the error of a task begins that has no rung left.
pub const GIVEN_UP: &str = "given up after ";

/// How a failed attempt ends: tried again after the next rung, or given up.
pub fn climb(job: &JobRecord, settings: &TaskSettings, world: &dyn World, error: &str) -> Failure {
    let failures = failures(job);
    let kind = kind_of(job).map(|kind| settings.ladder(kind));
    let ladder = job.spec.retry.as_ref().map(|rule| &rule.ladder).or(kind);
    match ladder.and_then(|ladder| ladder.rungs().get(failures)) {
        Some(rung) => {
            // Up to a tenth later, so that what failed together does not come back together.
            let ms = rung.ms() + world.chance() % (rung.ms() / 10 + 1);
            Failure::retry_after(error.to_owned(), Duration::from_millis(ms))
        }
        None => Failure::permanent(format!("{GIVEN_UP}{} tries: {error}", failures + 1)),
    }
}

/// How often it failed in this life.
fn failures(job: &JobRecord) -> usize {
    let begun = job.history.iter().rposition(|entry| entry.what == What::Retried).map_or(0, |at| at + 1);
    job.history[begun..].iter().filter(|entry| entry.what == What::Retrying).count()
}
