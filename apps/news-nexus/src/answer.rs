//! How refusals are written here: `{"error": {"code", "message", "status", "details"?}}`.

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use windlass_app::door::AnswerForm;
pub(crate) use windlass_app::door::{Answered, Refusal, json as answer};

/// What those get for whom there is no connection left.
pub(crate) const CROWDED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 109\r\n\r\n\
    {\"error\":{\"code\":\"SERVICE_UNAVAILABLE\",\"message\":\"Too many connections; try again in a second\",\"status\":503}}";

/// 400 with one entry for each field that is wrong.
pub(crate) fn invalid(fields: &[(String, String)]) -> Refusal {
    let details = fields.iter().map(|(field, message)| json!({"field": field, "message": message}));
    let message = "Request validation failed";
    Refusal::new(StatusCode::BAD_REQUEST, "VALIDATION_ERROR", message).with_details(details.collect())
}

/// 400 for one field.
pub(crate) fn invalid_field(field: &str, message: &str) -> Refusal {
    invalid(&[(field.to_owned(), message.to_owned())])
}

pub(crate) fn conflict(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, "CONFLICT", message)
}

/// The codes that callers of the program before this one know.
pub(crate) struct Errors {
    /// The cause is shown to developers.
    pub development: bool,
}

impl AnswerForm for Errors {
    fn in_our_words(&self, refusal: Refusal) -> Refusal {
        let code = match refusal.code {
            "not_found" => "NOT_FOUND",
            "forbidden" => "FORBIDDEN",
            "unauthorized" => "AUTH_FAILED",
            "too_many_refusals" => "TOO_MANY_REQUESTS",
            "too_large" => "PAYLOAD_TOO_LARGE",
            "too_slow" => "REQUEST_TIMEOUT",
            "cut_off" => return invalid_field("body", "ended before its end"),
            "internal" => "INTERNAL_ERROR",
            "busy" | "full" | "cannot_write" => "SERVICE_UNAVAILABLE",
            ours => ours,
        };
        Refusal { code, ..refusal }
    }

    fn answer(&self, refusal: Refusal) -> Response {
        let Refusal { status, code, message, details, cause } = refusal;
        let mut error = json!({"code": code, "message": message, "status": status.as_u16()});
        let cause = cause.filter(|_| self.development);
        let shown = cause.map(|cause| Box::new(Value::String(without_paths(&cause))));
        if let Some(details) = details.or(shown) {
            error["details"] = *details;
        }
        answer(status, &json!({ "error": error }))
    }
}

/// A text with an ellipsis in place of every word that could be a path.
fn without_paths(text: &str) -> String {
    let words = text.split(' ').map(|word| if word.contains(['/', '\\']) { "…" } else { word });
    words.collect::<Vec<_>>().join(" ")
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
