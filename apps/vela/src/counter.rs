//! A task manager as a source: what a worker that runs apart claims from.
//!
//! It stands around no other source, and so is none of `core::decorate`: its verbs are calls to somebody else's desk.
//!
//! Only tasks go this way. Shops, listings and the ledger of calls are in the
//! store, which a worker knows by itself. When a manager does not answer, the
//! next one is asked: they are all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;
use windlass_engine::core::id::BudgetName;
use windlass_engine::core::job::{Job, JobSpec, Start};
use windlass_engine::core::json::Json;
use windlass_engine::core::state::Lease;
use windlass_engine::core::store::{
    Capabilities, ClaimAnswer, ClaimRequest, Expired, LeaseRef, Leased, OfferFn, ProgressWrite, RenewAnswer,
    Settlement, Spent, StepWrite, WakeFn, Written,
};
use windlass_engine::core::transition::Outcome;
use windlass_engine::core::wake::Registration;
use windlass_engine::{JobId, Kind, QueueName, Source, State, StoreError, Time};
use windlass_outside::safe_http::{Body, Credentials, Http, Limits, Request, Response};
use windlass_outside::secret::Secret;

use crate::task::QUEUE;

/// How long a worker waits at the desk: no longer than it may keep a shutdown waiting.
const WAIT_MS: u64 = 2_000;
/// How long an answer may take, beyond the wait.
const TOTAL: Duration = Duration::from_secs(5);

/// The managers.
pub struct Counter {
    http: Http,
    managers: Vec<Url>,
    token: Option<Secret<String>>,
    /// Which manager answered last.
    at: AtomicUsize,
}

/// What `POST /get-task` answers.
#[derive(Deserialize)]
struct Handed {
    task: Task,
    fence: u64,
    lease_ms: u32,
}

#[derive(Deserialize)]
struct Task {
    id: JobId,
    #[serde(rename = "type")]
    kind: String,
    attempt: u32,
    payload: Value,
    #[serde(default)]
    retry_delay_ms: Option<u64>,
}

impl Counter {
    /// The managers at these addresses.
    pub fn new(http: Http, managers: Vec<Url>, token: Option<Secret<String>>) -> Arc<Self> {
        Arc::new(Self { http, managers, token, at: AtomicUsize::new(0) })
    }

    /// Posts to the manager that answered last, or to the next ones.
    async fn post(&self, path: &str, body: &Value, total: Duration) -> Result<Response, StoreError> {
        let mut last = String::new();
        for _ in 0..self.managers.len() {
            let at = self.at.load(Ordering::Relaxed);
            let base = &self.managers[at % self.managers.len()];
            match self.post_to(base, path, body, total).await {
                Ok(answer) if answer.status() < 500 => return Ok(answer),
                Ok(answer) => last = format!("a task manager answered {}", answer.status()),
                Err(error) => last = error,
            }
            // On to the next one, unless somebody has gone on already.
            let _ = self.at.compare_exchange(at, at.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed);
        }
        Err(StoreError::Unavailable(last))
    }

    async fn post_to(
        &self,
        base: &Url,
        path: &str,
        body: &Value,
        total: Duration,
    ) -> Result<Response, String> {
        let url = base.join(path).map_err(|_| "the address of a task manager is none".to_owned())?;
        let request = Request::post(url, Body::bytes(body.to_string()));
        let mut request = request
            .header(http::header::CONTENT_TYPE, "application/json")
            .map_err(|why| why.to_string())?
            .limits(Limits { total, ..Limits::default() });
        if let Some(token) = &self.token {
            request = request.credentials(Credentials::bearer(base, token).map_err(|why| why.to_string())?);
        }
        self.http.send(request).await.map_err(|error| error.to_string())
    }

    async fn word(&self, lease: LeaseRef, word: &str, mut body: Value) -> Result<Option<Value>, StoreError> {
        body["fence"] = json!(lease.fence);
        let answer = self.post(&format!("/tasks/{}/{word}", lease.job_id), &body, TOTAL).await?;
        match answer.status() {
            200..=299 => Ok(Some(read(answer).await?)),
            404 | 409 => Ok(None),
            status => Err(refused(status)),
        }
    }
}

fn refused(status: u16) -> StoreError {
    match status {
        401 | 403 => StoreError::Broken(format!(
            "the task manager answered {status}: set VELA_TOKEN to the manager's token"
        )),
        status => StoreError::Unavailable(format!("the task manager answered {status}")),
    }
}

async fn read<T: serde::de::DeserializeOwned>(answer: Response) -> Result<T, StoreError> {
    let body = answer.bytes().await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
    let unreadable = |_| StoreError::Unavailable("the task manager's answer cannot be read".to_owned());
    serde_json::from_slice(&body).map_err(unreadable)
}

