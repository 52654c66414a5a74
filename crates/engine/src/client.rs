//! The client: enqueue jobs, wait for them, stop them.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::sync::Arc;

use windlass_core::error::{Invalid, StoreError};
use windlass_core::id::{JobId, ScheduleName};
use windlass_core::job::{Job as JobRecord, NewJob};
use windlass_core::store::{CancelAnswer, Enqueued, RetryAnswer, Store};

use crate::batcher::Batcher;
use crate::job::Job;
use crate::request::JobRequest;
use crate::schedule::ScheduleRequest;
use crate::shelf::{Batch, Shelf};
use crate::waiting::{JobHandle, WaitError, output_of};
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

/// A job that a client will enqueue when it is awaited.
pub type Enqueue<'c, O> = JobRequest<O, &'c Client>;

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

    pub(crate) fn world(&self) -> &dyn World {
        &*self.world
    }

    /// Enqueues a job. Options can be said before it is awaited, and whatever is
    /// wrong with them is the one error at the end.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass_engine::{Client, Job};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct SendMail { to: String }
    /// # impl Job for SendMail { const KIND: &'static str = "send-mail"; type Output = (); }
    /// # async fn doc(client: Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let to = "ada@example.com".to_owned();
    /// client.enqueue(SendMail { to }).key("shop-7").delay(Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn enqueue<O>(&self, job: impl Into<JobRequest<O>>) -> Enqueue<'_, O> {
        job.into().given_to(self)
    }

    /// Enqueues jobs, all or none, and answers in their order.
    pub async fn enqueue_many<O, R: Into<JobRequest<O>>>(
        &self,
        jobs: impl IntoIterator<Item = R>,
    ) -> Result<Vec<JobHandle<O>>, StoreError> {
        let mut ids = Ids::new(&*self.world);
        let jobs: Result<Vec<NewJob>, Invalid> =
            jobs.into_iter().map(|job| job.into().build_with(&mut ids)).collect();
        let enqueued = self.batcher.enqueue(jobs?).await?;
        Ok(enqueued.into_iter().map(|enqueued| JobHandle::new(self.clone(), enqueued)).collect())
    }

    /// Enqueues a job that was put together elsewhere, and checked there.
    pub async fn enqueue_new(&self, job: NewJob) -> Result<Enqueued, StoreError> {
        let answers = self.batcher.enqueue(vec![job]).await?;
        answers.into_iter().next().ok_or_else(|| StoreError::Broken("enqueue gave no answer".into()))
    }

    /// One job with all that is known of it.
    pub async fn get(&self, id: JobId) -> Result<Option<JobRecord>, StoreError> {
        self.store.get(id).await
    }

    /// What a job gave; nothing while it is not over.
    pub async fn result<J: Job>(&self, id: JobId) -> Result<Option<J::Output>, WaitError> {
        let job = self.store.get(id).await?.ok_or(WaitError::Gone(id))?;
        output_of(&job).transpose()
    }

    /// Asks for a job to be canceled.
    pub async fn cancel(&self, id: JobId) -> Result<CancelAnswer, StoreError> {
        self.store.cancel(id).await
    }

    /// Starts a new life of a final job.
    pub async fn retry(&self, id: JobId) -> Result<RetryAnswer, StoreError> {
        self.store.retry(id).await
    }

    /// A shelf of records, each of which is a `T` under a key. A name that cannot be is the error of its first use.
    pub fn shelf<T>(&self, name: &str) -> Shelf<T> {
        Shelf::new(self, name)
    }

    /// Writes of records and jobs that are one commit: begins with none.
    pub fn batch(&self) -> Batch {
        Batch::new(self)
    }

    /// Sets a schedule.
    ///
    /// ```
    /// # use windlass_engine::{Client, Job};
    /// # #[derive(serde::Serialize, serde::Deserialize)]
    /// # struct Report {}
    /// # impl Job for Report { const KIND: &'static str = "report"; type Output = (); }
    /// # async fn doc(client: Client) -> Result<(), Box<dyn std::error::Error>> {
    /// client.schedule("nightly").cron("0 2 * * *").zone("Europe/Berlin").job(Report {}).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule(&self, name: &str) -> ScheduleRequest<'_> {
        ScheduleRequest::new(self, name)
    }
}

impl Client {
    /// Enqueues the job of a schedule now, as its own run would be: while the job
    /// of an earlier run is not over, a schedule without overlap answers with that
    /// one. Nothing when there is no such schedule.
    pub async fn run_schedule(&self, name: &ScheduleName) -> Result<Option<Enqueued>, StoreError> {
        let schedules = self.store.schedules().await?;
        let Some(schedule) = schedules.into_iter().find(|schedule| schedule.name == *name) else {
            return Ok(None);
        };
        let job = schedule.job_for(self.store.now().await?);
        self.enqueue_new(job).await.map(Some)
    }
}

impl<'c, O: 'static> IntoFuture for Enqueue<'c, O> {
    type Output = Result<JobHandle<O>, StoreError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'c>>;

    fn into_future(self) -> Self::IntoFuture {
        let client = self.client;
        let new = self.build_with(&mut Ids::new(&*client.world));
        Box::pin(async move { Ok(JobHandle::new(client.clone(), client.enqueue_new(new?).await?)) })
    }
}
