//! Which column of a table means what, for a table that belongs to somebody
//! else and is worked all the same (an adopted table).
//!
//! A mapping is pure data: an app says what its table looks like, and never
//! meets the connection that works it. Everything in it comes from the program,
//! never from data: some of it is SQL of Postgres, which is why it is here and
//! not in core.

use windlass_core::error::Invalid;
use windlass_core::id::{BudgetName, Kind, QueueName, StepName};
use windlass_core::policy::ladder::{Ladder, RetryRule};

/// Which column of a table means what.
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
    /// Whether that column counts only the tries that failed: then the one that ends well is taken out again.
    pub counts_failures: bool,
    /// The column of the fence, a bigint. Without one the owner ends with the fence of its claim.
    pub fence: Option<String>,
    /// The column that keeps the id of the claim, for a table with a fence:
    /// with it a claim whose answer was lost gives the same rows when it is asked again.
    pub request: Option<String>,
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
    /// How times of text are read, where that should be by an index.
    pub moments: Option<Moments>,
    /// How many tries a row has.
    pub tries_max: u32,
    /// After so many crashes without a stage in between a row is failed.
    pub crashes_max: u32,
    /// The delays between tries.
    pub ladder: Ladder,
    /// How long a lock lasts, unless the claim says otherwise.
    pub lease_ms: u32,
    /// How long a row waits that was given back because its worker shut down.
    pub release_ms: u64,
    /// What is written beside the columns above when an attempt ends.
    pub beside: Beside,
    /// Where cool-downs are kept, and which of them hold back these rows.
    pub cool_downs: Option<CoolDowns>,
    /// A channel on which somebody says (by NOTIFY) that there is a new row.
    pub channel: Option<String>,
}

/// A function of the database that makes moments of text. An index holds what it
/// answers, so that a claim need not read the rows that wait.
#[derive(Debug, Clone)]
pub struct Moments {
    /// Its name. It takes text, gives a time with its zone, or NULL when the text
    /// is no moment, and is immutable.
    pub function: String,
    /// Whether the order of the rows is a time of text, too.
    pub in_order: bool,
}

/// What is written beside the mapped columns when an attempt ends. All of it is
/// trusted SQL, and goes into the same statement as the end itself.
///
/// A *carried* statement may read the relation `written`: the rows as they are
/// after the write, with `wl_outcome` (`completed`, `retry`, `failed`, `parked`,
/// `released`, `canceled`; `crashed` or `exhausted` when nobody held them any
/// more), `wl_from` (the status before), `wl_owner`, `wl_error` and `wl_now`.
#[derive(Debug, Clone, Default)]
pub struct Beside {
    /// What a row that is done gets.
    pub done: Vec<Assign>,
    /// What a row gets whose attempt failed, for now or for good.
    pub failed: Vec<Assign>,
    /// Statements that are carried with every end.
    pub carried: Vec<String>,
}

/// A column and what it is set to: an expression on the row `t` and the moment `m.now`.
#[derive(Debug, Clone)]
pub struct Assign {
    /// The column.
    pub column: String,
    /// The expression.
    pub value: String,
}

/// A table of cool-downs: a text `name` that is its key, and a time `until`.
#[derive(Debug, Clone)]
pub struct CoolDowns {
    /// The table.
    pub table: String,
    /// The budgets that every row names: while one of them cools down, no row is claimed.
    pub budgets: Vec<BudgetName>,
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
    /// Words instead of `failed` for errors that begin so: such as rows that wait for a person.
    pub failed_as: Vec<(String, String)>,
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
    /// Where its output is kept.
    pub output: Output,
    /// Statements that are carried with the write of this step, in the same
    /// statement. They may read the relation `written`: the row as it is after
    /// the write, with `wl_from` (the stage before), `wl_output` (JSON) and `wl_now`.
    pub carried: Vec<String>,
}

/// Where the output of a step is kept.
#[derive(Debug, Clone)]
pub enum Output {
    /// Nowhere: only that the step has finished is known.
    None,
    /// In one column of text or JSON.
    Column(String),
    /// Spread over columns, by the keys of the output, which is an object. A
    /// key that is missing or null leaves its column as it is. The first is
    /// the proof: a row whose first column is empty has not finished the step,
    /// whatever its stage says.
    Fields(Vec<(String, String)>),
}

impl Output {
    /// The columns.
    pub fn columns(&self) -> Vec<&str> {
        match self {
            Self::None => Vec::new(),
            Self::Column(column) => vec![column],
            Self::Fields(fields) => fields.iter().map(|(_, column)| column.as_str()).collect(),
        }
    }
}

impl Mapping {
    /// The mapping, if it does not contradict itself.
    pub fn checked(self) -> Result<Self, Invalid> {
        if !self.words.ready.contains(&self.words.retry) {
            return Err(Invalid::new("words", "have a word for retry that is none of the ready ones"));
        }
        if self.words.ready.contains(&self.words.running) {
            return Err(Invalid::new("words", "have the same word for ready and running"));
        }
        let spread = self.stage.iter().flat_map(|stage| &stage.steps);
        if spread.clone().any(|step| matches!(&step.output, Output::Fields(fields) if fields.is_empty())) {
            return Err(Invalid::new("output", "is spread over no column"));
        }
        if self.tries_max == 0 || self.crashes_max == 0 {
            return Err(Invalid::new("tries_max", "and crashes_max must be at least 1"));
        }
        Ok(self)
    }

    /// How often a row is tried, and with which delays.
    pub fn retry_rule(&self) -> RetryRule {
        RetryRule { ladder: self.ladder.clone(), max_attempts: Some(self.tries_max) }
    }

    /// The word for a row that was canceled.
    pub fn canceled_word(&self) -> &str {
        self.words.canceled.as_deref().unwrap_or(&self.words.failed)
    }

    /// The word for a row that failed with this error.
    pub fn failed_word(&self, error: &str) -> &str {
        let fits = self.words.failed_as.iter().find(|(beginning, _)| error.starts_with(beginning));
        fits.map_or(&self.words.failed, |(_, word)| word)
    }
}
