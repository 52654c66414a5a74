//! What stands in the way of a task, by what is to be done about it.

use std::time::Duration;

use windlass_engine::{Failure, ShelfError, StoreError};
use windlass_outside::etsy::EtsyError;

/// How long a shop waits for its seller before it is looked at again.
pub const RECONNECT_WAIT: Duration = Duration::from_secs(86_400);

/// How long a shop waits when Etsy forbids what it needs: somebody may put the app's key right.
const FORBIDDEN_WAIT: Duration = Duration::from_secs(3_600);

/// What stands in the way.
#[derive(Debug)]
pub enum Trouble {
    /// Etsy refuses this one call; others may pass.
    Refused(EtsyError),
    /// The limit of calls is reached for a while.
    Quota {
        /// For how long.
        wait: Duration,
    },
    /// Only the seller can help.
    Reconnect {
        /// What Etsy said.
        said: String,
    },
    /// Etsy does not let this app do that: its key, its scopes or the consent are not enough.
    Forbidden {
        /// What Etsy said.
        said: String,
    },
    /// Etsy is not itself: try again by the ladder.
    Away(EtsyError),
    /// The attempt has to end: it was told to, or the store cannot be reached.
    Ended(Failure),
}

impl Trouble {
    /// A word for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(error) | Self::Away(error) => error.code(),
            Self::Quota { .. } => "quota",
            Self::Reconnect { .. } => "needs_reconnect",
            Self::Forbidden { .. } => "forbidden",
            Self::Ended(_) => "ended",
        }
    }

    /// A sentence for the seller, with Etsy's own words where it had some.
    pub fn message(&self) -> String {
        match self {
            Self::Refused(error) | Self::Away(error) => match error.said() {
                Some(said) => format!("Etsy says: {said}"),
                None => error.to_string(),
            },
            Self::Quota { wait } => {
                format!(
                    "Etsy's limit of calls is reached; it goes on by itself in {} s",
                    wait.as_secs().max(1)
                )
            }
            Self::Reconnect { said } if said.is_empty() => {
                "Etsy does not let us in any more; connect the shop again".to_owned()
            }
            Self::Forbidden { said } => {
                format!("Etsy says: {said}. Check the app's key and scopes, or connect the shop again")
            }
            Self::Reconnect { said } => format!("Etsy says: {said}. Connect the shop again"),
            Self::Ended(failure) => failure.to_string(),
        }
    }

    /// How the attempt ends.
    pub fn failure(self) -> Failure {
        match self {
            Self::Quota { wait } => Failure::park(wait),
            Self::Reconnect { .. } => Failure::park(RECONNECT_WAIT),
            Self::Forbidden { .. } => Failure::park(FORBIDDEN_WAIT),
            Self::Refused(error) | Self::Away(error) => Failure::retry(error.to_string()),
            Self::Ended(failure) => failure,
        }
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self::Ended(failure)
    }
}

impl From<ShelfError> for Trouble {
    fn from(error: ShelfError) -> Self {
        Self::Ended(error.into())
    }
}

impl From<StoreError> for Trouble {
    fn from(error: StoreError) -> Self {
        Self::Ended(error.into())
    }
}
