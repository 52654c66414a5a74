//! What everybody else asks of a server.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use windlass_core::audit::{AuditBite, AuditFrom};
use windlass_core::eligible::Explanation;
use windlass_core::epoch::Epoch;
use windlass_core::error::StoreError;
use windlass_core::event::{Action, Event, Position};
use windlass_core::id::{BudgetName, JobId, QueueName, ScheduleName, WorkerName};
use windlass_core::job::{Job, NewJob};
use windlass_core::log::{LogPage, LogWrite};
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::policy::schedule::{Schedule, SchedulePolicy};
use windlass_core::query::{
    Counted, Cursor, JobFilter, ListRequest, PAGE_MAX, Page, QueueStatus, WorkerStatus,
};
use windlass_core::record::Records;
use windlass_core::store::{
    BudgetStatus, CancelAnswer, DeleteAnswer, Enqueued, EpochStatus, Fired, Holder, QueueDeletion, Rerun,
    RerunAnswer, RetryAnswer, Risk, RunNowAnswer, Store, WorkerBeat, Written, check_steered,
};
use windlass_core::time::Time;

use crate::forms::{
    AuditWire, BudgetsWire, EnqueuedEntry, EnqueuedWire, EpochWire, EventsWire, ExplainWire, LogWire,
    LogsWire, NowWire, OutcomeWire, PageWire, QueuesWire, RerunWire, SchedulesWire, WorkersWire,
};
use crate::http_call::{Caller, NOTHING, part};
use crate::wake::Listener;
use crate::wire::{JobWire, NewJobWire, NewJobsWire, SchedulePolicyWire};

/// How a server is spoken to.
#[derive(Clone)]
pub struct Options {
    /// The token that the server wants, if it wants one.
    pub token: Option<String>,
    /// How long a call may take in all.
    pub call_ms: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { token: None, call_ms: 30_000 }
    }
}

/// A server as a store.
pub struct RemoteStore {
    pub(crate) caller: Arc<Caller>,
    pub(crate) listener: Listener,
}

impl RemoteStore {
    /// The store of the server at a URL such as `http://127.0.0.1:7717`, after
    /// it has answered once.
    pub fn connect(
        url: &str,
        options: Options,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<Self>, StoreError>> + Send + '_>> {
        Box::pin(Self::connected(url, options))
    }

    async fn connected(url: &str, options: Options) -> Result<Arc<Self>, StoreError> {
        let Options { token, call_ms } = options;
        let caller = Caller::new(url, token.as_deref(), Duration::from_millis(call_ms))?;
        let _: serde::de::IgnoredAny = caller.get("/healthz").await?;
        Ok(Arc::new(Self { caller: Arc::new(caller), listener: Listener::default() }))
    }

    async fn act(&self, method: Method, path: &str) -> Result<(), StoreError> {
        let _: serde::de::IgnoredAny = self.caller.ask(method, path, NOTHING).await??;
        Ok(())
    }

    async fn put(&self, path: &str, body: &(impl serde::Serialize + Sync)) -> Result<(), StoreError> {
        let _: serde::de::IgnoredAny = self.caller.send_json(Method::PUT, path, body).await?;
        Ok(())
    }
}

impl RemoteStore {
    async fn audit_from(&self, from: AuditFrom) -> Result<AuditWire, StoreError> {
        match self.caller.ask(Method::GET, &format!("/v1/audit?from={from}"), NOTHING).await? {
            Ok(bite) => Ok(bite),
            // A server of before knows no bites.
            Err(refused) if refused.is_invalid() => self.caller.get("/v1/audit").await,
            Err(refused) => Err(refused.into()),
        }
    }

    async fn cancel_one(&self, id: JobId) -> Result<CancelAnswer, StoreError> {
        let path = format!("/v1/jobs/{id}/cancel");
        match self.caller.ask::<OutcomeWire>(Method::POST, &path, NOTHING).await? {
            Ok(done) if done.outcome == "canceled" => Ok(CancelAnswer::Canceled),
            Ok(_) => Ok(CancelAnswer::Requested),
            Err(refused) if refused.is_not_found() => Ok(CancelAnswer::NotFound),
            Err(refused) if refused.code() == "final" => Ok(CancelAnswer::Final),
            Err(refused) => Err(refused.into()),
        }
    }

    async fn retry_one(&self, id: JobId) -> Result<RetryAnswer, StoreError> {
        let path = format!("/v1/jobs/{id}/retry");
        match self.caller.ask::<OutcomeWire>(Method::POST, &path, NOTHING).await? {
            Ok(_) => Ok(RetryAnswer::Retried),
            Err(refused) if refused.is_not_found() => Ok(RetryAnswer::NotFound),
            Err(refused) if refused.code() == "not_final" => Ok(RetryAnswer::NotFinal),
            Err(refused) => match (refused.code(), refused.other()) {
                ("dedupe_key_taken", Some(other)) => Ok(RetryAnswer::Taken(other)),
                _ => Err(refused.into()),
            },
        }
    }

