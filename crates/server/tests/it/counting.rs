//! A store in memory that counts the claims and cancels that it sees, and whose audits can take their time.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use windlass_engine::core::audit::{AuditBite, AuditFrom};
use windlass_engine::core::eligible::Explanation;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::event::{Action, Event, Position};
use windlass_engine::core::id::{BudgetName, JobId, QueueName, ScheduleName, WorkerName};
use windlass_engine::core::job::{Job, NewJob};
use windlass_engine::core::memory::MemoryStore;
use windlass_engine::core::policy::budget::BudgetPolicy;
use windlass_engine::core::policy::queue::QueuePolicy;
use windlass_engine::core::policy::schedule::{Schedule, SchedulePolicy};
use windlass_engine::core::query::{ListRequest, Page, QueueStatus, WorkerStatus};
use windlass_engine::core::store::*;
use windlass_engine::core::time::Time;
use windlass_engine::core::wake::Registration;
use windlass_engine::world::SimWorld;

pub struct Counting {
    inner: MemoryStore,
    claims: Mutex<BTreeMap<QueueName, u32>>,
    cancels: Mutex<Vec<usize>>,
    audits: Option<(SimWorld, u64)>,
}

impl Counting {
    pub fn new(inner: MemoryStore) -> Self {
        Self { inner, claims: Mutex::default(), cancels: Mutex::default(), audits: None }
    }

    /// An audit of it has ten bites, each of so long.
    pub fn auditing(inner: MemoryStore, world: SimWorld, bite_ms: u64) -> Self {
        Self { audits: Some((world, bite_ms)), ..Self::new(inner) }
    }

    /// How many jobs each cancel had.
    pub fn cancels(&self) -> Vec<usize> {
        self.cancels.lock().unwrap().clone()
    }

    /// How many claims have named a queue.
    pub fn claims(&self) -> BTreeMap<QueueName, u32> {
        self.claims.lock().unwrap().clone()
    }
}

#[async_trait]
impl Source for Counting {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        for queue in &request.queues {
            *self.claims.lock().unwrap().entry(queue.clone()).or_default() += 1;
        }
        self.inner.claim(request).await
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        self.inner.renew(leases).await
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        self.inner.store_steps(steps).await
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        self.inner.progress(reports).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        self.inner.settle(settlements).await
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        self.inner.expire().await
    }

    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError> {
        self.inner.spend(budget, amount).await
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        self.inner.cool_down(budget, for_ms).await
    }

    fn on_work(&self, wake: WakeFn) -> Registration {
        self.inner.on_work(wake)
    }
}

#[async_trait]
impl Store for Counting {
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        self.inner.enqueue(jobs).await
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.inner.get(id).await
    }

    async fn list(&self, request: ListRequest) -> Result<Page, StoreError> {
        self.inner.list(request).await
    }

    async fn cancel_all(&self, ids: Vec<JobId>) -> Result<Vec<CancelAnswer>, StoreError> {
        self.cancels.lock().unwrap().push(ids.len());
        self.inner.cancel_all(ids).await
    }

    async fn retry_all(&self, ids: Vec<JobId>) -> Result<Vec<RetryAnswer>, StoreError> {
        self.inner.retry_all(ids).await
    }

    async fn run_now_all(&self, ids: Vec<JobId>) -> Result<Vec<RunNowAnswer>, StoreError> {
        self.inner.run_now_all(ids).await
    }

    async fn rerun_all(&self, wishes: Vec<Rerun>) -> Result<Vec<RerunAnswer>, StoreError> {
        self.inner.rerun_all(wishes).await
    }

    async fn delete_all(&self, ids: Vec<JobId>) -> Result<Vec<DeleteAnswer>, StoreError> {
        self.inner.delete_all(ids).await
    }

    async fn explain(&self, id: JobId) -> Result<Option<Explanation>, StoreError> {
        self.inner.explain(id).await
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        self.inner.queues().await
    }

    async fn put_queue(&self, name: QueueName, policy: QueuePolicy) -> Result<(), StoreError> {
        self.inner.put_queue(name, policy).await
    }

    async fn pause_queue(&self, name: QueueName, paused: bool) -> Result<(), StoreError> {
        self.inner.pause_queue(name, paused).await
    }

    async fn delete_queue(&self, name: QueueName) -> Result<QueueDeletion, StoreError> {
        self.inner.delete_queue(name).await
    }

    async fn budgets(&self) -> Result<Vec<BudgetStatus>, StoreError> {
        self.inner.budgets().await
    }

    async fn put_budget(&self, name: BudgetName, policy: BudgetPolicy) -> Result<(), StoreError> {
        self.inner.put_budget(name, policy).await
    }

    async fn delete_budget(&self, name: BudgetName) -> Result<bool, StoreError> {
        self.inner.delete_budget(name).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        self.inner.schedules().await
    }

    async fn put_schedule(&self, name: ScheduleName, policy: SchedulePolicy) -> Result<(), StoreError> {
        self.inner.put_schedule(name, policy).await
    }

    async fn delete_schedule(&self, name: ScheduleName) -> Result<bool, StoreError> {
        self.inner.delete_schedule(name).await
    }

    async fn fire_schedules(&self) -> Result<Fired, StoreError> {
        self.inner.fire_schedules().await
    }

    async fn beat(&self, worker: WorkerBeat) -> Result<(), StoreError> {
        self.inner.beat(worker).await
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        self.inner.workers().await
    }

    async fn forget_worker(&self, name: WorkerName) -> Result<(), StoreError> {
        self.inner.forget_worker(name).await
    }

    async fn prune(&self) -> Result<u64, StoreError> {
        self.inner.prune().await
    }

    async fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.inner.events(since, limit).await
    }

    async fn act(&self, action: Action) -> Result<(), StoreError> {
        self.inner.act(action).await
    }

    async fn events_end(&self) -> Result<Position, StoreError> {
        self.inner.events_end().await
    }

    async fn audit_bite(&self, from: AuditFrom) -> Result<AuditBite, StoreError> {
        let bite = self.inner.audit_bite(from).await?;
        let Some((world, bite_ms)) = &self.audits else { return Ok(bite) };
        world.advance(*bite_ms);
        let next = Some(AuditFrom { part: 0, at: from.at + 1 }).filter(|next| next.at < 10);
        Ok(AuditBite { next, done: from.at + 1, of: 10, ..bite })
    }

    async fn now(&self) -> Result<Time, StoreError> {
        self.inner.now().await
    }

    async fn epoch(&self) -> Result<windlass_engine::core::store::EpochStatus, StoreError> {
        self.inner.epoch().await
    }
}
