//! Refusals, and how they are written.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde_json::{Value, json};
use windlass_engine::core::error::StoreError;

use super::answer;

/// What a route gives.
pub type Answered = Result<Response, Refusal>;

/// What those get for whom there is no connection left.
pub(super) const CROWDED: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 81\r\n\r\n\
    {\"error\":{\"code\":\"busy\",\"message\":\"Too many connections; try again in a second\"}}";

/// The code of a refusal that could not wait its time.
pub(super) const TOO_MANY_REFUSALS: &str = "too_many_refusals";

/// Why a request was not done.
#[derive(Debug)]
pub struct Refusal {
    /// The status.
    pub status: StatusCode,
    /// A word for programs.
    pub code: &'static str,
    /// A sentence for people: what happened, and what to do next.
    pub message: String,
    /// More for programs, such as the fields that are wrong.
    pub details: Option<Box<Value>>,
    /// What the log is told and the caller is not.
    pub cause: Option<String>,
}

impl Refusal {
    /// A refusal.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), details: None, cause: None }
    }

    /// The same with more for programs.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// The same with what only the log is told.
    #[must_use]
    pub fn caused_by(mut self, cause: impl std::fmt::Display) -> Self {
        self.cause = Some(cause.to_string());
        self
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// 403.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    /// 500; the cause goes to the log.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "Internal server error").caused_by(cause)
    }

    pub(super) fn unauthorized() -> Self {
        let message = "A token is needed: send the header `Authorization: Bearer …`";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub(super) fn too_many_refusals() -> Self {
        let message = "Too many refused tokens at once; come again later";
        Self::new(StatusCode::TOO_MANY_REQUESTS, TOO_MANY_REFUSALS, message)
    }

    pub(super) fn too_large(bytes_max: usize) -> Self {
        let message = format!("The body is larger than {bytes_max} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    pub(super) fn too_slow() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "too_slow", "The body came too slowly")
    }

    pub(super) fn cut_off() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "cut_off", "The body ended before its end")
    }
}

impl IntoResponse for Refusal {
    /// Not the way out: the door writes refusals, so that it can log them.
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        response.extensions_mut().insert(Arc::new(self));
        response
    }
}

/// What a store says may name files: that goes into the log.
impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let unavailable =
            |code, message: &str| Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message).caused_by(&error);
        match error {
            StoreError::Busy(_) => {
                unavailable("busy", "The queue is busy; nothing was changed. Try again later")
            }
            StoreError::Full(_) => {
                unavailable("full", "The queue is full; nothing was changed. Try again later")
            }
            StoreError::CannotWrite(_) => unavailable(
                "cannot_write",
                "The queue file cannot be written; nothing was changed. Its disk needs room",
            ),
            // Whether anything was changed is not known of every one of these.
            _ if error.is_transient() => unavailable("busy", "The queue does not answer. Try again later"),
            _ => Self::internal(&error),
        }
    }
}

/// How an app writes refusals.
pub trait AnswerForm: Send + Sync + 'static {
    /// The refusal in the app's own words: codes that its callers know. The log shows these, too.
    fn in_our_words(&self, refusal: Refusal) -> Refusal {
        refusal
    }

    /// The whole answer. The cause must not be in it.
    fn answer(&self, refusal: Refusal) -> Response;
}

/// `{"error": {"code", "message", "details"?}}`
#[derive(Debug, Clone, Copy)]
pub struct JsonErrors;

impl AnswerForm for JsonErrors {
    fn answer(&self, refusal: Refusal) -> Response {
        let Refusal { status, code, message, details, cause: _ } = refusal;
        let mut error = json!({ "code": code, "message": message });
        if let Some(details) = details {
            error["details"] = *details;
        }
        answer::json(status, &json!({ "error": error }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What passes by itself is no fault of the program: whoever asks comes again, and a balancer asks another.
    #[test]
    fn a_store_that_is_away_is_503() {
        let text = || "canary".to_owned();
        for error in [
            StoreError::Unavailable(text()),
            StoreError::Unreachable(text()),
            StoreError::InUse(text()),
            StoreError::Busy(text()),
            StoreError::Full(text()),
            StoreError::CannotWrite(text()),
        ] {
            let said = error.to_string();
            let refusal = Refusal::from(error);
            assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE, "{said}");
            assert!(!refusal.message.contains("canary"), "{}", refusal.message);
            assert_eq!(refusal.cause.as_deref(), Some(&*said));
        }
        assert_eq!(Refusal::from(StoreError::Broken(text())).status, StatusCode::INTERNAL_SERVER_ERROR);
    }

    #[test]
    fn the_length_of_what_the_crowd_gets_is_right() {
        let text = std::str::from_utf8(CROWDED).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with(&format!("content-length: {}", body.len())), "{}", body.len());
        assert!(serde_json::from_str::<Value>(body).is_ok());
    }
}