    async fn run_now_one(&self, id: JobId) -> Result<RunNowAnswer, StoreError> {
        let path = format!("/v1/jobs/{id}/run");
        match self.caller.ask::<OutcomeWire>(Method::POST, &path, NOTHING).await? {
            Ok(done) if done.outcome == "made_due" => Ok(RunNowAnswer::Due),
            Ok(_) => Ok(RunNowAnswer::AlreadyDue),
            Err(refused) if refused.is_not_found() => Ok(RunNowAnswer::NotFound),
            Err(refused) if refused.code() == "running" => Ok(RunNowAnswer::Running),
            Err(refused) if refused.code() == "final" => Ok(RunNowAnswer::Final),
            Err(refused) => Err(refused.into()),
        }
    }

    async fn rerun_one(&self, Rerun { job_id, from }: Rerun) -> Result<RerunAnswer, StoreError> {
        let path = format!("/v1/jobs/{job_id}/rerun");
        match self.caller.ask::<OutcomeWire>(Method::POST, &path, Some(&RerunWire { from })).await? {
            Ok(_) => Ok(RerunAnswer::Retried),
            Err(refused) if refused.code() == "no_step" => Ok(RerunAnswer::NoStep),
            Err(refused) if refused.is_not_found() => Ok(RerunAnswer::NotFound),
            Err(refused) if refused.code() == "not_final" => Ok(RerunAnswer::NotFinal),
            Err(refused) => match (refused.code(), refused.other()) {
                ("dedupe_key_taken", Some(other)) => Ok(RerunAnswer::Taken(other)),
                _ => Err(refused.into()),
            },
        }
    }
}

#[async_trait]
impl Store for RemoteStore {
    fn records(&self) -> Result<&dyn Records, StoreError> {
        Err(StoreError::Unsupported(
            "keep records: the API of a server has none. Give the program the URL of the database itself, such as \
             sqlite:FILE or postgres://USER@HOST/DATABASE",
        ))
    }

    async fn put_log(&self, write: LogWrite) -> Result<Written, StoreError> {
        let LogWrite { request_id: _, lease, dropped, text } = write;
        let body = LogWire { fence: lease.fence, dropped, text };
        let path = format!("/v1/jobs/{}/log", lease.job_id);
        match self.caller.ask::<serde::de::IgnoredAny>(Method::PUT, &path, Some(&body)).await? {
            Ok(_) => Ok(Written::Done),
            Err(refused) if refused.code() == "lease_lost" => Ok(Written::Lost),
            Err(refused) => Err(refused.into()),
        }
    }

    async fn logs(&self, job: JobId) -> Result<Vec<LogPage>, StoreError> {
        Ok(self.caller.get::<LogsWire>(&format!("/v1/jobs/{job}/log")).await?.logs)
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let jobs = NewJobsWire { jobs: jobs.into_iter().map(NewJobWire::from).collect() };
        let answer: EnqueuedWire = self.caller.send_json(Method::POST, "/v1/jobs/batch", &jobs).await?;
        let enqueued = |EnqueuedEntry { id, deduplicated }| Enqueued { id, deduplicated };
        Ok(answer.jobs.into_iter().map(enqueued).collect())
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        match self.caller.ask::<JobWire>(Method::GET, &format!("/v1/jobs/{id}"), NOTHING).await? {
            Ok(job) => Ok(Some(job.job())),
            Err(refused) if refused.is_not_found() => Ok(None),
            Err(refused) => Err(refused.into()),
        }
    }

    /// For servers, before a worker of theirs may write: nobody asks it of a server.
    async fn holders(&self, jobs: Vec<JobId>) -> Result<Vec<Holder>, StoreError> {
        let mut holders = Vec::with_capacity(jobs.len());
        for id in jobs {
            let job = self.get(id).await?;
            holders.extend(job.map(|job| Holder { job_id: id, queue: job.spec.queue, worker: job.worker }));
        }
        Ok(holders)
    }

    async fn list(&self, request: ListRequest) -> Result<Page, StoreError> {
        let page: PageWire = self.caller.get(&format!("/v1/jobs?{}", query(&request))).await?;
        let cursor = |text: String| text.parse().map(Cursor).map_err(|_| odd("a cursor"));
        let next = page.next_cursor.map(cursor).transpose()?;
        Ok(Page { jobs: page.jobs.into_iter().map(JobWire::job).collect(), next })
    }

