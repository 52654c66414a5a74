//! `/semantic-scorer/`

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use bytes::Bytes;
use serde_json::json;

use super::Api;
use super::start_job::{accept, object, require_file, require_folder, unknown_fields};
use crate::answer::{Answered, invalid};
use crate::jobs::semantic_scorer::{JOB, KEYWORDS_FILE};

pub(super) fn routes() -> Router<Arc<Api>> {
    Router::new().route(JOB.endpoint, post(start_job))
}

async fn start_job(State(api): State<Arc<Api>>, body: Bytes) -> Answered {
    let wrong = unknown_fields(&object(&body)?, &[]);
    if !wrong.is_empty() {
        return Err(invalid(&wrong));
    }
    let folder = &api.settings.scorer_folder;
    require_folder(folder, "Semantic scorer folder", "PATH_TO_SEMANTIC_SCORER_DIR")?;
    let what = format!("Keywords workbook {KEYWORDS_FILE}");
    require_file(&folder.join(KEYWORDS_FILE), &what, "PATH_TO_SEMANTIC_SCORER_DIR")?;
    accept(&api, &JOB, json!({})).await
}
