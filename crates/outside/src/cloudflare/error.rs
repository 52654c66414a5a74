//! What can become of a call to Cloudflare.

use serde_json::Value;

use crate::retry_after::RetryAfter;
use crate::safe_http::{HttpError, status_is_transient};

/// Why a call gave no answer. The texts hold numbers only: what is written about an error may repeat what was
/// sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloudflareError {
    /// The token is wrong or may not do this, or the account is blocked. No retry helps.
    #[error(
        "Cloudflare did not accept the token (status {status}, code {code}); check the token and its permissions"
    )]
    Configuration {
        /// The status code.
        status: u16,
        /// Cloudflare's code, or 0.
        code: u64,
    },
    /// There is no such account, model or namespace.
    #[error(
        "Cloudflare does not know what was asked for (status {status}, code {code}); check the account and the names in the settings"
    )]
    NotFound {
        /// The status code.
        status: u16,
        /// Cloudflare's code, or 0.
        code: u64,
    },
    /// Too many calls in too short a time, or no capacity for one more.
    #[error("Cloudflare's rate limit is reached; ask again later")]
    RateLimit {
        /// When to ask again, if it said so.
        retry_after: Option<RetryAfter>,
    },
    /// What the plan allows for a day is used up. It begins again at midnight UTC.
    #[error("the day's allowance at Cloudflare is used up; ask again after midnight UTC, or check the plan")]
    Quota {
        /// When to ask again, if it said so.
        retry_after: Option<RetryAfter>,
    },
    /// Cloudflare will never accept this request.
    #[error("Cloudflare refuses this request (status {status}, code {code})")]
    Permanent {
        /// The status code.
        status: u16,
        /// Cloudflare's code, or 0.
        code: u64,
    },
    /// Cloudflare is in trouble.
    #[error("Cloudflare answered with status {status}; ask again later")]
    Upstream {
        /// The status code.
        status: u16,
        /// When to ask again, if it said so.
        retry_after: Option<RetryAfter>,
    },
    /// The answer is not in the form that was expected.
    #[error("Cloudflare's answer is not in the expected form: {0}")]
    Malformed(&'static str),
    /// The call failed before an answer came.
    #[error(transparent)]
    Http(#[from] HttpError),
}

/// Authentication and permissions.
const TOKEN: [u64; 8] = [9106, 9109, 10_000, 10_001, 3023, 5016, 5018, 6003];
/// No such model, namespace, account or route.
const NOT_FOUND: [u64; 5] = [5007, 7000, 7003, 10_011, 10_013];
/// The day's neurons of Workers AI, and the day's operations of Workers KV.
const QUOTA: [u64; 2] = [3036, 10_048];
/// Words that tell a day's quota from a moment's limit where the code does not.
const QUOTA_WORDS: [&str; 5] = ["daily", "free usage limit", "free allocation", "limit for today", "quota"];

impl CloudflareError {
    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Configuration { .. } => "configuration",
            Self::NotFound { .. } => "not_found",
            Self::RateLimit { .. } => "rate_limit",
            Self::Quota { .. } => "quota",
            Self::Permanent { .. } => "permanent",
            Self::Upstream { .. } => "upstream",
            Self::Malformed(_) => "malformed",
            Self::Http(error) => error.code(),
        }
    }

    /// Whether the same call may succeed later without anything else changing.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::RateLimit { .. } | Self::Quota { .. } | Self::Upstream { .. } | Self::Malformed(_) => true,
            Self::Http(error) => error.is_transient(),
            Self::Configuration { .. } | Self::NotFound { .. } | Self::Permanent { .. } => false,
        }
    }

    /// Whether Cloudflare said no: then it has done nothing, and counts nothing.
    pub fn is_refusal(&self) -> bool {
        match self {
            Self::Configuration { .. }
            | Self::NotFound { .. }
            | Self::RateLimit { .. }
            | Self::Quota { .. }
            | Self::Permanent { .. } => true,
            Self::Upstream { .. } | Self::Malformed(_) | Self::Http(_) => false,
        }
    }

    /// When Cloudflare wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<RetryAfter> {
        match self {
            Self::RateLimit { retry_after }
            | Self::Quota { retry_after }
            | Self::Upstream { retry_after, .. } => *retry_after,
            Self::Http(error) => error.retry_after(),
            _ => None,
        }
    }

    /// Reads an answer that is not a success.
    pub(super) fn of(status: u16, retry_after: Option<RetryAfter>, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &body["errors"][0];
        let code = error["code"].as_u64().unwrap_or_default();
        let text = error["message"].as_str().unwrap_or_default().to_ascii_lowercase();
        let says_quota = QUOTA_WORDS.iter().any(|word| text.contains(word));
        match status {
            _ if QUOTA.contains(&code) => Self::Quota { retry_after },
            429 if says_quota => Self::Quota { retry_after },
            429 => Self::RateLimit { retry_after },
            _ if NOT_FOUND.contains(&code) => Self::NotFound { status, code },
            401 | 403 => Self::Configuration { status, code },
            _ if TOKEN.contains(&code) => Self::Configuration { status, code },
            404 => Self::NotFound { status, code },
            _ if status_is_transient(status) => Self::Upstream { status, retry_after },
            _ => Self::Permanent { status, code },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_answer() {
        let check = |status, code: u64, message: &str, expected: &str| {
            let body = format!(r#"{{"success":false,"errors":[{{"code":{code},"message":"{message}"}}]}}"#);
            let error = CloudflareError::of(status, None, body.as_bytes());
            assert_eq!(error.code(), expected, "{status} {code}");
            assert!(!error.to_string().contains("canary"));
        };
        check(401, 10_000, "canary", "configuration");
        check(400, 9106, "canary", "configuration");
        check(403, 5018, "canary", "configuration");
        check(400, 5007, "canary", "not_found");
        check(404, 10_013, "canary", "not_found");
        check(429, 3036, "canary", "quota");
        check(429, 10_048, "canary", "quota");
        check(429, 0, "canary: daily limit", "quota");
        check(429, 3040, "canary: no capacity", "rate_limit");
        check(429, 971, "canary", "rate_limit");
        check(408, 3007, "canary", "upstream");
        check(500, 0, "canary", "upstream");
        check(400, 5004, "canary", "permanent");
        check(413, 3006, "canary", "permanent");
        check(200, 7777, "canary", "permanent");
        assert_eq!(CloudflareError::of(502, None, b"<html>").code(), "upstream");
    }
}
