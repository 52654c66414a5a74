//! Which sites' pages may read the feed.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ORIGIN, VARY,
};
use http::{HeaderValue, Method, StatusCode};

use super::Api;

const EXPOSED: &str = "ETag, Cache-Control, X-Cache-Status, X-Data-Source, X-Last-Updated, X-Cache-TTL";

/// Answers say whether the asking site is on the list, and that they depend on who asks.
pub(super) async fn allow(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let origin = request.headers().get(ORIGIN).cloned();
    let is_asked_before = request.method() == Method::OPTIONS;
    let mut response = if is_asked_before {
        let mut response = Response::default();
        *response.status_mut() = StatusCode::NO_CONTENT;
        response
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    headers.append(VARY, HeaderValue::from_static("Origin"));
    let on_list =
        |origin: &HeaderValue| api.settings.origins.iter().any(|one| one.as_bytes() == origin.as_bytes());
    if let Some(origin) = origin.filter(on_list) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        if is_asked_before {
            headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD, OPTIONS"));
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type"));
            headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
        }
    }
    response
}
