//! The store itself, and the list of what it does. Each verb lives in the file
//! of its noun; here they are only tied to the traits.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::audit::{AuditBite, AuditFrom};
use windlass_core::eligible::Explanation;
use windlass_core::error::StoreError;
use windlass_core::event::{Action, Event, Position};
use windlass_core::id::{
    BudgetName, JobId, Label, QueueName, RecordKey, ScheduleName, ShelfName, WorkerName,
};
use windlass_core::job::{Job, NewJob};
use windlass_core::log::{self, LogPage, LogWrite};
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::policy::schedule::{Schedule, SchedulePolicy};
use windlass_core::query::{Counted, JobFilter, ListRequest, Page, QueueStatus, WorkerStatus};
use windlass_core::record::{
    BatchAnswer, Record, RecordBatch, RecordPage, Records, Scan, check_read, check_text,
};
use windlass_core::store::{
    BudgetStatus, CancelAnswer, Capabilities, ClaimAnswer, ClaimRequest, DeleteAnswer, Enqueued, EpochStatus,
    Expired, Fired, Holder, LeaseRef, OfferFn, ProgressWrite, QueueDeletion, RenewAnswer, Rerun, RerunAnswer,
    RetryAnswer, Risk, RunNowAnswer, Settlement, Source, Spent, StepWrite, Store, WakeFn, WorkerBeat,
    Written, check_jobs, check_steered,
};
use windlass_core::time::Time;
use windlass_core::wake::{Registration, Work};

use crate::bounds::Bounds;
use crate::connect::Connections;
use crate::error::Fault;
use crate::gather::{Entered, Gather};
use crate::link::Link;
use crate::offers::Offers;
use crate::pulse::Pulse;
use crate::risks::Limits;
use crate::room::Room;
use crate::scribe::Scribe;
use crate::wake::Wake;

/// How often a call that collided with another is made again.
pub(crate) const TRIES_MAX: u32 = 10;

/// Jobs in a Postgres database.
pub struct PostgresStore {
    pub(crate) wake: Wake,
    offers: Arc<Offers>,
    gather: Gather,
    scribe: Scribe,
    room: Room,
    pub(crate) bounds: Bounds,
    /// Last, since fields are dropped in order: what uses them goes first.
    connections: Arc<Connections>,
}

/// Makes a call, with a limit of time, again when it collided with another.
macro_rules! call {
    ($store:expr, $once:expr) => {{
        let mut tries = 0;
        loop {
            tries += 1;
            match $store.pulse().wait($once).await {
                Ok(Ok(answer)) => break Ok(answer),
                Ok(Err($crate::error::Fault::Collided(why))) if tries < $crate::store::TRIES_MAX => {
                    tracing::debug!(tries, why, "collided with another call; trying again");
                }
                Ok(Err(fault)) => break Err($crate::connect::settled(fault)),
                Err(late) => break Err(late),
            }
        }
    }};
}

pub(crate) use call;

impl PostgresStore {
    pub(crate) fn new(wake: Wake, connections: Connections) -> Self {
        let connections = Arc::new(connections);
        let offers = Arc::new(Offers::default());
        let gather = Gather::new(Arc::clone(&connections), Arc::clone(&offers));
        let scribe = Scribe::new(Arc::clone(&connections));
        Self { wake, offers, gather, scribe, room: Room::default(), bounds: Bounds::default(), connections }
    }

    /// Whether a transaction pooler stands in between.
    pub(crate) fn is_pooled(&self) -> bool {
        self.connections.pooled
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.connections
    }

    /// For how long others have not been heard; nothing while they are.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        self.wake.silent_for()
    }

    pub(crate) fn pulse(&self) -> &Pulse {
        self.connections.pulse()
    }

    /// The time that a test injected; nothing lets the database's clock decide.
    pub(crate) fn given_now(&self) -> Option<i64> {
        self.connections.given_now()
    }

    /// A connection for enqueues, claims and questions.
    pub(crate) async fn link(&self) -> Result<Link, Fault> {
        self.connections.link().await
    }

    /// A connection for what a worker must be able to write at any time.
    pub(crate) async fn reserved_link(&self) -> Result<Link, Fault> {
        self.connections.reserved_link().await
    }
}

