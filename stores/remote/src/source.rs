//! What a worker asks of a server.

use async_trait::async_trait;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::id::{BudgetName, JobId, Kind, QueueName, WorkerName};
use windlass_core::job::Start;
use windlass_core::json::Json;
use windlass_core::store::{
    Capabilities, ClaimAnswer, ClaimRequest, Expired, LeaseRef, Leased, OfferFn, ProgressWrite, RenewAnswer,
    Settlement, Source, Spent, StepWrite, WakeFn, Written,
};
use windlass_core::time::{Span, Time};
use windlass_core::transition::Outcome;
use windlass_core::wake::Registration;

use crate::http_call::part;
use crate::store::RemoteStore;
use crate::wire::JobWire;

/// How many leases one call of the API may name.
const LEASES_MAX: usize = 1_000;

#[derive(Serialize)]
struct ClaimWire {
    worker: WorkerName,
    queues: Vec<QueueName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kinds: Option<Vec<Kind>>,
    limit: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u32>,
    request_id: Uuid,
}

#[derive(Deserialize)]
struct LeasesWire {
    leases: Vec<LeasedWire>,
    #[serde(default)]
    next_due_in_ms: Option<u64>,
    #[serde(default)]
    instance: Option<Uuid>,
}

#[derive(Deserialize)]
struct LeasedWire {
    job: JobWire,
    retry_delay_ms: Option<u64>,
    #[serde(default)]
    ticket: Option<String>,
}

/// A lease as calls name it. A ticket is only said where the claim gave one: a server of before refuses what it does not know.
#[derive(Serialize)]
struct LeaseWire {
    job_id: JobId,
    #[serde(flatten)]
    right: RightWire,
}

/// By what a write is taken.
#[derive(Serialize)]
struct RightWire {
    fence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ticket: Option<String>,
}

#[derive(Deserialize)]
struct RenewWire {
    renewed: Vec<JobId>,
    lost: Vec<JobId>,
    cancel_requested: Vec<JobId>,
    #[serde(default)]
    still: Vec<StillWire>,
    #[serde(default)]
    instance: Option<Uuid>,
}

#[derive(Deserialize)]
struct CancelsWire {
    cancel_requested: Vec<JobId>,
}

#[derive(Deserialize)]
struct StillWire {
    job_id: JobId,
    for_ms: u64,
}

// Structs and not `json!`: a value of serde_json would write 1.10 as 1.1.
#[derive(Serialize)]
struct StepWire {
    #[serde(flatten)]
    right: RightWire,
    output: Json,
}

#[derive(Serialize)]
struct ProgressWire {
    #[serde(flatten)]
    right: RightWire,
    progress: Json,
}

#[derive(Serialize)]
struct ResultsWire<'a> {
    results: &'a [ResultWire],
}

#[derive(Serialize)]
struct ResultWire {
    #[serde(flatten)]
    lease: LeaseWire,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_at: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Span>,
}

#[derive(Deserialize)]
struct SettledWire {
    results: Vec<SettledEntry>,
}

#[derive(Deserialize)]
struct SettledEntry {
    status: String,
}

#[derive(Deserialize)]
struct SpentWire {
    status: String,
    in_ms: Option<u64>,
}

