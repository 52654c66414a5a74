//! The four documents, for whoever knows the token; for programs of this machine, where there is none.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::get;
use http::StatusCode;
use windlass_app::door::{Answered, Refusal, json};

use super::Api;
use crate::documents;

pub(super) fn routes() -> Router<Arc<Api>> {
    Router::new().route("/kv/{key}", get(document))
}

async fn document(State(api): State<Arc<Api>>, Path(key): Path<String>) -> Answered {
    match documents::get(&api.archive, &key).await.map_err(Refusal::internal)? {
        Some(document) => Ok(json(StatusCode::OK, &document)),
        None => Err(Refusal::not_found(
            "There is no such key; there are BTC_PENDING_LIST, BTC_CHECKPOINT, BTC_ID_INDEX and article:<id>",
        )),
    }
}
