//! `/queue-info/`

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::{StatusCode, Uri};
use serde_json::{Value, json};
use windlass_engine::core::id::Kind;
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::CancelAnswer;

use super::Api;
use crate::answer::{Answered, Refusal, answer, conflict, invalid_field};
use crate::record::{Record, id_of};

/// The longest id that an answer repeats.
const ID_CHARS_MAX: usize = 100;

pub(super) fn routes() -> Router<Arc<Api>> {
    Router::new()
        .route("/queue-info/check-status/{job_id}", get(check_status))
        .route("/queue-info/queue_status", get(queue_status))
        .route("/queue-info/cancel_job/{job_id}", post(cancel_job))
        .route("/queue-info/latest-job", get(latest_job))
}

/// One job with what it was asked for and what it gave.
async fn check_status(State(api): State<Arc<Api>>, Path(job_id): Path<String>) -> Answered {
    let id = id_of(given(&job_id)?);
    let job = api.client.get(id).await?.ok_or_else(|| not_found(&job_id))?;
    let files = api.files.clone();
    let read = tokio::task::spawn_blocking(move || files.read(id)).await;
    let (parameters, result) = read.map_err(Refusal::internal)?.map_err(Refusal::internal)?;
    let mut shown = serde_json::to_value(Record::of(&job)).map_err(Refusal::internal)?;
    for (name, value) in [("parameters", parameters), ("result", result)] {
        if let Some(value) = value {
            shown[name] = value;
        }
    }
    Ok(answer(StatusCode::OK, &json!({ "job": shown })))
}

/// How many jobs are in each state, which one runs, and which wait.
async fn queue_status(State(api): State<Arc<Api>>) -> Answered {
    let Look { counts, running, queued } = look(&api).await?;
    let mut summary = json!({ "totalJobs": counts.iter().sum::<u64>() });
    for state in StateName::ALL {
        summary[state.as_str()] = json!(counts[state as usize]);
    }
    let body = json!({ "summary": summary, "runningJob": running, "queuedJobs": queued });
    Ok(answer(StatusCode::OK, &body))
}

/// The same, for a program that watches: in the text form of Prometheus.
pub(crate) async fn metrics(api: Arc<Api>) -> Result<String, Refusal> {
    let Look { counts, .. } = look(&api).await?;
    let mut text = String::from("# HELP news_nexus_jobs Jobs by state.\n# TYPE news_nexus_jobs gauge\n");
    for state in StateName::ALL {
        let count = counts[state as usize];
        text.push_str(&format!("news_nexus_jobs{{state=\"{state}\"}} {count}\n"));
    }
    Ok(text)
}

/// All jobs: how many are in each state, which one runs, and which wait, the longest first.
struct Look {
    counts: [u64; StateName::ALL.len()],
    running: Option<Record>,
    queued: Vec<Record>,
}

async fn look(api: &Api) -> Result<Look, Refusal> {
    let mut look = Look { counts: [0; StateName::ALL.len()], running: None, queued: Vec::new() };
    let mut request = ListRequest { filter: JobFilter::default(), limit: PAGE_MAX, after: None };
    loop {
        let page = api.client.store().list(request.clone()).await?;
        for job in &page.jobs {
            let state = job.state.name();
            look.counts[state as usize] += 1;
            match state {
                StateName::Running => look.running = Some(Record::of(job)),
                StateName::Queued => look.queued.push(Record::of(job)),
                StateName::Completed | StateName::Failed | StateName::Canceled => {}
            }
        }
        let Some(next) = page.next else { break };
        request.after = Some(next);
    }
    // Pages come newest first; whoever waits longest is next.
    look.queued.reverse();
    Ok(look)
}

/// A job that waits is canceled at once; one that runs is told to stop.
async fn cancel_job(State(api): State<Arc<Api>>, Path(job_id): Path<String>) -> Answered {
    let outcome = match api.client.cancel(id_of(given(&job_id)?)).await? {
        CancelAnswer::Canceled => "canceled",
        CancelAnswer::Requested => "cancel_requested",
        CancelAnswer::NotFound => return Err(not_found(&job_id)),
        CancelAnswer::Final => {
            let id = cut(&job_id);
            return Err(conflict(format!("The job has already ended and was not changed: {id}")));
        }
    };
    tracing::info!(jobId = job_id, outcome, "Job cancel");
    Ok(answer(StatusCode::OK, &json!({ "jobId": job_id, "outcome": outcome })))
}

/// The newest job of an endpoint, or null.
async fn latest_job(State(api): State<Arc<Api>>, uri: Uri) -> Answered {
    let query = url::form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
    let name = query.into_iter().find_map(|(name, value)| (name == "endpointName").then_some(value));
    let name = name.map(|name| name.trim().trim_end_matches('/').to_owned()).filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| invalid_field("endpointName", "is required"))?;
    let Ok(kind) = Kind::new(&name) else {
        return Err(invalid_field("endpointName", "is not the name of an endpoint"));
    };
    let filter = JobFilter { kind: Some(kind), ..JobFilter::default() };
    let mut request = ListRequest { filter, limit: 1, after: None };
    loop {
        let page = api.client.store().list(request.clone()).await?;
        match (page.jobs.first(), page.next) {
            (None, Some(next)) => request.after = Some(next),
            (found, _) => return Ok(latest(found)),
        }
    }
}

fn latest(job: Option<&Job>) -> Response {
    let job: Value = job.map_or(Value::Null, |job| json!(Record::of(job)));
    answer(StatusCode::OK, &json!({ "job": job }))
}

fn given(job_id: &str) -> Result<&str, Refusal> {
    let id = job_id.trim();
    if id.is_empty() { Err(invalid_field("jobId", "is required")) } else { Ok(id) }
}

fn not_found(job_id: &str) -> Refusal {
    Refusal::not_found(format!("Job not found: {}", cut(job_id)))
}

fn cut(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(ID_CHARS_MAX).collect()
}
