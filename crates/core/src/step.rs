//! Steps: named stages of a job whose output is stored when they finish.

use serde::{Deserialize, Serialize};

use crate::id::StepName;
use crate::json::Json;
use crate::time::Time;

/// How many steps a job may store.
pub const STEPS_MAX: usize = 1000;

/// A stage that has finished. It is never run again and never replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Its name, unique within the job.
    pub name: StepName,
    /// What it gave.
    pub output: Json,
    /// The attempt that stored it.
    pub attempt: u32,
    /// When it was stored.
    pub stored_at: Time,
}
