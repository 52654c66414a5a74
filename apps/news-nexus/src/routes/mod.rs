//! The routes, one file for each subdomain.

mod queue_info;
mod request_google_rss;
mod semantic_scorer;
mod start_job;
mod state_assigner;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use http::{Method, StatusCode, Uri};
use serde_json::json;

use crate::answer::{Refusal, answer};
use crate::http::Api;

const SERVICE: &str = "worker-node";

/// The longest part of a path that an answer repeats.
const PATH_CHARS_MAX: usize = 200;

/// All routes.
pub(crate) fn all(api: &Arc<Api>) -> Router {
    let up = || async { answer(StatusCode::OK, &json!({"service": SERVICE, "status": "up"})) };
    let ok = || async { answer(StatusCode::OK, &json!({"status": "ok", "service": SERVICE})) };
    Router::new()
        .route("/", get(up))
        .route("/health", get(ok))
        .merge(queue_info::routes())
        .merge(request_google_rss::routes())
        .merge(semantic_scorer::routes())
        .merge(state_assigner::routes())
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(api.clone())
}

async fn unknown(method: Method, uri: Uri) -> Refusal {
    let path: String = uri.path().chars().take(PATH_CHARS_MAX).collect();
    Refusal::not_found(format!("Route not found: {method} {path}"))
}