#[async_trait]
impl Source for RemoteStore {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        let ClaimRequest { request_id, worker, queues, kinds, limit, lease_ms } = request;
        // The API has no word for a claim of nothing.
        if limit == 0 {
            return Ok(ClaimAnswer::default());
        }
        let limit = limit.min(LEASES_MAX as u32);
        let wish = ClaimWire { worker, queues, kinds, limit, lease_ms, request_id };
        let answer: LeasesWire = self.caller.send_json(Method::POST, "/v1/claim", &wish).await?;
        let leased = |LeasedWire { job, retry_delay_ms, ticket }| {
            // What cannot be read is as none.
            let ticket = ticket.and_then(|text: String| text.parse().ok());
            Leased { job: JobWire::job(job), retry_delay_ms, ticket }
        };
        let leases = answer.leases.into_iter().map(leased).collect();
        Ok(ClaimAnswer { leases, next_due_in_ms: answer.next_due_in_ms, instance: answer.instance })
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        let mut all = RenewAnswer::default();
        for leases in leases.chunks(LEASES_MAX) {
            let wish = json!({ "leases": leases.iter().map(LeaseWire::from).collect::<Vec<_>>() });
            let RenewWire { renewed, lost, cancel_requested, still, instance } =
                self.caller.send_json(Method::POST, "/v1/leases/renew", &wish).await?;
            all.renewed.extend(renewed);
            all.lost.extend(lost);
            all.cancel_requested.extend(cancel_requested);
            all.still.extend(still.into_iter().map(|StillWire { job_id, for_ms }| (job_id, for_ms)));
            all.instance = instance;
        }
        Ok(all)
    }

    /// Asks without holding on to anything; a server of before is asked by a renewal.
    async fn cancels(&self, leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        let mut canceled = Vec::new();
        for some in leases.chunks(LEASES_MAX) {
            let wish = json!({ "leases": some.iter().map(LeaseWire::from).collect::<Vec<_>>() });
            match self.caller.ask::<CancelsWire>(Method::POST, "/v1/leases/cancels", Some(&wish)).await? {
                Ok(CancelsWire { cancel_requested }) => canceled.extend(cancel_requested),
                Err(refused) if refused.is_unknown_call() => {
                    return Ok(self.renew(leases).await?.cancel_requested);
                }
                Err(refused) => return Err(refused.into()),
            }
        }
        Ok(canceled)
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        let mut all = Vec::with_capacity(steps.len());
        for StepWrite { lease, name, output } in steps {
            let path = format!("/v1/jobs/{}/steps/{}", lease.job_id, part(name.as_str()));
            all.push(self.write(&path, &StepWire { right: RightWire::from(&lease), output }).await?);
        }
        Ok(all)
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        let mut all = Vec::with_capacity(reports.len());
        for ProgressWrite { lease, progress } in reports {
            let path = format!("/v1/jobs/{}/progress", lease.job_id);
            all.push(self.write(&path, &ProgressWire { right: RightWire::from(&lease), progress }).await?);
        }
        Ok(all)
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        let results: Vec<ResultWire> = settlements.into_iter().map(ResultWire::from).collect();
        let mut all = Vec::with_capacity(results.len());
        for results in results.chunks(LEASES_MAX) {
            let wish = ResultsWire { results };
            let answer: SettledWire = self.caller.send_json(Method::POST, "/v1/leases/settle", &wish).await?;
            let written = |entry: SettledEntry| match entry.status.as_str() {
                "ok" => Written::Done,
                _ => Written::Lost,
            };
            all.extend(answer.results.into_iter().map(written));
        }
        Ok(all)
    }

    /// The server does it.
    async fn expire(&self) -> Result<Expired, StoreError> {
        Ok(Expired::default())
    }

    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError> {
        let path = format!("/v1/budgets/{}/spend", part(budget.as_str()));
        let spent: SpentWire =
            self.caller.send_json(Method::POST, &path, &json!({ "amount": amount })).await?;
        Ok(match spent.status.as_str() {
            "granted" => Spent::Granted,
            "wait" => Spent::Wait { in_ms: spent.in_ms.unwrap_or(0) },
            _ => Spent::Never,
        })
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        let path = format!("/v1/budgets/{}/cool-down", part(budget.as_str()));
        let wish = json!({ "for": Span::from_ms(for_ms) });
        let _: serde::de::IgnoredAny = self.caller.send_json(Method::POST, &path, &wish).await?;
        Ok(())
    }

    fn on_work(&self, wake: WakeFn) -> Registration {
        self.listen(wake)
    }

    fn on_commit(&self, _: OfferFn) -> Registration {
        Registration::none()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PLAIN
    }
}

impl RemoteStore {
    async fn write(&self, path: &str, body: &(impl Serialize + Sync)) -> Result<Written, StoreError> {
        let answer = self.caller.ask::<serde::de::IgnoredAny>(Method::PUT, path, Some(body)).await?;
        match answer {
            Ok(_) => Ok(Written::Done),
            Err(refused) if refused.code() == "lease_lost" => Ok(Written::Lost),
            Err(refused) if refused.code() == "too_many_steps" => Ok(Written::TooManySteps),
            Err(refused) => Err(refused.into()),
        }
    }
}

impl From<&LeaseRef> for RightWire {
    fn from(LeaseRef { job_id: _, fence, ticket }: &LeaseRef) -> Self {
        Self { fence: *fence, ticket: ticket.map(|ticket| ticket.to_string()) }
    }
}

impl From<&LeaseRef> for LeaseWire {
    fn from(lease: &LeaseRef) -> Self {
        Self { job_id: lease.job_id, right: RightWire::from(lease) }
    }
}

impl From<Settlement> for ResultWire {
    fn from(settlement: Settlement) -> Self {
        let Settlement { lease, outcome } = settlement;
        let lease = LeaseWire::from(&lease);
        let (result, error, retry_at, until, delay) = (None, None, None, None, None);
        let mut wire = Self { lease, outcome: "", result, error, retry_at, until, delay };
        match outcome {
            Outcome::Completed { result } => {
                wire.outcome = "completed";
                wire.result = result;
            }
            Outcome::Retry { error, when } => {
                wire.outcome = "retry";
                wire.error = Some(error);
                match when {
                    None => {}
                    Some(Start::Now) => wire.delay = Some(Span::from_ms(0)),
                    Some(Start::At(at)) => wire.retry_at = Some(at),
                    Some(Start::AfterMs(ms)) => wire.delay = Some(Span::from_ms(ms)),
                }
            }
            Outcome::Failed { error } => {
                wire.outcome = "failed";
                wire.error = Some(error);
            }
            Outcome::Parked { until } => {
                wire.outcome = "parked";
                match until {
                    Start::Now => wire.delay = Some(Span::from_ms(0)),
                    Start::At(at) => wire.until = Some(at),
                    Start::AfterMs(ms) => wire.delay = Some(Span::from_ms(ms)),
                }
            }
            Outcome::Released => wire.outcome = "released",
            Outcome::Canceled => wire.outcome = "canceled",
        }
        wire
    }
}
