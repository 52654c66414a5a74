//! Which column of a table means what.

use windlass_core::error::Invalid;
use windlass_core::id::{Kind, QueueName, StepName};
use windlass_core::policy::ladder::{Ladder, RetryRule};

/// Which column of a table means what. Everything here comes from the program,
/// never from data.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// The table, with its schema where that is not on the search path.
    pub table: String,
    /// The kind of all its jobs.
    pub kind: Kind,
    /// The queue by which workers ask for them.
    pub queue: QueueName,
    /// The column of the id: text, uuid or an integer.
    pub id: String,
    /// The columns that make up the payload, an object with these names.
    pub payload: Vec<String>,
    /// The column of the status.
    pub status: String,
    /// What the status says.
    pub words: Words,
    /// The column that says who holds a row.
    pub owner: String,
    /// The column that says until when: a time, or text in any ISO form.
    pub locked_until: String,
    /// The column that says not before when: a time, or text in any ISO form.
    pub next_attempt: String,
    /// The column that counts the tries.
    pub tries: String,
    /// The column of the fence. Without one the owner is made unique per claim.
    pub fence: Option<String>,
    /// The column that counts locks that ran out since the last stage.
    pub crashes: Option<String>,
    /// The stages, when the table keeps them.
    pub stage: Option<Stage>,
    /// The column of the newest error.
    pub error: Option<String>,
    /// A condition on a row `t`, as trusted SQL.
    pub predicate: Option<String>,
    /// The column by which rows go first; the id when nothing is said.
    pub order: Option<String>,
    /// How many tries a row has.
    pub tries_max: u32,
    /// After so many crashes without a stage in between a row is failed.
    pub crashes_max: u32,
    /// The delays between tries.
    pub ladder: Ladder,
    /// How long a lock lasts, unless the claim says otherwise.
    pub lease_ms: u32,
}

/// What the status says.
#[derive(Debug, Clone)]
pub struct Words {
    /// A row may be claimed: such as READY, RETRY.
    pub ready: Vec<String>,
    /// What a row gets that is to be tried again; one of `ready`.
    pub retry: String,
    /// A worker holds it.
    pub running: String,
    /// It is done.
    pub done: String,
    /// It is over without success.
    pub failed: String,
    /// Somebody asked for its end; `failed` when the table has no word for it.
    pub canceled: Option<String>,
}

/// The stages of a row, in order.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The column that names the last stage that finished.
    pub column: String,
    /// The steps, in the order in which they run.
    pub steps: Vec<StepColumn>,
}

/// A step and where the table keeps it.
#[derive(Debug, Clone)]
pub struct StepColumn {
    /// The step.
    pub name: StepName,
    /// The word for "this one has finished".
    pub word: String,
    /// The column that keeps its output.
    pub output: Option<String>,
}

impl Mapping {
    pub(crate) fn checked(self) -> Result<Self, Invalid> {
        if !self.words.ready.contains(&self.words.retry) {
            return Err(Invalid::new("words", "have a word for retry that is none of the ready ones"));
        }
        if self.words.ready.contains(&self.words.running) {
            return Err(Invalid::new("words", "have the same word for ready and running"));
        }
        if self.tries_max == 0 || self.crashes_max == 0 {
            return Err(Invalid::new("tries_max", "and crashes_max must be at least 1"));
        }
        Ok(self)
    }

    pub(crate) fn retry_rule(&self) -> RetryRule {
        RetryRule { ladder: self.ladder.clone(), max_attempts: Some(self.tries_max) }
    }

    pub(crate) fn canceled_word(&self) -> &str {
        self.words.canceled.as_deref().unwrap_or(&self.words.failed)
    }

    /// Every column that must be there, with what it is for.
    pub(crate) fn columns(&self) -> Vec<(&str, Use)> {
        let mut columns = vec![
            (self.id.as_str(), Use::Id),
            (&self.status, Use::Text),
            (&self.owner, Use::Text),
            (&self.locked_until, Use::Time),
            (&self.next_attempt, Use::Time),
            (&self.tries, Use::Number),
        ];
        columns.extend(self.payload.iter().map(|column| (column.as_str(), Use::Any)));
        columns.extend(self.fence.iter().map(|column| (column.as_str(), Use::Number)));
        columns.extend(self.crashes.iter().map(|column| (column.as_str(), Use::Number)));
        columns.extend(self.error.iter().map(|column| (column.as_str(), Use::Text)));
        columns.extend(self.order.iter().map(|column| (column.as_str(), Use::Any)));
        if let Some(stage) = &self.stage {
            columns.push((&stage.column, Use::Text));
            let outputs = stage.steps.iter().filter_map(|step| step.output.as_deref());
            columns.extend(outputs.map(|column| (column, Use::Output)));
        }
        columns
    }
}

/// What a column is for, and with that what type it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Id,
    Text,
    Time,
    Number,
    Output,
    Any,
}
