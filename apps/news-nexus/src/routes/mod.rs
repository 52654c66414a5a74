//! The routes, one file for each subdomain.

pub(crate) mod queue_info;
mod request_google_rss;
mod semantic_scorer;
mod start_job;
mod state_assigner;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use http::{Method, StatusCode, Uri};
use serde_json::json;
use windlass_engine::Client;
use windlass_engine::world::World;

use crate::answer::{Answered, Refusal, answer};
use crate::job_files::JobFiles;
use crate::settings::Settings;

const SERVICE: &str = "worker-node";

/// The longest part of a path that an answer repeats.
const PATH_CHARS_MAX: usize = 200;

/// What the routes work with.
pub(crate) struct Api {
    pub client: Client,
    pub settings: Settings,
    pub files: JobFiles,
    pub world: Arc<dyn World>,
}

/// All routes.
pub(crate) fn all(api: &Arc<Api>) -> Router {
    let up = || async { answer(StatusCode::OK, &json!({"service": SERVICE, "status": "up"})) };
    Router::new()
        .route("/", get(up))
        .merge(queue_info::routes())
        .merge(request_google_rss::routes())
        .merge(semantic_scorer::routes())
        .merge(state_assigner::routes())
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(api.clone())
}

/// The process answers.
pub(crate) async fn health() -> Answered {
    Ok(answer(StatusCode::OK, &json!({"status": "ok", "service": SERVICE})))
}

/// Its queue answers, too.
pub(crate) async fn ready(api: Arc<Api>) -> Answered {
    api.client.store().now().await?;
    Ok(answer(StatusCode::OK, &json!({"status": "ready", "service": SERVICE})))
}

async fn unknown(method: Method, uri: Uri) -> Refusal {
    let path: String = uri.path().chars().take(PATH_CHARS_MAX).collect();
    Refusal::not_found(format!("Route not found: {method} {path}"))
}
