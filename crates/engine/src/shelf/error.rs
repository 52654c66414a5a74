//! What can go wrong with records.

use windlass_core::error::{Invalid, StoreError};
use windlass_core::id::{RecordKey, ShelfName};

/// Why records could not be read or written.
///
/// In a handler `?` does what fits: a lost lease ends the attempt as a lost
/// lease does everywhere, what no attempt can change is permanent, and the
/// rest, a conflict too, is tried again by the ladder. Whoever can do better
/// about a conflict matches it.
#[derive(Debug, thiserror::Error)]
pub enum ShelfError {
    /// A record was not as the batch wanted it. Nothing of the batch was written: read it again, and write anew.
    #[error(
        "{shelf}/{key} has been written meanwhile; nothing was changed. Read it again, and write by its revision"
    )]
    Conflict {
        /// The shelf.
        shelf: ShelfName,
        /// The record: the first, when it was so with several.
        key: RecordKey,
        /// The revision that is there, if any.
        rev: Option<u64>,
    },
    /// The attempt has lost its lease. Nothing was written.
    #[error("the lease is lost; nothing was changed")]
    LeaseLost,
    /// What is stored is not what the shelf's type can be read from.
    #[error("{shelf}/{key} cannot be read as what the program expects on that shelf")]
    Unreadable {
        /// The shelf.
        shelf: ShelfName,
        /// The record.
        key: RecordKey,
        /// Why.
        #[source]
        error: serde_json::Error,
    },
    /// The store could not do it, or would not.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Invalid> for ShelfError {
    fn from(invalid: Invalid) -> Self {
        Self::Store(invalid.into())
    }
}
