//! What people do with one job: stop it, start it anew, run it now, run it again from a step, delete it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_engine::core::id::{JobId, StepName};
use windlass_engine::core::store::{
    CancelAnswer, DeleteAnswer, Rerun, RerunAnswer, RetryAnswer, RunNowAnswer,
};
use windlass_report::schema::Name;

use crate::answer::{Answered, Refusal, nothing, ok};
use crate::ask::Ask;

/// What became of a wish.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Outcome")]
pub(crate) struct OutcomeView {
    /// `canceled`, `cancel_requested`, `retried`, `made_due` or `already_due`.
    outcome: &'static str,
}

/// `POST /v1/jobs/{id}/cancel`
pub(crate) async fn cancel(ask: Ask) -> Answered {
    let id = ask.id()?;
    let answer = ask.api.store.cancel(id).await?;
    tracing::info!(job_id = %id, by = ?ask.caller.name, answer = ?answer, "cancel");
    match answer {
        CancelAnswer::Canceled => ok(&OutcomeView { outcome: "canceled" }),
        CancelAnswer::Requested => ok(&OutcomeView { outcome: "cancel_requested" }),
        CancelAnswer::Final => {
            Err(Refusal::conflict("final", "the job is over already; nothing was changed"))
        }
        CancelAnswer::NotFound => Err(Refusal::not_found("job")),
    }
}

/// `POST /v1/jobs/{id}/retry`
pub(crate) async fn retry(ask: Ask) -> Answered {
    let id = ask.id()?;
    let answer = ask.api.store.retry(id).await?;
    tracing::info!(job_id = %id, by = ?ask.caller.name, answer = ?answer, "retry");
    match answer {
        RetryAnswer::Retried => ok(&OutcomeView { outcome: "retried" }),
        RetryAnswer::NotFinal => Err(not_final()),
        RetryAnswer::Taken(other) => Err(taken(other)),
        RetryAnswer::NotFound => Err(Refusal::not_found("job")),
    }
}

/// From where a job is run again.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Rerun")]
pub(crate) struct RerunBody {
    /// This step and all that were stored after it are run again; those before it are kept.
    #[schemars(with = "Name")]
    from: StepName,
}

/// `POST /v1/jobs/{id}/rerun`
pub(crate) async fn rerun(ask: Ask) -> Answered {
    let id = ask.id()?;
    let RerunBody { from } = ask.body()?;
    let answer = ask.api.store.rerun(Rerun { job_id: id, from }).await?;
    tracing::info!(job_id = %id, by = ?ask.caller.name, answer = ?answer, "rerun");
    match answer {
        RerunAnswer::Retried => ok(&OutcomeView { outcome: "retried" }),
        RerunAnswer::NotFinal => Err(not_final()),
        RerunAnswer::NoStep => {
            let message =
                "the job has stored no step of this name; nothing was changed. GET /v1/jobs/{id} lists them";
            Err(Refusal::conflict("no_step", message))
        }
        RerunAnswer::Taken(other) => Err(taken(other)),
        RerunAnswer::NotFound => Err(Refusal::not_found("job")),
    }
}

/// `POST /v1/jobs/{id}/run`
pub(crate) async fn run(ask: Ask) -> Answered {
    let id = ask.id()?;
    let answer = ask.api.store.run_now(id).await?;
    tracing::info!(job_id = %id, by = ?ask.caller.name, answer = ?answer, "run now");
    match answer {
        RunNowAnswer::Due => ok(&OutcomeView { outcome: "made_due" }),
        RunNowAnswer::AlreadyDue => ok(&OutcomeView { outcome: "already_due" }),
        RunNowAnswer::Running => {
            Err(Refusal::conflict("running", "the job is running already; nothing was changed"))
        }
        RunNowAnswer::Final => {
            Err(Refusal::conflict("final", "the job is over; nothing was changed. Retry it instead"))
        }
        RunNowAnswer::NotFound => Err(Refusal::not_found("job")),
    }
}

/// `DELETE /v1/jobs/{id}`
pub(crate) async fn delete(ask: Ask) -> Answered {
    let id = ask.id()?;
    let answer = ask.api.store.delete_with_logs(vec![id]).await?;
    tracing::info!(job_id = %id, by = ?ask.caller.name, answer = ?answer, "delete");
    match answer.first() {
        Some(DeleteAnswer::Deleted) => nothing(),
        Some(DeleteAnswer::Running) => {
            let message =
                "the job is running; nothing was changed. Cancel it first, and delete it when it is over";
            Err(Refusal::conflict("running", message))
        }
        Some(DeleteAnswer::NotFound) | None => Err(Refusal::not_found("job")),
    }
}

fn not_final() -> Refusal {
    Refusal::conflict("not_final", "the job is not over; nothing was changed. Cancel it first, or wait")
}

fn taken(other: JobId) -> Refusal {
    let message = format!("its dedupe key now belongs to job {other}; nothing was changed");
    Refusal::conflict("dedupe_key_taken", message).details(json!({ "job_id": other }))
}
