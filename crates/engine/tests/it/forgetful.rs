//! A store in memory that loses the answers to writes of records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use windlass_engine::core::audit::{AuditBite, AuditFrom};
use windlass_engine::core::eligible::Explanation;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::event::{Action, Event, Position};
use windlass_engine::core::id::*;
use windlass_engine::core::job::{Job, NewJob};
use windlass_engine::core::policy::budget::BudgetPolicy;
use windlass_engine::core::policy::queue::QueuePolicy;
use windlass_engine::core::policy::schedule::{Schedule, SchedulePolicy};
use windlass_engine::core::query::{ListRequest, Page, QueueStatus, WorkerStatus};
use windlass_engine::core::record::{BatchAnswer, Record, RecordBatch, RecordPage, Records, Scan};
use windlass_engine::core::store::*;
use windlass_engine::core::time::Time;
use windlass_engine::core::wake::Registration;
use windlass_engine::testing::MemoryStore;

/// Passes everything on, and loses answers.
pub struct Forgetful {
    inner: Arc<MemoryStore>,
    lost: AtomicU32,
    full: AtomicBool,
    writes: AtomicU32,
}

impl Forgetful {
    pub fn new(inner: Arc<MemoryStore>) -> Self {
        Self { inner, lost: AtomicU32::new(0), full: AtomicBool::new(false), writes: AtomicU32::new(0) }
    }

    /// The next so many writes are done, and nobody hears of it.
    pub fn lose(&self, answers: u32) {
        self.lost.store(answers, Ordering::SeqCst);
    }

    /// It takes no more.
    pub fn fill(&self) {
        self.full.store(true, Ordering::SeqCst);
    }

    /// How often it was asked to write.
    pub fn writes(&self) -> u32 {
        self.writes.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Records for Forgetful {
    async fn write(&self, batch: RecordBatch) -> Result<BatchAnswer, StoreError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        if self.full.load(Ordering::SeqCst) {
            return Err(StoreError::Full("no more room".into()));
        }
        let answer = Records::write(&*self.inner, batch).await?;
        match self.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Err(StoreError::Unavailable("the line was cut".into())),
            Err(_) => Ok(answer),
        }
    }

    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError> {
        self.inner.read(shelf, keys).await
    }

    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError> {
        self.inner.scan(scan).await
    }

    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError> {
        self.inner.count(shelf, prefix).await
    }
}

/// The rest of a store, as the one inside answers.
macro_rules! passed_on {
    ($trait:ident { $($kept:item)* } $($verb:ident($($given:ident: $type:ty),*) -> $answer:ty;)*) => {
        #[async_trait]
        impl $trait for Forgetful {
            $($kept)*
            $(
                async fn $verb(&self, $($given: $type),*) -> Result<$answer, StoreError> {
                    self.inner.$verb($($given),*).await
                }
            )*
        }
    };
}

passed_on! {
    Source {
        fn on_work(&self, wake: WakeFn) -> Registration { self.inner.on_work(wake) }
    }
    claim(request: ClaimRequest) -> ClaimAnswer;
    renew(leases: Vec<LeaseRef>) -> RenewAnswer;
    store_steps(steps: Vec<StepWrite>) -> Vec<Written>;
    progress(reports: Vec<ProgressWrite>) -> Vec<Written>;
    settle(settlements: Vec<Settlement>) -> Vec<Written>;
    expire() -> Expired;
    spend(budget: BudgetName, amount: u32) -> Spent;
    cool_down(budget: BudgetName, for_ms: u64) -> ();
}

passed_on! {
    Store {
        fn records(&self) -> Result<&dyn Records, StoreError> { Ok(self) }
    }
    enqueue(jobs: Vec<NewJob>) -> Vec<Enqueued>;
    get(id: JobId) -> Option<Job>;
    list(request: ListRequest) -> Page;
    cancel_all(ids: Vec<JobId>) -> Vec<CancelAnswer>;
    retry_all(ids: Vec<JobId>) -> Vec<RetryAnswer>;
    run_now_all(ids: Vec<JobId>) -> Vec<RunNowAnswer>;
    rerun_all(wishes: Vec<Rerun>) -> Vec<RerunAnswer>;
    delete_all(ids: Vec<JobId>) -> Vec<DeleteAnswer>;
    delete_queue(name: QueueName) -> QueueDeletion;
    delete_budget(name: BudgetName) -> bool;
    explain(id: JobId) -> Option<Explanation>;
    queues() -> Vec<QueueStatus>;
    put_queue(name: QueueName, policy: QueuePolicy) -> ();
    pause_queue(name: QueueName, paused: bool) -> ();
    budgets() -> Vec<BudgetStatus>;
    put_budget(name: BudgetName, policy: BudgetPolicy) -> ();
    schedules() -> Vec<Schedule>;
    put_schedule(name: ScheduleName, policy: SchedulePolicy) -> ();
    delete_schedule(name: ScheduleName) -> bool;
    fire_schedules() -> Fired;
    beat(worker: WorkerBeat) -> ();
    workers() -> Vec<WorkerStatus>;
    forget_worker(name: WorkerName) -> ();
    prune() -> u64;
    act(action: Action) -> ();
    events(since: Option<Position>, limit: u32) -> Vec<Event>;
    events_end() -> Position;
    audit_bite(from: AuditFrom) -> AuditBite;
    now() -> Time;
    epoch() -> EpochStatus;
}
