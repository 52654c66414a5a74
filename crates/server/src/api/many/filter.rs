//! Which of the jobs: what the verbs are asked with.

use schemars::JsonSchema;
use serde::Deserialize;
use windlass_engine::core::id::{Key, Kind, QueueName};
use windlass_engine::core::query::JobFilter;
use windlass_engine::core::state::StateName;
use windlass_engine::core::time::Time;
use windlass_report::schema::{KeyText, Moment, Name};
use windlass_report::search::Wanted;

use crate::answer::Refusal;
use crate::api::list::error_text;
use crate::object::Object;

/// Which jobs, and how fast.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound(deserialize = "S: Deserialize<'de>"))]
#[schemars(rename = "ManyOf{S}")]
pub(crate) struct ManyBody<S> {
    pub filter: Object<FilterBody<S>>,
    /// Jobs per second; 100 when left out.
    #[serde(default)]
    #[schemars(range(min = 1, max = 10_000))]
    pub pace: Option<u32>,
    /// Only count them and name a few.
    #[serde(default)]
    pub dry_run: Option<bool>,
}

/// Which jobs. Everything that is said must hold.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, bound(deserialize = "S: Deserialize<'de>"))]
#[schemars(rename = "FilterOf{S}")]
pub(crate) struct FilterBody<S> {
    /// In these states; `failed` when left out of a retry, `queued` and `running` when left out of a cancel; a delete
    /// must have them.
    #[serde(default)]
    #[schemars(length(min = 1, max = 4))]
    state: Option<Vec<S>>,
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    queue: Option<QueueName>,
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    kind: Option<Kind>,
    #[serde(default)]
    #[schemars(with = "Option<KeyText>")]
    key: Option<Key>,
    /// Accepted at or after this.
    #[serde(default)]
    #[schemars(with = "Option<Moment>")]
    since: Option<Time>,
    /// Accepted before this.
    #[serde(default)]
    #[schemars(with = "Option<Moment>")]
    until: Option<Time>,
    /// In id, kind, key or payload.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    text: Option<String>,
    /// In the newest error, or all of it as a group of failures.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    error: Option<String>,
}

/// A state that a retry leads out of.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum FinalState {
    Completed,
    Failed,
    Canceled,
}

/// A state that a cancel leads out of.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum LiveState {
    Queued,
    Running,
}

/// The state that a run now is for.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum QueuedState {
    Queued,
}

/// A state in which a job can be deleted.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum RestingState {
    Queued,
    Completed,
    Failed,
    Canceled,
}

impl From<QueuedState> for StateName {
    fn from(QueuedState::Queued: QueuedState) -> Self {
        Self::Queued
    }
}

impl From<RestingState> for StateName {
    fn from(state: RestingState) -> Self {
        match state {
            RestingState::Queued => Self::Queued,
            RestingState::Completed => Self::Completed,
            RestingState::Failed => Self::Failed,
            RestingState::Canceled => Self::Canceled,
        }
    }
}

impl From<FinalState> for StateName {
    fn from(state: FinalState) -> Self {
        match state {
            FinalState::Completed => Self::Completed,
            FinalState::Failed => Self::Failed,
            FinalState::Canceled => Self::Canceled,
        }
    }
}

impl From<LiveState> for StateName {
    fn from(state: LiveState) -> Self {
        match state {
            LiveState::Queued => Self::Queued,
            LiveState::Running => Self::Running,
        }
    }
}

impl<S: Into<StateName>> FilterBody<S> {
    /// The filter, with `default` where no state was said.
    pub(super) fn wanted(self, default: &[StateName]) -> Result<Wanted, Refusal> {
        let Self { state, queue, kind, key, since, until, text, error } = self;
        let states: Vec<StateName> =
            state.map_or_else(|| default.to_vec(), |states| states.into_iter().map(Into::into).collect());
        if states.is_empty() || states.len() > 4 {
            return Err(Refusal::field("filter.state", "must be said: 1 to 4 states"));
        }
        let filter = JobFilter { states, queue, kind, key, since, until, text }.checked()?;
        Ok(Wanted { filter, error: error.map(|error| error_text(&error)).transpose()? })
    }
}
