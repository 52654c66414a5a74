//! The door: page, API, metrics, health.

mod listeners;
mod questions;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::routing::{get, post};
use http::StatusCode;
use tokio::net::TcpListener;
use windlass_app::door::{Door, Page, Refusal, json};
use windlass_app::{AppError, Stop};

use crate::context::Context;
use crate::office::OfficeError;
use crate::report;
use crate::settings::DoorSettings;

type Rooms = Arc<Context>;

/// How all listeners do, live.
const LISTENERS: Page = Page {
    path: "/listener",
    html: include_str!("../../assets/page.html"),
    script: ("/listener/page.js", include_str!("../../assets/page.js")),
    style: ("/listener/page.css", include_str!("../../assets/page.css")),
};

/// Serves until it is told to end.
pub(crate) async fn serve(
    context: Rooms,
    door: DoorSettings,
    socket: TcpListener,
    told: Stop,
) -> Result<(), AppError> {
    let routes = Router::new()
        .route("/healthz", get(questions::health))
        .route("/status", get(questions::status))
        .route("/gaps", get(questions::gaps))
        .route("/dead", get(questions::dead))
        .route("/locks", get(questions::locks))
        .route("/documents/{id}", get(questions::document))
        .route("/retry", post(questions::retry))
        .route("/listeners", get(listeners::list).post(listeners::add))
        .route("/listeners/{id}", get(listeners::show).patch(listeners::edit).delete(listeners::remove))
        .route("/listeners/{id}/pause", post(listeners::pause))
        .route("/listeners/{id}/resume", post(listeners::resume))
        .route("/listeners/{id}/replay", post(listeners::replay))
        .with_state(context.clone());
    let (alive, asked, metered) = (context.clone(), context.clone(), context.clone());
    let built = Door::new(routes, context.home.world.clone())
        .token(door.token.as_ref())
        .health(move || questions::health(State(alive.clone())))
        .ready(move || questions::ready(State(asked.clone())))
        .metrics(move || {
            let context = metered.clone();
            async move { Ok(context.metrics.text(&report::gauges(&context))) }
        });
    let open = ["/health", "/healthz", "/readyz"];
    let built = open.into_iter().fold(built.page(LISTENERS), Door::open_to_all);
    built.serve(socket, told.wait()).await?;
    Ok(())
}

/// What an office says, as an answer.
fn refused(error: OfficeError) -> Refusal {
    match error {
        OfficeError::Refused(wrong) => {
            let details = serde_json::json!({ "problems": wrong });
            Refusal::new(StatusCode::BAD_REQUEST, "invalid", wrong.join("; ")).with_details(details)
        }
        OfficeError::NotFound(what) => Refusal::not_found(what),
        OfficeError::Database(error) => database(error),
    }
}

fn database(error: mongodb::error::Error) -> Refusal {
    let message = "MongoDB does not answer, or refuses; nothing is known of what was asked. Try again later";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "database", message).caused_by(&error.kind)
}

fn ok(value: &serde_json::Value) -> axum::response::Response {
    json(StatusCode::OK, value)
}
