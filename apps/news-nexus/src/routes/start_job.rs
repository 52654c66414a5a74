//! What all three `start-job` routes do: read the body strictly, keep the
//! parameters, accept the job.

use std::io;
use std::path::Path;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Map, Value, json};
use windlass_engine::JobRequest;
use windlass_engine::core::id::JobId;
use windlass_engine::core::json::Json;
use windlass_engine::core::state::StateName;
use windlass_engine::world::new_id;

use super::Api;
use crate::answer::{Answered, Refusal, answer, invalid_field};
use crate::jobs::Job;
use crate::queue::{QUEUE, waiting};

/// Accepts a job: 202 means queued, never done.
pub(super) async fn accept(api: &Api, job: &'static Job, parameters: Value) -> Answered {
    let id = new_id(&*api.world);
    keep(api, id, parameters.clone()).await?;
    let new = JobRequest::new(job.endpoint, &parameters).id(id).queue(QUEUE).build();
    let new = new.map_err(|error| invalid_field("body", &error.to_string()))?;
    api.client.enqueue_new(new).await?;
    let depth = waiting(&**api.client.store()).await;
    tracing::info!(jobId = %id, endpointName = job.endpoint, depth, "Job enqueued");
    Ok(accepted(id, job))
}

fn accepted(id: JobId, job: &Job) -> Response {
    let body = json!({"jobId": id, "status": StateName::Queued, "endpointName": job.endpoint});
    answer(StatusCode::ACCEPTED, &body)
}

/// The parameters are there before the job is, so that no job is without them.
async fn keep(api: &Api, id: JobId, parameters: Value) -> Result<(), Refusal> {
    let files = api.files.clone();
    let kept = tokio::task::spawn_blocking(move || files.keep_parameters(id, &parameters)).await;
    kept.map_err(Refusal::internal)?.map_err(Refusal::internal)
}

/// The body as an object; nothing at all counts as an empty one.
pub(super) fn object(body: &[u8]) -> Result<Map<String, Value>, Refusal> {
    if body.trim_ascii().is_empty() {
        return Ok(Map::new());
    }
    let json = Json::payload(body).map_err(|error| invalid_field("body", &error.why))?;
    match json.read() {
        Ok(Value::Object(fields)) => Ok(fields),
        _ => Err(invalid_field("body", "must be a JSON object")),
    }
}

/// Refuses fields that nobody would look at: a misspelt one must not be taken for none.
pub(super) fn unknown_fields(fields: &Map<String, Value>, known: &[&str]) -> Vec<(String, String)> {
    let unknown = fields.keys().filter(|name| !known.contains(&name.as_str()));
    let shown = |name: &String| name.chars().take(100).collect::<String>();
    unknown.map(|name| (shown(name), "is not a field of this request".to_owned())).collect()
}

/// Whether a file is there: 404 when it is not, without its path.
pub(super) fn require_file(path: &Path, what: &str, setting: &str) -> Result<(), Refusal> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_file() => Ok(()),
        Ok(_) => Err(Refusal::internal(format!("{setting} is not a file"))),
        Err(error) => Err(missing(&error, what, setting)),
    }
}

/// Whether a folder is there: 404 when it is not, without its path.
pub(super) fn require_folder(path: &Path, what: &str, setting: &str) -> Result<(), Refusal> {
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Refusal::internal(format!("{setting} is not a folder"))),
        Err(error) => Err(missing(&error, what, setting)),
    }
}

fn missing(error: &io::Error, what: &str, setting: &str) -> Refusal {
    if error.kind() == io::ErrorKind::NotFound || error.kind() == io::ErrorKind::NotADirectory {
        return Refusal::not_found(format!("{what} not found; check {setting}"));
    }
    Refusal::internal(format!("{setting}: {error}"))
}