#[async_trait]
impl Source for Counter {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        let body = json!({
            "worker_id": request.worker.as_str(), "request_id": request.request_id, "wait_ms": WAIT_MS,
        });
        let answer = self.post("/get-task", &body, TOTAL + Duration::from_millis(WAIT_MS)).await?;
        match answer.status() {
            200 => {
                let leased = leased(read(answer).await?, &request)?;
                Ok(ClaimAnswer { leases: vec![leased], next_due_in_ms: Some(0), instance: None })
            }
            204 => Ok(ClaimAnswer { leases: Vec::new(), next_due_in_ms: Some(1), instance: None }),
            status => Err(refused(status)),
        }
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        let words = leases.iter().map(|lease| self.word(*lease, "renew", json!({})));
        let answers = futures::future::try_join_all(words).await?;
        let mut renewed = RenewAnswer::default();
        for (lease, answer) in leases.iter().zip(answers) {
            match answer {
                None => renewed.lost.push(lease.job_id),
                Some(answer) => {
                    renewed.renewed.push(lease.job_id);
                    if answer["cancel_requested"] == json!(true) {
                        renewed.cancel_requested.push(lease.job_id);
                    }
                }
            }
        }
        Ok(renewed)
    }

    /// With the next renewal: a question every half second for every task is not worth it.
    async fn cancels(&self, _: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        Ok(Vec::new())
    }

    async fn store_steps(&self, _: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        Err(StoreError::Unsupported("store steps"))
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        let mut written = Vec::new();
        for ProgressWrite { lease, progress } in reports {
            let progress: Value = progress.read().unwrap_or_default();
            written
                .push(taken(self.word(lease, "progress", json!({ "progress": progress })).await?.is_some()));
        }
        Ok(written)
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        let mut written = Vec::new();
        for Settlement { lease, outcome } in settlements {
            let (word, body) = word_of(&outcome);
            written.push(taken(self.word(lease, word, body).await?.is_some()));
        }
        Ok(written)
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        Ok(Expired::default())
    }

    async fn spend(&self, _: BudgetName, _: u32) -> Result<Spent, StoreError> {
        Err(StoreError::Unsupported("spend of a budget"))
    }

    async fn cool_down(&self, _: BudgetName, _: u64) -> Result<(), StoreError> {
        Err(StoreError::Unsupported("cool a budget down"))
    }

    fn on_work(&self, _: WakeFn) -> Registration {
        Registration::none()
    }

    fn on_commit(&self, _: OfferFn) -> Registration {
        Registration::none()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PLAIN
    }
}

fn taken(is_taken: bool) -> Written {
    if is_taken { Written::Done } else { Written::Lost }
}

/// How an outcome is said at the desk.
fn word_of(outcome: &Outcome) -> (&'static str, Value) {
    let ms = |start: &Start| match start {
        Start::AfterMs(ms) => Some(*ms),
        Start::Now => Some(0),
        Start::At(_) => None,
    };
    match outcome {
        Outcome::Completed { .. } => ("complete", json!({})),
        Outcome::Retry { error, when } => {
            let after = when.as_ref().and_then(ms);
            ("fail", json!({"class": "retry", "error": error, "retry_after_ms": after}))
        }
        Outcome::Failed { error } => ("fail", json!({"class": "permanent", "error": error})),
        Outcome::Parked { until } => {
            ("fail", json!({"class": "quota", "error": "parked", "retry_after_ms": ms(until)}))
        }
        Outcome::Released => ("fail", json!({"class": "release"})),
        Outcome::Canceled => ("fail", json!({"class": "canceled"})),
    }
}

/// The task as the engine knows jobs.
fn leased(handed: Handed, request: &ClaimRequest) -> Result<Leased, StoreError> {
    let Handed { task: Task { id, kind, attempt, payload, retry_delay_ms }, fence, lease_ms } = handed;
    let payload = Json::payload(payload.to_string())?;
    let spec = JobSpec::new(Kind::new(kind)?, QueueName::new(QUEUE)?, payload);
    // A worker judges its lease by its length alone.
    let (worker, moment) = (request.worker.clone(), Time::MIN);
    let lease = Lease {
        worker: worker.clone(),
        fence,
        started_at: moment,
        lease_ms,
        expires_at: moment.plus_ms(i64::from(lease_ms)),
        cancel_requested: false,
        marked_at: None,
    };
    let job = Job {
        id,
        seq: 0,
        spec,
        rank: 0,
        created_at: moment,
        run_at: moment,
        state: State::Running(lease),
        attempt,
        crashes: 0,
        fence,
        retries: 0,
        started_at: Some(moment),
        worker: Some(worker),
        progress: None,
        steps: Vec::new(),
        history: Vec::new(),
    };
    Ok(Leased { job, retry_delay_ms, ticket: None })
}
