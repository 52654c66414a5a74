//! Answers, and how a refusal is written.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_engine::core::error::StoreError;

/// What a handler gives.
pub(crate) type Answered = Result<Response, Refusal>;

/// A refusal: `{"error": {"code", "message", "status", "details"?}}`.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub code: &'static str,
    message: String,
    details: Option<Box<Value>>,
    /// What the log is told and the caller is not, except in development.
    pub cause: Option<String>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), details: None, cause: None }
    }

    /// 400 with one entry for each field that is wrong.
    pub(crate) fn invalid(fields: &[(String, String)]) -> Self {
        let details = fields.iter().map(|(field, message)| json!({"field": field, "message": message}));
        let details = Some(Box::new(details.collect()));
        let message = "Request validation failed";
        Self { details, ..Self::new(StatusCode::BAD_REQUEST, "VALIDATION_ERROR", message) }
    }

    /// 400 for one field.
    pub(crate) fn field(field: &str, message: &str) -> Self {
        Self::invalid(&[(field.to_owned(), message.to_owned())])
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    }

    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "CONFLICT", message)
    }

    /// 500; the cause goes to the log.
    pub(crate) fn internal(cause: impl std::fmt::Display) -> Self {
        let refusal = Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL_ERROR", "Internal server error");
        Self { cause: Some(cause.to_string()), ..refusal }
    }

    /// The answer; the cause is shown only to developers.
    pub(crate) fn into_answer(self, development: bool) -> Response {
        let Self { status, code, message, details, cause } = self;
        let mut error = json!({"code": code, "message": message, "status": status.as_u16()});
        let shown = cause.filter(|_| development).map(|cause| Box::new(Value::String(without_paths(&cause))));
        if let Some(details) = details.or(shown) {
            error["details"] = *details;
        }
        answer(status, &json!({ "error": error }))
    }
}

impl IntoResponse for Refusal {
    /// Not the way out: [`crate::http`] writes refusals, so that it can log them.
    fn into_response(self) -> Response {
        let status = self.status;
        let mut response = status.into_response();
        response.extensions_mut().insert(std::sync::Arc::new(self));
        response
    }
}

/// What a store says may name files: that goes into the log.
impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let unavailable = |message: &str| {
            let refusal = Self::new(StatusCode::SERVICE_UNAVAILABLE, "SERVICE_UNAVAILABLE", message);
            Self { cause: Some(error.to_string()), ..refusal }
        };
        match error {
            StoreError::Busy(_) => unavailable("The queue is busy; nothing was changed. Try again later"),
            StoreError::Full(_) => unavailable("The queue is full; nothing was changed. Try again later"),
            StoreError::CannotWrite(_) => {
                unavailable("The queue file cannot be written; nothing was changed. Its disk needs room")
            }
            _ => Self::internal(&error),
        }
    }
}

/// A text with an ellipsis in place of every word that could be a path.
fn without_paths(text: &str) -> String {
    let words = text.split(' ').map(|word| if word.contains(['/', '\\']) { "…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// A JSON answer.
pub(crate) fn answer<T: Serialize>(status: StatusCode, body: &T) -> Response {
    let body = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn developers_see_the_cause_and_no_path() {
        let cause = "cannot write beside /srv/news/runtime/q.json: No space left";
        assert_eq!(without_paths(cause), "cannot write beside … No space left");
        assert_eq!(without_paths("scorer/model is gone"), "… is gone");
    }
}
