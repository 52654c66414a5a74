//! What can become of a call to Etsy.

use std::time::Duration;

use serde_json::Value;

use super::quota::Quota;
use crate::retry_after::RetryAfter;
use crate::safe_http::{HttpError, status_is_transient};
use crate::text::cut;

/// How much of Etsy's own words is kept for the seller.
const SAID_BYTES_MAX: usize = 500;
/// A wait that is longer than this is one for the day's limit.
const SECOND_WAIT_MAX: Duration = Duration::from_secs(120);

/// Which limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Calls of one second.
    Second,
    /// Calls of 24 hours.
    Day,
}

/// Why a call gave no answer. `said` is Etsy's own sentence: it is for the seller whose listing it is about, and
/// stands in no text of an error, which may reach a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EtsyError {
    /// The access token has run out, or is none of this seller's.
    #[error("Etsy did not accept the access token")]
    Unauthorized,
    /// The refresh token is revoked, used up or too old: only the seller can help.
    #[error("Etsy took back its consent: connect the shop again")]
    Revoked {
        /// Etsy's own words.
        said: String,
    },
    /// The app or the consent does not cover this.
    #[error("Etsy forbids this call (status 403): check the app's key and the scopes of the consent")]
    Forbidden {
        /// Etsy's own words.
        said: String,
    },
    /// There is no such thing, not any more.
    #[error("Etsy does not have what was asked for")]
    NotFound {
        /// Etsy's own words.
        said: String,
    },
    /// Etsy will never accept this call as it is.
    #[error("Etsy refuses this call (status {status})")]
    Refused {
        /// The status code.
        status: u16,
        /// Etsy's own words.
        said: String,
    },
    /// A limit is reached.
    #[error("Etsy's limit of calls is reached")]
    RateLimit {
        /// Which one.
        window: Window,
        /// When to ask again, if it said so.
        retry_after: Option<RetryAfter>,
    },
    /// Etsy is in trouble.
    #[error("Etsy answered with status {status}; ask again later")]
    Upstream {
        /// The status code.
        status: u16,
    },
    /// The answer cannot be understood.
    #[error("Etsy's answer cannot be read: {0}")]
    Malformed(&'static str),
    /// The call failed.
    #[error(transparent)]
    Http(#[from] HttpError),
}

impl EtsyError {
    pub(super) fn of(status: u16, retry_after: Option<RetryAfter>, quota: Quota, body: &[u8]) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = body["error"].as_str().unwrap_or_default();
        let said = said(body["error_description"].as_str().unwrap_or(error));
        match status {
            401 => Self::Unauthorized,
            _ if error == "invalid_grant" => Self::Revoked { said },
            403 => Self::Forbidden { said },
            404 => Self::NotFound { said },
            429 => Self::RateLimit { window: window(retry_after, quota, error), retry_after },
            _ if status_is_transient(status) => Self::Upstream { status },
            _ => Self::Refused { status, said },
        }
    }

    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unauthorized => "unauthorized",
            Self::Revoked { .. } => "revoked",
            Self::Forbidden { .. } => "forbidden",
            Self::NotFound { .. } => "not_found",
            Self::Refused { .. } => "refused",
            Self::RateLimit { window: Window::Second, .. } => "second_limit",
            Self::RateLimit { window: Window::Day, .. } => "day_limit",
            Self::Upstream { .. } => "upstream",
            Self::Malformed(_) => "malformed",
            Self::Http(error) => error.code(),
        }
    }

    /// Whether the same call may succeed later without anything else changing.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::RateLimit { .. } | Self::Upstream { .. } | Self::Malformed(_) => true,
            Self::Http(error) => error.is_transient(),
            Self::Unauthorized
            | Self::Revoked { .. }
            | Self::Forbidden { .. }
            | Self::NotFound { .. }
            | Self::Refused { .. } => false,
        }
    }

    /// Etsy's own words, for the seller.
    pub fn said(&self) -> Option<&str> {
        match self {
            Self::Revoked { said }
            | Self::Forbidden { said }
            | Self::NotFound { said }
            | Self::Refused { said, .. } => Some(said).filter(|said| !said.is_empty()).map(String::as_str),
            _ => None,
        }
    }
}

/// Which limit a 429 is about: the head tells, where it does; a long wait is one for the day.
fn window(retry_after: Option<RetryAfter>, quota: Quota, error: &str) -> Window {
    let long = match retry_after {
        Some(RetryAfter::Delay(delay)) => delay > SECOND_WAIT_MAX,
        Some(RetryAfter::At(_)) | None => false,
    };
    let day = quota.left_today == Some(0) || long || error.contains("daily");
    if day { Window::Day } else { Window::Second }
}

/// Words of somebody else's that may be shown: one line, not too long.
fn said(text: &str) -> String {
    cut(text, SAID_BYTES_MAX).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, retry_after: Option<u64>, left_today: Option<u32>, body: &str) -> EtsyError {
        let retry_after = retry_after.map(|seconds| RetryAfter::Delay(Duration::from_secs(seconds)));
        EtsyError::of(status, retry_after, Quota { left_today, ..Quota::default() }, body.as_bytes())
    }

    #[test]
    fn a_429_is_of_the_second_or_of_the_day() {
        for (retry_after, left_today, body, code) in [
            (None, None, "", "second_limit"),
            (Some(1), Some(500), r#"{"error":"Exceeded per second rate limit"}"#, "second_limit"),
            (Some(86_400), None, "", "day_limit"),
            (None, Some(0), "", "day_limit"),
            (None, None, r#"{"error":"Exceeded daily rate limit"}"#, "day_limit"),
            (Some(120), None, "<html>", "second_limit"),
        ] {
            assert_eq!(of(429, retry_after, left_today, body).code(), code, "{retry_after:?} {body}");
        }
    }

    #[test]
    fn the_sellers_text_is_kept_and_not_printed() {
        let refused = of(400, None, None, "{\"error\":\"The title canary\\nis too long\"}");
        assert_eq!(refused.said(), Some("The title canary is too long"));
        assert!(!refused.to_string().contains("canary"));
        let revoked = r#"{"error":"invalid_grant","error_description":"refresh_token is revoked"}"#;
        assert_eq!(of(400, None, None, revoked).said(), Some("refresh_token is revoked"));
        assert_eq!(of(503, None, None, "<html>").code(), "upstream");
        assert_eq!(of(401, None, None, r#"{"error":"invalid_token"}"#).code(), "unauthorized");
    }
}
