//! What can become of a call to a provider of news.

use crate::retry_after::RetryAfter;
use crate::safe_http::{HttpError, status_is_transient};

/// Why there is no page. The texts hold codes only: what a provider writes about an error may repeat the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NewsError {
    /// The key is wrong or may not do this. No retry helps.
    #[error("{provider} did not accept the key (status {status}, {code}); check the key and its plan")]
    Configuration {
        /// The provider's name.
        provider: &'static str,
        /// The status code.
        status: u16,
        /// The provider's code, or `none`.
        code: String,
    },
    /// Too many calls in too short a time.
    #[error("the rate limit of {provider} is reached; ask again later")]
    RateLimit {
        /// The provider's name.
        provider: &'static str,
        /// When to ask again, if it said so.
        retry_after: Option<RetryAfter>,
    },
    /// The day's or the plan's credits are used up.
    #[error("the credits at {provider} are used up; ask again tomorrow, or check the plan")]
    Quota {
        /// The provider's name.
        provider: &'static str,
        /// When to ask again, if it said so.
        retry_after: Option<RetryAfter>,
    },
    /// The cursor leads nowhere any more. Begin again with the first page.
    #[error("{provider} does not know this cursor (status {status}); begin with the first page")]
    BadCursor {
        /// The provider's name.
        provider: &'static str,
        /// The status code.
        status: u16,
    },
    /// The provider will never accept this request.
    #[error("{provider} refuses this request (status {status}, {code})")]
    Permanent {
        /// The provider's name.
        provider: &'static str,
        /// The status code.
        status: u16,
        /// The provider's code, or `none`.
        code: String,
    },
    /// The provider is in trouble.
    #[error("{provider} answered with status {status}; ask again later")]
    Upstream {
        /// The provider's name.
        provider: &'static str,
        /// The status code.
        status: u16,
        /// When to ask again, if it said so.
        retry_after: Option<RetryAfter>,
    },
    /// The answer is not in the form that was expected.
    #[error("the answer of {provider} is not in the expected form: {why}")]
    Malformed {
        /// The provider's name.
        provider: &'static str,
        /// What was wrong, without anything that was sent.
        why: &'static str,
    },
    /// The call failed before an answer came.
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// What an answer with an error says, as far as both providers say the same.
pub(super) struct Said {
    pub(super) provider: &'static str,
    pub(super) status: u16,
    /// The provider's code, when it is a plain word.
    pub(super) code: Option<String>,
    /// Whether the provider says that the credits are gone, and not that it goes too fast.
    pub(super) is_quota: bool,
    pub(super) retry_after: Option<RetryAfter>,
    /// Whether the call had a cursor.
    pub(super) with_cursor: bool,
}

impl From<Said> for NewsError {
    fn from(said: Said) -> Self {
        let Said { provider, status, code, is_quota, retry_after, with_cursor } = said;
        let code = code.unwrap_or_else(|| "none".to_owned());
        match status {
            402 => Self::Quota { provider, retry_after },
            403 | 429 if is_quota => Self::Quota { provider, retry_after },
            401 | 403 => Self::Configuration { provider, status, code },
            429 => Self::RateLimit { provider, retry_after },
            _ if status_is_transient(status) => Self::Upstream { provider, status, retry_after },
            400 | 404 | 409 | 410 | 422 if with_cursor => Self::BadCursor { provider, status },
            _ => Self::Permanent { provider, status, code },
        }
    }
}

impl NewsError {
    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Configuration { .. } => "configuration",
            Self::RateLimit { .. } => "rate_limit",
            Self::Quota { .. } => "quota",
            Self::BadCursor { .. } => "bad_cursor",
            Self::Permanent { .. } => "permanent",
            Self::Upstream { .. } => "upstream",
            Self::Malformed { .. } => "malformed",
            Self::Http(error) => error.code(),
        }
    }

    /// Whether the same call may succeed later without anything else changing.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::RateLimit { .. } | Self::Quota { .. } | Self::Upstream { .. } | Self::Malformed { .. } => {
                true
            }
            Self::Http(error) => error.is_transient(),
            Self::Configuration { .. } | Self::BadCursor { .. } | Self::Permanent { .. } => false,
        }
    }

    /// When the provider wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<RetryAfter> {
        match self {
            Self::RateLimit { retry_after, .. }
            | Self::Quota { retry_after, .. }
            | Self::Upstream { retry_after, .. } => *retry_after,
            Self::Http(error) => error.retry_after(),
            _ => None,
        }
    }
}
