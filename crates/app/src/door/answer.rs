//! Answers.

use axum::body::Body;
use axum::response::Response;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use serde::Serialize;

/// JSON.
pub fn json<T: Serialize + ?Sized>(status: StatusCode, body: &T) -> Response {
    let body = serde_json::to_vec(body).unwrap_or_default();
    answer(status, "application/json; charset=utf-8", body)
}

/// Text of some type.
pub fn text(status: StatusCode, content_type: &'static str, body: impl Into<String>) -> Response {
    answer(status, content_type, body.into().into_bytes())
}

/// Counts, in the text form of Prometheus.
pub fn metrics_text(body: String) -> Response {
    text(StatusCode::OK, "text/plain; version=0.0.4", body)
}

fn answer(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
