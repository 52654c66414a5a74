//! A store as a process sees it that is killed at its n-th operation: before that operation is done, or after it
//! and before anybody hears of it. From then on nothing is answered any more.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_engine::core::audit::{AuditBite, AuditFrom};
use windlass_engine::core::eligible::Explanation;
use windlass_engine::core::event::{Action, Event, Position};
use windlass_engine::core::id::{Label, RecordKey, ShelfName};
use windlass_engine::core::job::{Job, NewJob};
use windlass_engine::core::policy::schedule::{Schedule, SchedulePolicy};
use windlass_engine::core::query::{ListRequest, Page, QueueStatus, WorkerStatus};
use windlass_engine::core::record::{BatchAnswer, Record, RecordBatch, RecordPage, Records, Scan};
use windlass_engine::core::store::*;
use windlass_engine::core::wake::Registration;
use windlass_engine::testing::MemoryStore;
use windlass_engine::*;

/// When a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// At which operation, counted from 1.
    pub at: u64,
    /// Whether that operation is done.
    pub done: bool,
}

pub struct Dying {
    store: Arc<MemoryStore>,
    death: Option<Death>,
    count: AtomicU64,
    dead: AtomicBool,
    /// While it is so, the store does not answer.
    pub away: AtomicBool,
    /// How many records each batch wrote.
    pub writes: std::sync::Mutex<Vec<usize>>,
    died: watch::Sender<bool>,
}

impl Dying {
    pub fn new(store: Arc<MemoryStore>, death: Option<Death>) -> Arc<Self> {
        let (count, dead) = (AtomicU64::new(0), AtomicBool::new(false));
        let (away, writes) = (AtomicBool::new(false), Default::default());
        Arc::new(Self { store, death, count, dead, away, writes, died: watch::Sender::new(false) })
    }

    /// kill -9, from outside.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// Waits for the death.
    pub async fn died(&self) {
        let _ = self.died.subscribe().wait_for(|died| *died).await;
    }

    async fn op<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("it is away".to_owned()));
        }
        let at = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let dies = self.death.filter(|death| death.at == at);
        if let Some(death) = dies {
            self.dead.store(true, Ordering::SeqCst);
            if death.done {
                let _ = work.await;
            }
            self.died.send_replace(true);
            std::future::pending::<()>().await;
            unreachable!();
        }
        work.await
    }
}

#[async_trait]
impl Source for Dying {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        self.op(self.store.claim(request)).await
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        self.op(self.store.renew(leases)).await
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        self.op(self.store.store_steps(steps)).await
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        self.op(self.store.progress(reports)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        self.op(self.store.settle(settlements)).await
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        self.op(self.store.expire()).await
    }

    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError> {
        self.op(self.store.spend(budget, amount)).await
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        self.op(self.store.cool_down(budget, for_ms)).await
    }

    fn on_work(&self, wake: WakeFn) -> Registration {
        self.store.on_work(wake)
    }
}

#[async_trait]
impl Store for Dying {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        self.op(self.store.enqueue(jobs)).await
    }

    fn records(&self) -> Result<&dyn Records, StoreError> {
        Ok(self)
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.op(self.store.get(id)).await
    }

    async fn list(&self, request: ListRequest) -> Result<Page, StoreError> {
        self.op(self.store.list(request)).await
    }

    async fn cancel_all(&self, ids: Vec<JobId>) -> Result<Vec<CancelAnswer>, StoreError> {
        self.op(self.store.cancel_all(ids)).await
    }

    async fn retry_all(&self, ids: Vec<JobId>) -> Result<Vec<RetryAnswer>, StoreError> {
        self.op(self.store.retry_all(ids)).await
    }

    async fn run_now_all(&self, ids: Vec<JobId>) -> Result<Vec<RunNowAnswer>, StoreError> {
        self.op(self.store.run_now_all(ids)).await
    }

    async fn rerun_all(&self, wishes: Vec<Rerun>) -> Result<Vec<RerunAnswer>, StoreError> {
        self.op(self.store.rerun_all(wishes)).await
    }

    async fn delete_all(&self, ids: Vec<JobId>) -> Result<Vec<DeleteAnswer>, StoreError> {
        self.op(self.store.delete_all(ids)).await
    }

    async fn explain(&self, id: JobId) -> Result<Option<Explanation>, StoreError> {
        self.op(self.store.explain(id)).await
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        self.op(self.store.queues()).await
    }

    async fn put_queue(&self, name: QueueName, policy: QueuePolicy) -> Result<(), StoreError> {
        self.op(self.store.put_queue(name, policy)).await
    }

    async fn pause_queue(&self, name: QueueName, paused: bool) -> Result<(), StoreError> {
        self.op(self.store.pause_queue(name, paused)).await
    }

    async fn delete_queue(&self, name: QueueName) -> Result<QueueDeletion, StoreError> {
        self.op(self.store.delete_queue(name)).await
    }

    async fn budgets(&self) -> Result<Vec<BudgetStatus>, StoreError> {
        self.op(self.store.budgets()).await
    }

    async fn put_budget(&self, name: BudgetName, policy: BudgetPolicy) -> Result<(), StoreError> {
        self.op(self.store.put_budget(name, policy)).await
    }

    async fn delete_budget(&self, name: BudgetName) -> Result<bool, StoreError> {
        self.op(self.store.delete_budget(name)).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        self.op(self.store.schedules()).await
    }

    async fn put_schedule(&self, name: ScheduleName, policy: SchedulePolicy) -> Result<(), StoreError> {
        self.op(self.store.put_schedule(name, policy)).await
    }

    async fn delete_schedule(&self, name: ScheduleName) -> Result<bool, StoreError> {
        self.op(self.store.delete_schedule(name)).await
    }

    async fn fire_schedules(&self) -> Result<Fired, StoreError> {
        self.op(self.store.fire_schedules()).await
    }

    async fn beat(&self, worker: WorkerBeat) -> Result<(), StoreError> {
        self.op(self.store.beat(worker)).await
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        self.op(self.store.workers()).await
    }

    async fn forget_worker(&self, name: WorkerName) -> Result<(), StoreError> {
        self.op(self.store.forget_worker(name)).await
    }

    async fn prune(&self) -> Result<u64, StoreError> {
        self.op(self.store.prune()).await
    }

    async fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.op(self.store.events(since, limit)).await
    }

    async fn act(&self, action: Action) -> Result<(), StoreError> {
        self.op(self.store.act(action)).await
    }

    async fn events_end(&self) -> Result<Position, StoreError> {
        self.op(self.store.events_end()).await
    }

    async fn audit_bite(&self, from: AuditFrom) -> Result<AuditBite, StoreError> {
        self.op(self.store.audit_bite(from)).await
    }

    async fn now(&self) -> Result<Time, StoreError> {
        self.op(self.store.now()).await
    }

    async fn epoch(&self) -> Result<windlass_engine::core::store::EpochStatus, StoreError> {
        self.op(self.store.epoch()).await
    }
}

#[async_trait]
impl Records for Dying {
    async fn write(&self, batch: RecordBatch) -> Result<BatchAnswer, StoreError> {
        self.writes.lock().unwrap().push(batch.writes.len());
        self.op(self.store.write(batch)).await
    }

    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError> {
        self.op(self.store.read(shelf, keys)).await
    }

    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError> {
        self.op(self.store.scan(scan)).await
    }

    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError> {
        self.op(self.store.count(shelf, prefix)).await
    }
}
