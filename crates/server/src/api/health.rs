//! Is it alive, and can it work?

use axum::body::Body;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use windlass_engine::core::time::Time;

use crate::answer::{Answered, Refusal, ok, with_type};
use crate::ask::Ask;
use crate::schema::Moment;

/// The longest that the store may take to say what time it is.
const READY_MS: u64 = 2_000;

/// How it is.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Health")]
pub(crate) struct HealthView {
    status: &'static str,
}

/// `GET /healthz`: the process answers.
pub(crate) async fn healthz(_: Ask) -> Answered {
    ok(&HealthView { status: "ok" })
}

/// `GET /readyz`: the store answers, too, and the server is not stopping.
pub(crate) async fn readyz(ask: Ask) -> Answered {
    if *ask.api.stop.borrow() {
        return Err(Refusal::busy("the server is stopping"));
    }
    tokio::select! {
        now = ask.api.now() => now.map(drop)?,
        () = ask.api.world.sleep_ms(READY_MS) => return Err(Refusal::busy("the store does not answer")),
    }
    ok(&HealthView { status: "ready" })
}

/// What contradicts itself.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Audit")]
pub(crate) struct AuditView {
    findings: Vec<String>,
}

/// `GET /v1/audit`
pub(crate) async fn audit(ask: Ask) -> Answered {
    ok(&AuditView { findings: ask.api.store.audit().await? })
}

/// What time it is.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Now")]
pub(crate) struct NowView {
    #[schemars(with = "Moment")]
    at: Time,
}

/// `GET /v1/now`
pub(crate) async fn now(ask: Ask) -> Answered {
    ok(&NowView { at: ask.api.now().await? })
}

/// `GET /metrics`
pub(crate) async fn metrics(ask: Ask) -> Answered {
    let text = crate::metrics::write(&ask.api).await?;
    Ok(with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", Body::from(text)))
}

/// `GET /openapi.json`
pub(crate) async fn openapi(_: Ask) -> Answered {
    Ok(with_type(StatusCode::OK, "application/json", Body::from(crate::openapi::document())))
}
