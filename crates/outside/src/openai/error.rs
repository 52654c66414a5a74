//! What can become of a call to OpenAI.

use serde::Deserialize;

use crate::retry_after::RetryAfter;
use crate::safe_http::{HttpError, status_is_transient};
use crate::text::identifier;

/// Why a call gave no answer. The texts hold codes only: what a provider
/// writes about an error may repeat what it was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenAiError {
    /// The key is wrong or may not do this. No retry helps; nobody should burn attempts on it.
    #[error("OpenAI did not accept the key (status {status}, {code}); check the key and its project")]
    Configuration {
        /// The status code.
        status: u16,
        /// OpenAI's code, or `none`.
        code: String,
    },
    /// There is no such model, or nothing at that address. No retry helps here either.
    #[error("OpenAI does not know the model, or the address (status {status}, {code}); check both settings")]
    NoSuchModel {
        /// The status code.
        status: u16,
        /// OpenAI's code, or `none`.
        code: String,
    },
    /// Too many requests or tokens in too short a time.
    #[error("OpenAI's rate limit is reached; ask again later")]
    RateLimit {
        /// When to ask again, if it said so.
        retry_after: Option<RetryAfter>,
    },
    /// The account has no money left.
    #[error("the OpenAI account's quota is used up; check its plan and billing")]
    Quota,
    /// OpenAI will never accept this request.
    #[error("OpenAI refuses this request (status {status}, {code})")]
    Permanent {
        /// The status code.
        status: u16,
        /// OpenAI's code, or `none`.
        code: String,
    },
    /// OpenAI is in trouble.
    #[error("OpenAI answered with status {status}; ask again later")]
    Upstream {
        /// The status code.
        status: u16,
        /// When to ask again, if it said so.
        retry_after: Option<RetryAfter>,
    },
    /// The model declined to answer.
    #[error("the model declined to answer")]
    Refusal,
    /// The answer reached the token limit before its end.
    #[error("the model's answer was cut off at its token limit; allow it more, or ask for less")]
    Truncated,
    /// The content filter stopped the answer.
    #[error("OpenAI's content filter stopped the answer")]
    Filtered,
    /// The answer is not in the form that was asked for.
    #[error("OpenAI's answer is not in the expected form: {0}")]
    Malformed(&'static str),
    /// The call failed before an answer came.
    #[error(transparent)]
    Http(#[from] HttpError),
}

impl OpenAiError {
    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Configuration { .. } => "configuration",
            Self::NoSuchModel { .. } => "no_such_model",
            Self::RateLimit { .. } => "rate_limit",
            Self::Quota => "insufficient_quota",
            Self::Permanent { .. } => "permanent",
            Self::Upstream { .. } => "upstream",
            Self::Refusal => "refusal",
            Self::Truncated => "truncated",
            Self::Filtered => "filtered",
            Self::Malformed(_) => "malformed",
            Self::Http(error) => error.code(),
        }
    }

    /// Whether the same call may succeed later without anything else
    /// changing. A malformed answer counts: the next one may be well formed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::RateLimit { .. } | Self::Upstream { .. } | Self::Malformed(_) => true,
            Self::Http(error) => error.is_transient(),
            Self::Configuration { .. }
            | Self::NoSuchModel { .. }
            | Self::Quota
            | Self::Permanent { .. }
            | Self::Refusal
            | Self::Truncated
            | Self::Filtered => false,
        }
    }

    /// When OpenAI wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<RetryAfter> {
        match self {
            Self::RateLimit { retry_after } | Self::Upstream { retry_after, .. } => *retry_after,
            Self::Http(error) => error.retry_after(),
            _ => None,
        }
    }

    /// Reads an answer whose status is not a success.
    pub(super) fn of(status: u16, retry_after: Option<RetryAfter>, body: &[u8]) -> Self {
        let found =
            serde_json::from_slice::<Envelope>(body).map(|envelope| envelope.error).unwrap_or_default();
        let word = |text: &Option<String>| text.as_deref().and_then(identifier).map(str::to_owned);
        let (kind, code) = (word(&found.kind), word(&found.code));
        let is = |name: &str| kind.as_deref() == Some(name) || code.as_deref() == Some(name);
        let code = || code.clone().or_else(|| kind.clone()).unwrap_or_else(|| "none".to_owned());
        match status {
            401 | 403 => Self::Configuration { status, code: code() },
            _ if is("insufficient_quota") => Self::Quota,
            404 => Self::NoSuchModel { status, code: code() },
            _ if is(super::MODEL_NOT_FOUND) => Self::NoSuchModel { status, code: code() },
            429 => Self::RateLimit { retry_after },
            _ if status_is_transient(status) => Self::Upstream { status, retry_after },
            _ => Self::Permanent { status, code: code() },
        }
    }
}

#[derive(Deserialize)]
struct Envelope {
    error: Found,
}

#[derive(Deserialize, Default)]
struct Found {
    #[serde(rename = "type", default)]
    kind: Option<String>,
    #[serde(default)]
    code: Option<String>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(status: u16, body: &str, expected: &str, transient: bool) {
        let error = OpenAiError::of(status, None, body.as_bytes());
        assert_eq!((error.code(), error.is_transient()), (expected, transient), "{status} {body}");
    }

    #[test]
    fn every_kind_of_answer() {
        let body = |kind: &str, code: &str| {
            format!(r#"{{"error":{{"message":"m","type":"{kind}","code":"{code}"}}}}"#)
        };
        check(401, &body("invalid_request_error", "invalid_api_key"), "configuration", false);
        check(403, "", "configuration", false);
        check(429, &body("insufficient_quota", "insufficient_quota"), "insufficient_quota", false);
        check(429, &body("requests", "rate_limit_exceeded"), "rate_limit", true);
        check(429, "not json", "rate_limit", true);
        check(400, &body("invalid_request_error", ""), "permanent", false);
        check(404, &body("invalid_request_error", "model_not_found"), "no_such_model", false);
        check(404, "<html>", "no_such_model", false);
        check(400, &body("invalid_request_error", "model_not_found"), "no_such_model", false);
        check(413, &body("server_error", ""), "permanent", false);
        check(500, "<html>", "upstream", true);
        check(503, r#"{"error":null}"#, "upstream", true);
        let after = Some(RetryAfter::Delay(Duration::from_secs(7)));
        assert_eq!(OpenAiError::of(429, after, b"").retry_after(), after);
    }

    #[test]
    fn a_sentence_in_a_code_is_not_repeated() {
        let error = OpenAiError::of(400, None, br#"{"error":{"code":"the patient canary said"}}"#);
        assert_eq!(error.to_string(), "OpenAI refuses this request (status 400, none)");
    }
}
