//! What an operator may have done, with the token.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use http::StatusCode;
use serde_json::json;
use windlass_app::door::{Answered, Refusal, json};

use super::Api;
use crate::jobs::{Update, Work};
use crate::operate::{self, Retried};
use crate::status::Status;

pub(super) fn routes() -> Router<Arc<Api>> {
    Router::new()
        .route("/admin/status", get(status))
        .route("/admin/updater/run", post(run_updater))
        .route("/admin/articles/{id}/process", post(process_first))
        .route("/admin/articles/{id}/retry", post(retry))
        .route("/admin/articles/{id}/drop", post(drop_out))
}

/// The door has asked for the token where there is one; without one nobody can prove to be the operator.
fn is_set(api: &Api) -> Result<(), Refusal> {
    match api.settings.admin_token {
        Some(_) => Ok(()),
        None => {
            Err(Refusal::forbidden("ADMIN_TOKEN is not set, so nobody may do this; set it and start again"))
        }
    }
}

async fn status(State(api): State<Arc<Api>>) -> Answered {
    is_set(&api)?;
    let status = Status::look(&api.archive).await.map_err(Refusal::internal)?;
    Ok(json(StatusCode::OK, &status))
}

async fn run_updater(State(api): State<Arc<Api>>) -> Answered {
    is_set(&api)?;
    let job = api.archive.client.enqueue(Update::asked_for()).await?;
    Ok(json(StatusCode::ACCEPTED, &json!({"job": job.id(), "alreadyWaiting": job.is_deduplicated()})))
}

async fn process_first(State(api): State<Arc<Api>>, Path(id): Path<String>) -> Answered {
    is_set(&api)?;
    let entry = api.archive.find(&id).await.map_err(Refusal::internal)?;
    let article = entry.ok_or_else(|| Refusal::not_found("There is no such article"))?.value;
    if article.state.is_over() {
        let message = "The article is over; ask for it to be retried, which begins it anew";
        return Err(Refusal::new(StatusCode::CONFLICT, "over", message));
    }
    let job = api.archive.client.enqueue(Work::first(&article)).await?;
    Ok(json(StatusCode::ACCEPTED, &json!({"job": job.id(), "article": article.id()})))
}

async fn retry(State(api): State<Arc<Api>>, Path(id): Path<String>) -> Answered {
    is_set(&api)?;
    match operate::retry(&api.archive, &id).await.map_err(Refusal::internal)? {
        Retried::Again => Ok(json(StatusCode::ACCEPTED, &json!({"article": id}))),
        Retried::TakenAway => {
            let message = "The article was taken away, and does not come back";
            Err(Refusal::new(StatusCode::CONFLICT, "taken_away", message))
        }
        Retried::Missing => Err(Refusal::not_found("There is no such article")),
    }
}

async fn drop_out(State(api): State<Arc<Api>>, Path(id): Path<String>) -> Answered {
    is_set(&api)?;
    match operate::drop_out(&api.archive, &id).await.map_err(Refusal::internal)? {
        true => Ok(json(StatusCode::OK, &json!({"article": id}))),
        false => Err(Refusal::not_found("There is no such article")),
    }
}