#[async_trait]
impl Source for PostgresStore {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        windlass_core::book::claim::check(&request)?;
        call!(self, self.claim_once(&request))
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        call!(self, self.renew_once(&leases))
    }

    async fn cancels(&self, leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        call!(self, self.cancels_once(&leases))
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        call!(self, self.store_steps_once(&steps))
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        call!(self, self.progress_once(&reports))
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        call!(self, self.settle_once(&settlements))
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        call!(self, self.expire_once())
    }

    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError> {
        call!(self, self.spend_once(&budget, amount))
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        call!(self, self.cool_down_once(&budget, for_ms))
    }

    fn on_work(&self, wake: WakeFn) -> Registration {
        self.wake.register(wake)
    }

    fn on_commit(&self, offer: OfferFn) -> Registration {
        self.offers.0.add(offer)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { tells: self.wake.listens(), claims_at_once: 2, shares_commits: true }
    }
}

#[async_trait]
impl Store for PostgresStore {
    fn records(&self) -> Result<&dyn Records, StoreError> {
        Ok(self)
    }

    async fn put_log(&self, write: LogWrite) -> Result<Written, StoreError> {
        log::put(self.records()?, write).await
    }

    async fn logs(&self, job: JobId) -> Result<Vec<LogPage>, StoreError> {
        log::read(self.records()?, job).await
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        check_jobs(&jobs)?;
        let work = Work::in_queues(jobs.iter().map(|job| &job.spec.queue));
        let entered = self.gather.enqueue(jobs).await;
        self.room.hear(&entered);
        let Entered { answers, taken } = entered?;
        if !taken && answers.iter().any(|answer| !answer.deduplicated) {
            self.wake.work(work);
        }
        Ok(answers)
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        call!(self, self.get_once(id))
    }

    async fn holders(&self, jobs: Vec<JobId>) -> Result<Vec<Holder>, StoreError> {
        call!(self, self.holders_once(&jobs))
    }

    async fn list(&self, request: ListRequest) -> Result<Page, StoreError> {
        let request = ListRequest { filter: request.filter.checked()?, ..request };
        call!(self, self.list_once(&request))
    }

    async fn count_jobs(&self, filter: JobFilter) -> Result<Counted, StoreError> {
        let filter = filter.checked()?;
        call!(self, self.count_jobs_once(&filter))
    }

    async fn cancel_all(&self, ids: Vec<JobId>) -> Result<Vec<CancelAnswer>, StoreError> {
        check_steered(&ids)?;
        call!(self, self.cancel_once(&ids))
    }

    async fn retry_all(&self, ids: Vec<JobId>) -> Result<Vec<RetryAnswer>, StoreError> {
        check_steered(&ids)?;
        call!(self, self.retry_once(&ids))
    }

    async fn run_now_all(&self, ids: Vec<JobId>) -> Result<Vec<RunNowAnswer>, StoreError> {
        check_steered(&ids)?;
        call!(self, self.run_now_once(&ids))
    }

    async fn rerun_all(&self, wishes: Vec<Rerun>) -> Result<Vec<RerunAnswer>, StoreError> {
        check_steered(&wishes)?;
        call!(self, self.rerun_once(&wishes))
    }

    async fn delete_all(&self, ids: Vec<JobId>) -> Result<Vec<DeleteAnswer>, StoreError> {
        check_steered(&ids)?;
        call!(self, self.delete_once(&ids))
    }

    async fn explain(&self, id: JobId) -> Result<Option<Explanation>, StoreError> {
        call!(self, self.explain_once(id))
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        call!(self, self.queues_once())
    }

