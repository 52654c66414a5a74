//! Answers, and refusals as `{"error":{"code","message","details?"}}`.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use windlass_engine::core::error::{Invalid, StoreError};

/// What a call gives: an answer, or a refusal.
pub(crate) type Answered = Result<Response, Refusal>;

/// An answer in JSON.
pub(crate) fn json_answer<T: Serialize>(status: StatusCode, value: &T) -> Answered {
    let text = serde_json::to_vec(value).map_err(|error| {
        tracing::error!(%error, "an answer could not be written as JSON");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", "the answer could not be written")
    })?;
    Ok(with_type(status, "application/json", text.into()))
}

/// 200 in JSON.
pub(crate) fn ok<T: Serialize>(value: &T) -> Answered {
    json_answer(StatusCode::OK, value)
}

/// 204.
pub(crate) fn nothing() -> Answered {
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// An answer of another type.
pub(crate) fn with_type(status: StatusCode, content_type: &'static str, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Why a call was refused. Never holds a payload, a path or a token.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    pub code: &'static str,
    pub message: String,
    pub details: Option<Box<serde_json::Value>>,
    /// In how many seconds to ask again.
    pub retry_after: Option<u32>,
}

/// How a refusal is written. Only its shape is needed: for the document.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Error")]
pub(crate) struct RefusalView {
    error: RefusalBody,
}

/// What went wrong, and what to do next.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ErrorBody")]
struct RefusalBody {
    /// A word that never changes, for programs.
    code: String,
    /// A sentence for people.
    message: String,
    /// What belongs to this refusal, such as the field.
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<serde_json::Map<String, serde_json::Value>>,
}

/// The longest sentence that repeats what a caller wrote.
const MESSAGE_CHARS_MAX: usize = 400;

impl Refusal {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        let mut message: String = message.into();
        if let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX) {
            message.truncate(end);
            message.push('…');
        }
        Self { status, code, message, details: None, retry_after: None }
    }

    /// 400, naming the field.
    pub(crate) fn field(field: &str, why: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid", format!("{field} {why}"))
            .details(json!({ "field": field }))
    }

    pub(crate) fn not_found(what: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", format!("there is no such {what}"))
    }

    pub(crate) fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, code, message)
    }

    pub(crate) fn too_large(field: &str, bytes_max: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_large",
            format!("{field} is larger than {bytes_max} bytes"),
        )
        .details(json!({ "field": field, "bytes_max": bytes_max }))
    }

    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message).retry_after(1)
    }

    pub(crate) fn lease_lost() -> Self {
        Self::conflict(
            "lease_lost",
            "the job is no longer held with this fence; nothing was changed. Stop this attempt",
        )
    }

    pub(crate) fn details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    pub(crate) fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self { status, code, message, details, retry_after } = self;
        let mut error = json!({ "code": code, "message": message });
        if let Some(details) = details {
            error["details"] = *details;
        }
        let body = json!({ "error": error }).to_string();
        let mut response = with_type(status, "application/json", body.into());
        if let Some(seconds) = retry_after {
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self::field(invalid.field, invalid.why)
    }
}

/// What the store says may name files and hosts: that goes into the log, and
/// the caller gets a sentence of ours.
impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let code = error.code();
        let unavailable = |message: &str| {
            tracing::error!(code, error = %error, "the store could not do what it was asked to");
            Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message).retry_after(1)
        };
        match &error {
            StoreError::Conflict(id) => Self::conflict(code, error.to_string()).details(json!({ "id": id })),
            StoreError::Invalid(invalid) => invalid.clone().into(),
            StoreError::Unsupported(_) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, code, error.to_string())
            }
            StoreError::Unavailable(_) => unavailable(
                "the store did not answer; whether anything changed is unknown. Ask again with the same ids",
            ),
            StoreError::Unreachable(_) => {
                unavailable("the store cannot be reached; nothing was changed. Ask again later")
            }
            StoreError::RequestTaken(id) => {
                Self::conflict(code, error.to_string()).details(json!({ "id": id }))
            }
            StoreError::AnotherEpoch(begin) => Self::new(StatusCode::GONE, code, error.to_string())
                .details(json!({ "begin": begin.to_string() })),
            StoreError::Unfit(_) => {
                tracing::error!(code, error = %error, "the store cannot hold a value");
                Self::new(
                    StatusCode::UNPROCESSABLE_ENTITY,
                    code,
                    "the store cannot hold a value; nothing was changed",
                )
            }
            StoreError::Busy(_) => unavailable("the store is busy; nothing was changed. Ask again later"),
            StoreError::Full(_) => unavailable("the store is full; nothing was changed. Ask again later"),
            StoreError::CannotWrite(_) => {
                unavailable("the store cannot write; nothing was changed. Its disk needs room")
            }
            StoreError::Schema(_) | StoreError::InUse(_) | StoreError::Broken(_) => {
                unavailable("the store cannot be used; the server's log says why")
            }
        }
    }
}
