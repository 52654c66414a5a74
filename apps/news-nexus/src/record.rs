//! A job as the queue file and the routes show it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;
use windlass_engine::core::error::Invalid;
use windlass_engine::core::event::What;
use windlass_engine::core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_engine::core::job::{Entry, Job, JobSpec};
use windlass_engine::core::json::{Json, META_BYTES_MAX};
use windlass_engine::core::state::{FailureReason, Lease, State, StateName};
use windlass_engine::core::time::Time;

use crate::queue::QUEUE;

/// Why a job that had not begun is canceled.
const CANCELED_BEFORE_START: &str = "canceled_before_start";
/// Why a job that was running is canceled.
const CANCELED_BY_REQUEST: &str = "canceled_by_request";
/// Said when nothing else is known.
const JOB_FAILED: &str = "job_failed";

/// One record. Fields that are absent are left out. How it is read is in
/// [`crate::repair`], since others write to the file as well.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub job_id: String,
    pub endpoint_name: String,
    pub status: StateName,
    pub created_at: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
    /// What another program has put there, kept as it is.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// What of a record has no place in a job.
#[derive(Default, Serialize, Deserialize)]
struct Meta {
    /// The id, when it is not one of ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job_id: Option<String>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    more: Map<String, Value>,
}

impl Meta {
    fn of(job: &Job) -> Self {
        job.spec.meta.as_ref().and_then(|meta| meta.read().ok()).unwrap_or_default()
    }
}

impl Record {
    /// The record of a job.
    pub(crate) fn of(job: &Job) -> Self {
        let Meta { job_id, more } = Meta::of(job);
        Self {
            job_id: job_id.unwrap_or_else(|| job.id.to_string()),
            endpoint_name: job.spec.kind.as_str().to_owned(),
            status: job.state.name(),
            created_at: job.created_at,
            started_at: job.started_at,
            ended_at: job.state.ended_at(),
            failure_reason: failure_reason(job),
            more,
        }
    }

    /// The job of a record, as the `seq`-th. What the record does not say is
    /// not needed: a job that is over needs none of it, and one that is not
    /// over does not survive the start that reads this.
    pub(crate) fn into_job(self, seq: u64) -> Result<Job, Invalid> {
        let Self { job_id, endpoint_name, status, created_at, started_at, ended_at, failure_reason, more } =
            self;
        let id = id_of(&job_id);
        let queue = QueueName::new(QUEUE)?;
        let mut spec = JobSpec::new(Kind::new(endpoint_name)?, queue, Json::null());
        let job_id = Some(job_id).filter(|text| *text != id.to_string());
        if job_id.is_some() || !more.is_empty() {
            spec.meta = Some(Json::from_value("record", &Meta { job_id, more }, META_BYTES_MAX)?);
        }
        let ended = || ended_at.ok_or_else(|| Invalid::new("endedAt", "is missing"));
        let state = match status {
            StateName::Queued => State::Queued,
            StateName::Running => State::Running(unknown_lease(started_at.unwrap_or(created_at))?),
            StateName::Completed => State::Completed { ended_at: ended()?, result: None },
            StateName::Failed => {
                State::Failed { ended_at: ended()?, reason: reason(failure_reason.as_deref()) }
            }
            StateName::Canceled => State::Canceled { ended_at: ended()? },
        };
        let claimed = u64::from(started_at.is_some());
        let history =
            failure_reason.map(|error| said(ended_at.unwrap_or(created_at), error)).into_iter().collect();
        Ok(Job {
            id,
            seq,
            spec,
            rank: 0,
            created_at,
            run_at: created_at,
            state,
            attempt: claimed as u32,
            crashes: 0,
            fence: claimed,
            retries: 0,
            started_at,
            worker: None,
            progress: None,
            steps: Vec::new(),
            history,
        })
    }
}

/// The id of a job that is called `text`: ids of ours are UUIDs, those of the
/// program before us were numbers such as `0001`.
pub(crate) fn id_of(text: &str) -> JobId {
    text.parse().unwrap_or_else(|_| JobId(Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_bytes())))
}

fn failure_reason(job: &Job) -> Option<String> {
    let said = || job.last_error().map(str::to_owned);
    match &job.state {
        State::Queued | State::Running(_) | State::Completed { .. } => None,
        State::Failed { reason: FailureReason::WorkerRestart, .. } => {
            Some(FailureReason::WorkerRestart.as_str().to_owned())
        }
        State::Failed { .. } => Some(said().unwrap_or_else(|| JOB_FAILED.to_owned())),
        State::Canceled { .. } => Some(said().unwrap_or_else(|| {
            let begun = job.started_at.is_some();
            if begun { CANCELED_BY_REQUEST } else { CANCELED_BEFORE_START }.to_owned()
        })),
    }
}

fn reason(said: Option<&str>) -> FailureReason {
    if said == Some(FailureReason::WorkerRestart.as_str()) {
        return FailureReason::WorkerRestart;
    }
    FailureReason::Permanent
}

fn said(at: Time, error: String) -> Entry {
    Entry { at, what: What::Failed, attempt: 0, fence: 0, worker: None, started_at: None, error: Some(error) }
}

/// Who held the lease is not in the file, and nobody holds it any more.
fn unknown_lease(started_at: Time) -> Result<Lease, Invalid> {
    Ok(Lease {
        worker: WorkerName::new("unknown")?,
        fence: 1,
        started_at,
        lease_ms: 1,
        expires_at: started_at,
        cancel_requested: false,
        marked_at: None,
    })
}