    /// Of the newest alone: the API counts none.
    async fn count_jobs(&self, filter: JobFilter) -> Result<Counted, StoreError> {
        let page = self.list(ListRequest { filter, limit: PAGE_MAX, after: None }).await?;
        Ok(Counted::of_page(&page))
    }

    async fn cancel_all(&self, ids: Vec<JobId>) -> Result<Vec<CancelAnswer>, StoreError> {
        check_steered(&ids)?;
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            answers.push(self.cancel_one(id).await?);
        }
        Ok(answers)
    }

    async fn retry_all(&self, ids: Vec<JobId>) -> Result<Vec<RetryAnswer>, StoreError> {
        check_steered(&ids)?;
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            answers.push(self.retry_one(id).await?);
        }
        Ok(answers)
    }

    async fn run_now_all(&self, ids: Vec<JobId>) -> Result<Vec<RunNowAnswer>, StoreError> {
        check_steered(&ids)?;
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            answers.push(self.run_now_one(id).await?);
        }
        Ok(answers)
    }

    async fn rerun_all(&self, wishes: Vec<Rerun>) -> Result<Vec<RerunAnswer>, StoreError> {
        check_steered(&wishes)?;
        let mut answers = Vec::with_capacity(wishes.len());
        for wish in wishes {
            answers.push(self.rerun_one(wish).await?);
        }
        Ok(answers)
    }

    async fn delete_all(&self, ids: Vec<JobId>) -> Result<Vec<DeleteAnswer>, StoreError> {
        check_steered(&ids)?;
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            let path = format!("/v1/jobs/{id}");
            answers.push(
                match self.caller.ask::<serde::de::IgnoredAny>(Method::DELETE, &path, NOTHING).await? {
                    Ok(_) => DeleteAnswer::Deleted,
                    Err(refused) if refused.is_not_found() => DeleteAnswer::NotFound,
                    Err(refused) if refused.code() == "running" => DeleteAnswer::Running,
                    Err(refused) => return Err(refused.into()),
                },
            );
        }
        Ok(answers)
    }

    async fn explain(&self, id: JobId) -> Result<Option<Explanation>, StoreError> {
        let path = format!("/v1/jobs/{id}/explain");
        match self.caller.ask::<ExplainWire>(Method::GET, &path, NOTHING).await? {
            Ok(answer) => Ok(Some(answer.explanation)),
            Err(refused) if refused.is_not_found() => Ok(None),
            Err(refused) => Err(refused.into()),
        }
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        let answer: QueuesWire = self.caller.get("/v1/queues").await?;
        Ok(answer.queues.into_iter().map(QueueStatus::from).collect())
    }

    async fn put_queue(&self, name: QueueName, policy: QueuePolicy) -> Result<(), StoreError> {
        self.put(&format!("/v1/queues/{}", part(name.as_str())), &policy).await
    }

    async fn pause_queue(&self, name: QueueName, paused: bool) -> Result<(), StoreError> {
        let verb = if paused { "pause" } else { "resume" };
        self.act(Method::POST, &format!("/v1/queues/{}/{verb}", part(name.as_str()))).await
    }

    async fn delete_queue(&self, name: QueueName) -> Result<QueueDeletion, StoreError> {
        let path = format!("/v1/queues/{}", part(name.as_str()));
        match self.caller.ask::<serde::de::IgnoredAny>(Method::DELETE, &path, NOTHING).await? {
            Ok(_) => Ok(QueueDeletion::Deleted),
            Err(refused) if refused.is_not_found() => Ok(QueueDeletion::NotFound),
            Err(refused) if refused.code() == "in_use" => {
                let (queued, running) = refused.held();
                Ok(QueueDeletion::InUse { queued, running })
            }
            Err(refused) => Err(refused.into()),
        }
    }

    async fn budgets(&self) -> Result<Vec<BudgetStatus>, StoreError> {
        let answer: BudgetsWire = self.caller.get("/v1/budgets").await?;
        Ok(answer.budgets.into_iter().map(BudgetStatus::from).collect())
    }

    async fn put_budget(&self, name: BudgetName, policy: BudgetPolicy) -> Result<(), StoreError> {
        self.put(&format!("/v1/budgets/{}", part(name.as_str())), &policy).await
    }

    async fn delete_budget(&self, name: BudgetName) -> Result<bool, StoreError> {
        let path = format!("/v1/budgets/{}", part(name.as_str()));
        match self.caller.ask::<serde::de::IgnoredAny>(Method::DELETE, &path, NOTHING).await? {
            Ok(_) => Ok(true),
            Err(refused) if refused.is_not_found() => Ok(false),
            Err(refused) => Err(refused.into()),
        }
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        let now = self.now().await?;
        let answer: SchedulesWire = self.caller.get("/v1/schedules").await?;
        Ok(answer.schedules.into_iter().map(|schedule| schedule.schedule(now)).collect())
    }

    async fn put_schedule(&self, name: ScheduleName, policy: SchedulePolicy) -> Result<(), StoreError> {
        let policy = SchedulePolicyWire::from(policy.checked()?);
        self.put(&format!("/v1/schedules/{}", part(name.as_str())), &policy).await
    }

    async fn delete_schedule(&self, name: ScheduleName) -> Result<bool, StoreError> {
        let path = format!("/v1/schedules/{}", part(name.as_str()));
        match self.caller.ask::<serde::de::IgnoredAny>(Method::DELETE, &path, NOTHING).await? {
            Ok(_) => Ok(true),
            Err(refused) if refused.is_not_found() => Ok(false),
            Err(refused) => Err(refused.into()),
        }
    }

    /// The server does it.
    async fn fire_schedules(&self) -> Result<Fired, StoreError> {
        Ok(Fired::default())
    }

    /// The server knows who is alive by their claims and renewals.
    async fn beat(&self, _worker: WorkerBeat) -> Result<(), StoreError> {
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        Ok(self.caller.get::<WorkersWire>("/v1/workers").await?.workers)
    }

    async fn forget_worker(&self, name: WorkerName) -> Result<(), StoreError> {
        let path = format!("/v1/workers/{}", part(name.as_str()));
        match self.caller.ask::<serde::de::IgnoredAny>(Method::DELETE, &path, NOTHING).await? {
            Ok(_) => Ok(()),
            // A server of before forgets whom it does not hear of.
            Err(refused) if refused.is_not_found() => Ok(()),
            Err(refused) => Err(refused.into()),
        }
    }

    /// The server does it.
    async fn prune(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    async fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError> {
        let after = since.unwrap_or_default();
        let mut page: EventsWire = self.caller.get(&format!("/v1/events/page?after={after}")).await?;
        page.events.truncate(limit as usize);
        Ok(page.events)
    }

    async fn act(&self, _: Action) -> Result<(), StoreError> {
        // The server that is asked tells what it is asked for, and by whom.
        Ok(())
    }

    async fn events_end(&self) -> Result<Position, StoreError> {
        let page: EventsWire = self.caller.get("/v1/events/page").await?;
        page.position.parse().map_err(|_| odd("a position"))
    }

    async fn audit_bite(&self, from: AuditFrom) -> Result<AuditBite, StoreError> {
        let AuditWire { findings, risks: _, next, done, of } = self.audit_from(from).await?;
        let next = next.map(|next| next.parse()).transpose().map_err(|_| odd("a place in an audit"))?;
        Ok(AuditBite { findings, next, done, of })
    }

    async fn risks(&self) -> Result<Vec<Risk>, StoreError> {
        Ok(self.audit_from(AuditFrom::default()).await?.risks)
    }

    async fn now(&self) -> Result<Time, StoreError> {
        Ok(self.caller.get::<NowWire>("/v1/now").await?.at)
    }

    async fn accepts(&self) -> Result<(), StoreError> {
        self.now().await.map(drop)
    }

    async fn epoch(&self) -> Result<EpochStatus, StoreError> {
        let now = self.caller.get::<NowWire>("/v1/now").await?;
        let EpochWire { number, instance, floor, began_at, first_seq, lossy, paused_until } =
            now.epoch.ok_or(StoreError::Unsupported("tell its epoch"))?;
        let epoch = Epoch { number, instance, floor, began_at, first_seq, lossy };
        Ok(EpochStatus { epoch, paused_until })
    }
}

fn query(request: &ListRequest) -> String {
    let ListRequest { filter, limit, after } = request;
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &limit.to_string());
    if !filter.states.is_empty() {
        let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
        query.append_pair("state", &states.join(","));
    }
    let pairs = [
        ("queue", filter.queue.as_ref().map(ToString::to_string)),
        ("kind", filter.kind.as_ref().map(ToString::to_string)),
        ("key", filter.key.as_ref().map(ToString::to_string)),
        ("since", filter.since.map(|at| at.to_string())),
        ("until", filter.until.map(|at| at.to_string())),
        ("text", filter.text.clone()),
        ("cursor", after.map(|Cursor(at)| at.to_string())),
    ];
    for (name, value) in pairs {
        if let Some(value) = value {
            query.append_pair(name, &value);
        }
    }
    query.finish()
}

fn odd(what: &str) -> StoreError {
    StoreError::Unavailable(format!("the server's answer has {what} that cannot be read"))
}
