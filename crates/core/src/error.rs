//! What can go wrong, as types with stable codes.

use uuid::Uuid;

use crate::event::Position;
use crate::id::JobId;

/// A value that a caller gave and that is refused: which field, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} {why}")]
pub struct Invalid {
    /// The field, as the caller knows it.
    pub field: &'static str,
    /// Why, as the rest of a sentence that begins with the field.
    pub why: String,
}

impl Invalid {
    /// A refusal of `field`; `why` goes on with the sentence.
    pub fn new(field: &'static str, why: impl Into<String>) -> Self {
        Self { field, why: why.into() }
    }
}

/// Why a store could not do what it was asked to.
///
/// None of these ever means "nothing there": absence is an answer, not an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store cannot be reached or did not answer in time. The outcome is
    /// unknown; asking again with the same ids is harmless.
    #[error("the store did not answer: {0}. The outcome is unknown; ask again with the same ids")]
    Unavailable(String),
    /// Nobody is there to be asked: the call was never sent. Nothing changed.
    #[error("the store cannot be reached: {0}. Nothing was changed")]
    Unreachable(String),
    /// So many ask at once that this call was not begun. Nothing changed.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// The store has as many jobs as it may have. Nothing changed.
    #[error("the store is full: {0}")]
    Full(String),
    /// There is no room on the disk, or the file may not be written. Nothing changed.
    #[error("the store cannot write: {0}. Nothing was changed")]
    CannotWrite(String),
    /// An id was used again for a job with another content. Nothing changed.
    #[error("job {0} exists already with another content; choose a new id")]
    Conflict(JobId),
    /// A request id was used again for a claim of another worker, other queues or other kinds. Nothing changed,
    /// and nothing is said of what the first one was given.
    #[error(
        "claim {0} was asked before by another worker, or for other queues or kinds; choose a new request id"
    )]
    RequestTaken(Uuid),
    /// A position in the events that was given in another epoch of the store ([`crate::epoch`]), or by another store.
    /// What happened since then cannot be told; this epoch's events begin after the position named here.
    #[error(
        "this position is of another epoch: the store was restored, copied or failed over since. Go on from {0}"
    )]
    AnotherEpoch(Position),
    /// This store cannot hold a value of this call, or of what the call met. Nothing changed; the store goes on.
    #[error("the store cannot hold a value: {0}. Nothing was changed")]
    Unfit(String),
    /// A value that no store would take. Nothing changed.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// This source cannot do that at all (an adopted table has no budgets).
    #[error("this source cannot {0}")]
    Unsupported(&'static str),
    /// The schema is newer than this program, or is not ours.
    #[error("the store's schema does not fit this program: {0}")]
    Schema(String),
    /// Another process holds the store.
    #[error("the store is in use by another process: {0}")]
    InUse(String),
    /// The store's content cannot be trusted any more; it has stopped.
    #[error("the store has stopped: {0}")]
    Broken(String),
}

impl StoreError {
    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unavailable(_) => "store_unavailable",
            Self::Unreachable(_) => "store_unreachable",
            Self::Busy(_) => "store_busy",
            Self::Full(_) => "store_full",
            Self::CannotWrite(_) => "store_cannot_write",
            Self::Conflict(_) => "id_conflict",
            Self::RequestTaken(_) => "request_conflict",
            Self::AnotherEpoch(_) => "position_of_another_epoch",
            Self::Unfit(_) => "value_unfit",
            Self::Invalid(_) => "invalid",
            Self::Unsupported(_) => "unsupported",
            Self::Schema(_) => "schema_mismatch",
            Self::InUse(_) => "store_in_use",
            Self::Broken(_) => "store_broken",
        }
    }

    /// Whether the same call may succeed later without anything else changing.
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Unavailable(_)
                | Self::Unreachable(_)
                | Self::Busy(_)
                | Self::Full(_)
                | Self::CannotWrite(_)
                | Self::InUse(_)
        )
    }

    /// Whether this is of one call alone, although that call would not succeed later either: whoever works on
    /// goes on with other calls.
    pub fn is_of_one_call(&self) -> bool {
        matches!(self, Self::RequestTaken(_) | Self::Unfit(_) | Self::AnotherEpoch(_))
    }
}
