//! What can become of a question to a model.

use crate::cloudflare::CloudflareError;
use crate::openai::OpenAiError;
use crate::retry_after::RetryAfter;
use crate::safe_http::HttpError;

/// Why there is no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// OpenAI, or whoever speaks its language, said no.
    #[error(transparent)]
    OpenAi(#[from] OpenAiError),
    /// Workers AI said no.
    #[error(transparent)]
    WorkersAi(#[from] CloudflareError),
    /// An answer came that cannot be read.
    #[error("the model's answer cannot be read: {0}")]
    Unreadable(&'static str),
}

/// Whose trouble it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelFault {
    /// The model is down, slow, or over its quota: no connection, a timeout, 429, 5xx. Says nothing about the
    /// question.
    Away,
    /// The question was refused, or its answer cannot be read. The next try may go better, or never.
    Answer,
    /// A key, a name or an address in the settings is wrong. Nothing goes until somebody changes it.
    Settings,
}

impl ModelError {
    /// Whose trouble it is.
    pub fn fault(&self) -> ModelFault {
        match self {
            Self::OpenAi(error) => match error {
                OpenAiError::RateLimit { .. } | OpenAiError::Quota | OpenAiError::Upstream { .. } => {
                    ModelFault::Away
                }
                OpenAiError::Configuration { .. } | OpenAiError::NoSuchModel { .. } => ModelFault::Settings,
                OpenAiError::Http(error) => of_call(error),
                OpenAiError::Permanent { .. }
                | OpenAiError::Refusal
                | OpenAiError::Truncated
                | OpenAiError::Filtered
                | OpenAiError::Malformed(_) => ModelFault::Answer,
            },
            Self::WorkersAi(error) => match error {
                CloudflareError::RateLimit { .. }
                | CloudflareError::Quota { .. }
                | CloudflareError::Upstream { .. } => ModelFault::Away,
                CloudflareError::Configuration { .. } | CloudflareError::NotFound { .. } => {
                    ModelFault::Settings
                }
                CloudflareError::Http(error) => of_call(error),
                CloudflareError::Permanent { .. } | CloudflareError::Malformed(_) => ModelFault::Answer,
            },
            Self::Unreadable(_) => ModelFault::Answer,
        }
    }

    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::OpenAi(error) => error.code(),
            Self::WorkersAi(error) => error.code(),
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// Whether the same question may be answered later without anything else changing.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::OpenAi(error) => error.is_transient(),
            Self::WorkersAi(error) => error.is_transient(),
            Self::Unreadable(_) => true,
        }
    }

    /// When the model wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<RetryAfter> {
        match self {
            Self::OpenAi(error) => error.retry_after(),
            Self::WorkersAi(error) => error.retry_after(),
            Self::Unreadable(_) => None,
        }
    }
}

fn of_call(error: &HttpError) -> ModelFault {
    match error {
        HttpError::Timeout { .. }
        | HttpError::Resolve { .. }
        | HttpError::Connect { .. }
        | HttpError::Tls { .. }
        | HttpError::Proxy { .. }
        | HttpError::Cut { .. }
        | HttpError::BrokenBody { .. }
        | HttpError::Source { .. }
        | HttpError::NoRoots => ModelFault::Away,
        HttpError::Status { .. } if error.is_transient() => ModelFault::Away,
        HttpError::Refused(_) => ModelFault::Settings,
        HttpError::Status { .. }
        | HttpError::TooLarge { .. }
        | HttpError::TooManyRedirects { .. }
        | HttpError::BadRedirect { .. }
        | HttpError::Garbled { .. } => ModelFault::Answer,
    }
}
