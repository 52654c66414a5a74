//! The client: enqueue jobs, look at them, stop them.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use windlass_core::error::{Invalid, StoreError};
use windlass_core::id::{BudgetName, DedupeKey, JobId, Key, Kind, QueueName};
use windlass_core::job::{Job, JobSpec, NewJob, Start};
use windlass_core::json::{Json, META_BYTES_MAX, PAYLOAD_BYTES_MAX};
use windlass_core::policy::ladder::RetryRule;
use windlass_core::store::{CancelAnswer, Enqueued, RetryAnswer, Store};
use windlass_core::time::{Span, Time};

use crate::batcher::Batcher;
use crate::payload::Payload;
use crate::world::{Ids, RealWorld, World};

/// Enqueues jobs into a store, and asks about them. Cheap to clone.
///
/// Calls that come at the same time share a commit; each is answered when its
/// own jobs are durable.
#[derive(Clone)]
pub struct Client {
    store: Arc<dyn Store>,
    world: Arc<dyn World>,
    batcher: Batcher,
}

impl Client {
    /// A client of `store`.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::in_world(store, Arc::new(RealWorld::new()))
    }

    /// A client in a world of its own, for tests.
    pub fn in_world(store: Arc<dyn Store>, world: Arc<dyn World>) -> Self {
        let batcher = Batcher::new(store.clone());
        Self { store, world, batcher }
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Enqueues a job that carries `payload`.
    pub async fn enqueue<P: Payload>(&self, payload: P) -> Result<Enqueued, StoreError> {
        self.enqueue_job(NewJobBuilder::of(&payload)?).await
    }

    /// Enqueues a job with options.
    pub async fn enqueue_job(&self, job: NewJobBuilder) -> Result<Enqueued, StoreError> {
        self.enqueue_new(job.build(&mut Ids::new(&*self.world))?).await
    }

    /// Enqueues a job that was put together elsewhere, and checked there.
    pub async fn enqueue_new(&self, job: NewJob) -> Result<Enqueued, StoreError> {
        let answers = self.batcher.enqueue(vec![job]).await?;
        answers.into_iter().next().ok_or_else(|| StoreError::Broken("enqueue gave no answer".into()))
    }

    /// Enqueues jobs, all or none.
    pub async fn enqueue_all(&self, jobs: Vec<NewJobBuilder>) -> Result<Vec<Enqueued>, StoreError> {
        let mut ids = Ids::new(&*self.world);
        let jobs: Result<Vec<NewJob>, Invalid> = jobs.into_iter().map(|job| job.build(&mut ids)).collect();
        self.batcher.enqueue(jobs?).await
    }

    /// One job with all that is known of it.
    pub async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.store.get(id).await
    }

    /// Asks for a job to be canceled.
    pub async fn cancel(&self, id: JobId) -> Result<CancelAnswer, StoreError> {
        self.store.cancel(id).await
    }

    /// Starts a new life of a final job.
    pub async fn retry(&self, id: JobId) -> Result<RetryAnswer, StoreError> {
        self.store.retry(id).await
    }
}

/// A job to be enqueued, with its options.
///
/// ```
/// use std::time::Duration;
/// use windlass::NewJobBuilder;
///
/// # fn main() -> Result<(), windlass::core::error::Invalid> {
/// let job = NewJobBuilder::new("sync-shop", &serde_json::json!({"shop": 7}))?
///     .queue("etsy")?
///     .key("shop-7")?
///     .priority(10)
///     .delay(Duration::from_secs(60));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct NewJobBuilder {
    id: Option<JobId>,
    spec: JobSpec,
    start: Start,
}

impl NewJobBuilder {
    /// A job of a kind, with a payload that can be written as JSON.
    pub fn new<T: Serialize + ?Sized>(kind: &str, payload: &T) -> Result<Self, Invalid> {
        Self::in_queue(QueueName::default(), kind, payload)
    }

    /// A job that carries `payload`.
    pub fn of<P: Payload>(payload: &P) -> Result<Self, Invalid> {
        Self::in_queue(QueueName::new(P::QUEUE)?, P::KIND, payload)
    }

    fn in_queue<T: Serialize + ?Sized>(queue: QueueName, kind: &str, payload: &T) -> Result<Self, Invalid> {
        let payload = Json::from_value("payload", payload, PAYLOAD_BYTES_MAX)?;
        let spec = JobSpec::new(Kind::new(kind)?, queue, payload);
        Ok(Self { id: None, spec, start: Start::Now })
    }

    /// An id of the caller's own: enqueueing it again answers with the same job.
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// The queue.
    pub fn queue(mut self, queue: &str) -> Result<Self, Invalid> {
        self.spec.queue = QueueName::new(queue)?;
        Ok(self)
    }

    /// Higher first.
    pub fn priority(mut self, priority: i16) -> Self {
        self.spec.priority = priority;
        self
    }

    /// Not before this moment.
    pub fn run_at(mut self, at: Time) -> Self {
        self.start = Start::At(at);
        self
    }

    /// Not before `delay` has passed, by the store's clock.
    pub fn delay(mut self, delay: Duration) -> Self {
        let ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        self.start = Start::AfterMs(Span::from_ms(ms).ms());
        self
    }

    /// Of the running jobs of the queue, at most one has this key.
    pub fn key(mut self, key: &str) -> Result<Self, Invalid> {
        self.spec.key = Some(Key::new(key)?);
        Ok(self)
    }

    /// While a job with this dedupe key is not final, enqueueing answers with that one.
    pub fn dedupe_key(mut self, key: &str) -> Result<Self, Invalid> {
        self.spec.dedupe_key = Some(DedupeKey::new(key)?);
        Ok(self)
    }

    /// A budget that must allow the job.
    pub fn budget(mut self, budget: &str) -> Result<Self, Invalid> {
        self.spec.budgets.push(BudgetName::new(budget)?);
        Ok(self)
    }

    /// Delays between attempts such as `1m 5m 1h`, instead of the queue's.
    pub fn ladder(mut self, ladder: &str) -> Result<Self, Invalid> {
        self.spec.retry = Some(RetryRule { ladder: ladder.parse()?, max_attempts: None });
        Ok(self)
    }

    /// How long one attempt may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.spec.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1));
        self
    }

    /// What the caller wants to remember.
    pub fn meta<T: Serialize + ?Sized>(mut self, meta: &T) -> Result<Self, Invalid> {
        self.spec.meta = Some(Json::from_value("meta", meta, META_BYTES_MAX)?);
        Ok(self)
    }

    fn build(self, ids: &mut Ids<'_>) -> Result<NewJob, Invalid> {
        let id = self.id.unwrap_or_else(|| ids.make());
        Ok(NewJob { id, spec: self.spec.checked()?, start: self.start })
    }
}
