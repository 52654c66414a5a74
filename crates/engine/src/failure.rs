//! How a handler says that it did not succeed.

use std::fmt;
use std::time::Duration;

use windlass_core::error::{Invalid, StoreError};
use windlass_core::job::Start;
use windlass_core::transition::Outcome;

/// Why an attempt did not succeed, and what should follow.
///
/// Any error becomes one by `?`, and means: try again by the ladder.
///
/// ```
/// use windlass::Failure;
///
/// fn parse(text: &str) -> Result<u32, Failure> {
///     Ok(text.parse::<u32>()?)
/// }
/// assert!(parse("12").is_ok());
/// assert!(matches!(parse("twelve"), Err(Failure::Retry { .. })));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Try again, by the ladder or after a given time. Costs an attempt.
    Retry {
        /// What went wrong. It is stored with the job: nothing secret in here.
        error: String,
        /// When to try again, instead of the ladder's delay.
        after: Option<Duration>,
    },
    /// Go on later. Costs no attempt.
    Park {
        /// For how long.
        after: Duration,
    },
    /// Trying again is of no use.
    Permanent {
        /// What went wrong. It is stored with the job: nothing secret in here.
        error: String,
    },
    /// The handler stopped because it was asked to cancel.
    Canceled,
    /// The handler stopped because the worker shuts down; it costs no attempt.
    Released,
    /// The lease is lost: somebody else has the job now, or will. Nothing more
    /// may be written.
    LeaseLost,
}

impl Failure {
    /// Try again, by the ladder.
    pub fn retry(error: impl fmt::Display) -> Self {
        Self::Retry { error: error.to_string(), after: None }
    }

    /// Try again after `after` (an upstream's Retry-After). Costs an attempt.
    pub fn retry_after(error: impl fmt::Display, after: Duration) -> Self {
        Self::Retry { error: error.to_string(), after: Some(after) }
    }

    /// Go on after `after`. Costs no attempt.
    pub fn park(after: Duration) -> Self {
        Self::Park { after }
    }

    /// Trying again is of no use.
    pub fn permanent(error: impl fmt::Display) -> Self {
        Self::Permanent { error: error.to_string() }
    }

    /// What to settle the attempt with; nothing when nothing may be written.
    pub(crate) fn outcome(self, ladder_ms: Option<u64>) -> Option<Outcome> {
        Some(match self {
            Self::Retry { error, after } => {
                let after_ms = after.map(as_ms).or(ladder_ms);
                Outcome::Retry { error, when: after_ms.map(Start::AfterMs) }
            }
            Self::Park { after } => Outcome::Parked { until: Start::AfterMs(as_ms(after)) },
            Self::Permanent { error } => Outcome::Failed { error },
            Self::Canceled => Outcome::Canceled,
            Self::Released => Outcome::Released,
            Self::LeaseLost => return None,
        })
    }
}

fn as_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let error: &(dyn std::error::Error + 'static) = &error;
        // What no attempt can change is not tried again.
        let hopeless =
            error.is::<Invalid>() || error.downcast_ref::<StoreError>().is_some_and(|e| !e.is_transient());
        let text = chain(error);
        if hopeless { Self::permanent(text) } else { Self::retry(text) }
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}