    async fn put_queue(&self, name: QueueName, policy: QueuePolicy) -> Result<(), StoreError> {
        let policy = policy.checked()?;
        call!(self, self.put_queue_once(&name, &policy))
    }

    async fn pause_queue(&self, name: QueueName, paused: bool) -> Result<(), StoreError> {
        call!(self, self.pause_queue_once(&name, paused))
    }

    async fn delete_queue(&self, name: QueueName) -> Result<QueueDeletion, StoreError> {
        call!(self, self.delete_queue_once(&name))
    }

    async fn budgets(&self) -> Result<Vec<BudgetStatus>, StoreError> {
        call!(self, self.budgets_once())
    }

    async fn put_budget(&self, name: BudgetName, policy: BudgetPolicy) -> Result<(), StoreError> {
        call!(self, self.put_budget_once(&name, policy))
    }

    async fn delete_budget(&self, name: BudgetName) -> Result<bool, StoreError> {
        call!(self, self.delete_budget_once(&name))
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        call!(self, self.schedules_once())
    }

    async fn put_schedule(&self, name: ScheduleName, policy: SchedulePolicy) -> Result<(), StoreError> {
        let policy = policy.checked()?;
        call!(self, self.put_schedule_once(&name, &policy))
    }

    async fn delete_schedule(&self, name: ScheduleName) -> Result<bool, StoreError> {
        call!(self, self.delete_schedule_once(&name))
    }

    async fn fire_schedules(&self) -> Result<Fired, StoreError> {
        call!(self, self.fire_schedules_once())
    }

    async fn beat(&self, worker: WorkerBeat) -> Result<(), StoreError> {
        call!(self, self.beat_once(&worker))
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        call!(self, self.workers_once())
    }

    async fn forget_worker(&self, name: WorkerName) -> Result<(), StoreError> {
        call!(self, self.forget_worker_once(&name))
    }

    async fn prune(&self) -> Result<u64, StoreError> {
        call!(self, self.prune_once())
    }

    async fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError> {
        call!(self, self.events_once(since, limit))
    }

    async fn act(&self, action: Action) -> Result<(), StoreError> {
        let action = action.checked()?;
        call!(self, self.act_once(&action))
    }

    async fn events_end(&self) -> Result<Position, StoreError> {
        call!(self, self.events_end_once())
    }

    async fn audit_bite(&self, from: AuditFrom) -> Result<AuditBite, StoreError> {
        call!(self, self.audit_once(from))
    }

    async fn now(&self) -> Result<Time, StoreError> {
        call!(self, self.now_once())
    }

    async fn accepts(&self) -> Result<(), StoreError> {
        self.now().await?;
        if self.room.is_doubted() {
            let tried = call!(self, self.trial_once());
            self.room.hear(&tried);
            tried?;
        }
        Ok(())
    }

    async fn risks(&self) -> Result<Vec<Risk>, StoreError> {
        self.risks_from(Limits::default()).await
    }

    async fn epoch(&self) -> Result<EpochStatus, StoreError> {
        call!(self, self.epoch_once())
    }
}

#[async_trait]
impl Records for PostgresStore {
    async fn write(&self, batch: RecordBatch) -> Result<BatchAnswer, StoreError> {
        batch.checked()?;
        let work = Work::in_queues(batch.jobs.iter().map(|job| &job.spec.queue));
        let answer = self.scribe.write(batch).await?;
        if matches!(&answer, BatchAnswer::Done { jobs, .. } if jobs.iter().any(|job| !job.deduplicated)) {
            self.wake.work(work);
        }
        Ok(answer)
    }

    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError> {
        check_read(&keys)?;
        call!(self, self.read_once(&shelf, &keys))
    }

    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError> {
        let scan = scan.checked()?;
        call!(self, self.scan_once(&scan))
    }

    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError> {
        check_text("prefix", &prefix)?;
        call!(self, self.count_once(&shelf, &prefix))
    }
}
