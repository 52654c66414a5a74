//! The five states of a job. Each variant carries exactly its own data, so a
//! wrong combination cannot be written down.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::json::Json;
pub use crate::lease::Lease;
use crate::time::Time;

/// Where a job is in its life, with what belongs to that place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waiting: for its time, its key, a budget, a slot or a worker.
    Queued,
    /// A worker holds its lease.
    Running(Lease),
    /// Done, with what it gave.
    Completed {
        /// When it ended.
        ended_at: Time,
        /// What it gave.
        #[serde(default, deserialize_with = "crate::json::present", skip_serializing_if = "Option::is_none")]
        result: Option<Json>,
    },
    /// Over without success.
    Failed {
        /// When it ended.
        ended_at: Time,
        /// Why no further attempt is made.
        reason: FailureReason,
    },
    /// Ended because somebody asked for it.
    Canceled {
        /// When it ended.
        ended_at: Time,
    },
}

impl State {
    /// The state's name alone.
    pub fn name(&self) -> StateName {
        match self {
            Self::Queued => StateName::Queued,
            Self::Running(_) => StateName::Running,
            Self::Completed { .. } => StateName::Completed,
            Self::Failed { .. } => StateName::Failed,
            Self::Canceled { .. } => StateName::Canceled,
        }
    }

    /// When the job ended, if it has.
    pub fn ended_at(&self) -> Option<Time> {
        match self {
            Self::Queued | Self::Running(_) => None,
            Self::Completed { ended_at, .. }
            | Self::Failed { ended_at, .. }
            | Self::Canceled { ended_at } => Some(*ended_at),
        }
    }
}

/// A state without its data, for filters and counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the five words of State")]
pub enum StateName {
    Queued,
    Running,
    Completed,
    Failed,
    Canceled,
}

impl StateName {
    /// All five, in the order of a life.
    pub const ALL: [StateName; 5] =
        [Self::Queued, Self::Running, Self::Completed, Self::Failed, Self::Canceled];

    /// Whether nothing but an explicit retry leaves this state.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }

    /// The number under which stores keep it.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The state of a stored number.
    pub fn from_code(code: i16) -> Option<Self> {
        usize::try_from(code).ok().and_then(|at| Self::ALL.get(at).copied())
    }
}

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for StateName {
    type Err = crate::error::Invalid;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| {
            crate::error::Invalid::new(
                "state",
                format!("{text:?} is none of queued, running, completed, failed, canceled"),
            )
        })
    }
}

/// Why a job is `failed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureReason {
    /// The ladder has no further rung.
    Exhausted,
    /// The handler said that trying again is of no use.
    Permanent,
    /// The worker was lost, and the queue says that this is the end.
    Crashed,
    /// The worker was lost too often.
    Quarantined,
    /// The program was started anew, and the queue does not survive that.
    WorkerRestart,
}

impl FailureReason {
    /// All of them.
    pub const ALL: [FailureReason; 5] =
        [Self::Exhausted, Self::Permanent, Self::Crashed, Self::Quarantined, Self::WorkerRestart];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exhausted => "exhausted",
            Self::Permanent => "permanent",
            Self::Crashed => "crashed",
            Self::Quarantined => "quarantined",
            Self::WorkerRestart => "worker_restart",
        }
    }

    /// The number under which stores keep it.
    pub fn code(self) -> i16 {
        self as i16
    }

    /// The reason of a stored number.
    pub fn from_code(code: i16) -> Option<Self> {
        usize::try_from(code).ok().and_then(|at| Self::ALL.get(at).copied())
    }
}

impl fmt::Display for FailureReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
