//! What a running attempt writes: outputs of its steps, and how far it is.

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_engine::core::json::{PROGRESS_BYTES_MAX, STEP_BYTES_MAX};
use windlass_engine::core::step::STEPS_MAX;
use windlass_engine::core::store::{ProgressWrite, StepWrite, Written};
use windlass_report::schema::{AnyJson, TicketText};

use super::gated;
use super::leases::checked;
use crate::answer::{Answered, Refusal, ok};
use crate::ask::Ask;

/// The output of a step.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "StepOutput")]
pub(crate) struct StepBody {
    #[schemars(range(max = 9_223_372_036_854_775_807_i64))]
    fence: u64,
    /// The ticket of the lease, where the claim gave one.
    #[serde(default)]
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<String>,
    /// Any JSON, at most 1 MiB.
    #[schemars(with = "AnyJson")]
    output: Box<RawValue>,
}

/// How far an attempt is.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Progress")]
pub(crate) struct ProgressBody {
    #[schemars(range(max = 9_223_372_036_854_775_807_i64))]
    fence: u64,
    /// The ticket of the lease, where the claim gave one.
    #[serde(default)]
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<String>,
    /// Any JSON, at most 8 KiB.
    #[schemars(with = "AnyJson")]
    progress: Box<RawValue>,
}

/// It is durable.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Stored")]
pub(crate) struct StoredView {
    status: &'static str,
}

impl StoredView {
    pub(crate) const STORED: Self = Self { status: "stored" };
}

/// `PUT /v1/jobs/{id}/steps/{name}`
pub(crate) async fn step(ask: Ask) -> Answered {
    let StepBody { fence, ticket, output } = ask.body()?;
    let lease = checked(ask.id()?, fence, ticket.as_deref())?;
    let name = ask.name()?;
    ask.api.owned(&ask.caller, [lease.job_id].into_iter()).await?;
    let step = StepWrite { lease, name, output: gated("output", &output, STEP_BYTES_MAX)? };
    answer(ask.api.store.store_steps(vec![step]).await?)
}

/// `PUT /v1/jobs/{id}/progress`
pub(crate) async fn progress(ask: Ask) -> Answered {
    let ProgressBody { fence, ticket, progress } = ask.body()?;
    let lease = checked(ask.id()?, fence, ticket.as_deref())?;
    ask.api.owned(&ask.caller, [lease.job_id].into_iter()).await?;
    let report = ProgressWrite { lease, progress: gated("progress", &progress, PROGRESS_BYTES_MAX)? };
    answer(ask.api.store.progress(vec![report]).await?)
}

fn answer(written: Vec<Written>) -> Answered {
    match written.first() {
        Some(Written::Done) => ok(&StoredView::STORED),
        Some(Written::TooManySteps) => {
            let message = format!("the job has {STEPS_MAX} steps, and may not have more");
            Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "too_many_steps", message))
        }
        Some(Written::Lost) | None => Err(Refusal::lease_lost()),
    }
}
