//! The task manager's desk: workers come for tasks, say that they are alive, and bring tasks back.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use tokio::sync::Notify;
use uuid::Uuid;
use windlass_engine::core::id::WorkerName;
use windlass_engine::core::job::Start;
use windlass_engine::core::json::{Json, PROGRESS_BYTES_MAX};
use windlass_engine::core::store::{ClaimRequest, LeaseRef, ProgressWrite, Settlement, Written};
use windlass_engine::core::transition::Outcome;
use windlass_engine::core::wake::{Registration, Work};
use windlass_engine::world::World;
use windlass_engine::{Client, Failure, JobId, Kind, QueueName, ShelfError, StoreError};

use crate::book::Shelves;
use crate::jobs::{failed, succeeded};
use crate::ladder::climb;
use crate::metrics::{self, Counts};
use crate::shop::{LastError, ShopId};
use crate::task::{QUEUE, TaskKind};
use crate::tasks::{Tasks, kind_of, shop_of};
use crate::trouble::RECONNECT_WAIT;

/// The longest that somebody waits at the desk.
pub const WAIT_MS_MAX: u64 = 30_000;
/// Who got nothing asks again after this, unless something is due earlier.
const RETRY_MS: u64 = 1_000;
/// A quota that nobody says the end of.
const QUOTA_WAIT: Duration = Duration::from_secs(3_600);

/// The desk.
pub struct Desk {
    client: Client,
    shelves: Shelves,
    tasks: Tasks,
    world: Arc<dyn World>,
    news: Arc<Notify>,
    counts: Counts,
    _registration: Registration,
}

/// A task that was handed out.
#[derive(Debug, Serialize)]
pub struct Handed {
    /// The task.
    pub task: HandedTask,
    /// Its shop.
    pub shop: HandedShop,
    /// Every word about the task names it; a stale one changes nothing.
    pub fence: u64,
    /// Whoever is not heard of for so long has lost the task.
    pub lease_ms: u32,
}

/// What of a task its worker is told.
#[derive(Debug, Serialize)]
pub struct HandedTask {
    /// Its id.
    pub id: JobId,
    /// Its kind.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its shop.
    pub shop_id: Option<ShopId>,
    /// Which attempt this is.
    pub attempt: u32,
    /// What it carries.
    pub payload: Json,
    /// What comes after this attempt if it fails: so many milliseconds, or nothing when it is the last.
    pub retry_delay_ms: Option<u64>,
}

/// What of a shop a worker is told.
#[derive(Debug, Serialize)]
pub struct HandedShop {
    /// Its number.
    pub shop_id: Option<ShopId>,
    /// Its name at Etsy.
    pub name: Option<String>,
    /// Its user.
    pub user_id: Option<u64>,
    /// The currency of its prices.
    pub currency: Option<String>,
}

/// What became of a wish for a task.
pub enum Served {
    /// One was there.
    Task(Box<Handed>),
    /// None was; ask again in so many milliseconds.
    Nothing(u64),
}

/// How a worker says that a task failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailClass {
    /// Try again by the ladder.
    Retry,
    /// Trying again is of no use.
    Permanent,
    /// The limit of calls is reached: the shop waits, and no rung is spent.
    Quota,
    /// Etsy does not let us in: the shop waits for its seller, and no rung is spent.
    Auth,
    /// The worker ends: somebody else goes on at once.
    Release,
    /// It was asked to stop.
    Canceled,
}

/// What a climb of the ladder settles a task with. A worker may know better how long to wait, but has no more rungs.
fn outcome(climbed: Failure, retry_after: Option<Duration>) -> Outcome {
    match climbed {
        Failure::Retry { error, after } => {
            let ms = retry_after.or(after).map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
            Outcome::Retry { error: error.to_string(), when: ms.map(Start::AfterMs) }
        }
        failure => Outcome::Failed { error: failure.to_string() },
    }
}

/// A failure as a worker says it.
#[derive(Debug)]
pub struct Fail {
    /// Of which kind.
    pub class: FailClass,
    /// What happened, in words.
    pub error: String,
    /// When to try again, if the worker knows better.
    pub retry_after: Option<Duration>,
}

impl Desk {
    /// A desk for a store's tasks.
    pub fn new(client: Client, tasks: Tasks, world: Arc<dyn World>) -> Self {
        let news = Arc::new(Notify::new());
        let wake = news.clone();
        let queue = QueueName::new(QUEUE).ok();
        let registration = client.store().on_work(Arc::new(move |work: &Work| {
            if queue.as_ref().is_some_and(|queue| work.concerns(std::slice::from_ref(queue))) {
                wake.notify_waiters();
            }
        }));
        let (shelves, counts) = (Shelves::of(&client), Counts::default());
        Self { shelves, client, tasks, world, news, counts, _registration: registration }
    }

    /// Hands out the next task, or waits for one.
    pub async fn next(
        &self,
        worker: WorkerName,
        request_id: Option<Uuid>,
        wait_ms: u64,
    ) -> Result<Served, ShelfError> {
        let until_ms = self.world.boot_ms() + wait_ms.min(WAIT_MS_MAX);
        let chance = || Uuid::from_u64_pair(self.world.chance(), self.world.chance());
        let mut request_id = request_id.unwrap_or_else(chance);
        let kinds: Result<Vec<Kind>, _> = TaskKind::ALL.iter().map(|kind| Kind::new(kind.as_str())).collect();
        let kinds = kinds?;
        loop {
            // Registered before the claim, so that nothing that comes meanwhile is missed.
            let news = self.news.notified();
            let request = ClaimRequest {
                request_id,
                worker: worker.clone(),
                queues: vec![QueueName::new(QUEUE)?],
                // What no worker knows is not handed out, and holds up nobody.
                kinds: Some(kinds.clone()),
                limit: 1,
                lease_ms: None,
            };
            let answer = self.client.store().claim(request).await?;
            if let Some(leased) = answer.leases.into_iter().next() {
                if let Some(kind) = kind_of(&leased.job) {
                    self.counts.handed(kind);
                }
                return Ok(Served::Task(Box::new(self.handed(leased).await?)));
            }
            let due_ms = answer.next_due_in_ms.unwrap_or(RETRY_MS).clamp(1, RETRY_MS);
            let left_ms = until_ms.saturating_sub(self.world.boot_ms());
            if left_ms == 0 {
                self.counts.in_vain();
                return Ok(Served::Nothing(due_ms));
            }
            tokio::select! {
                () = news => {}
                () = self.world.sleep_ms(due_ms.min(left_ms)) => {}
            }
            // A claim that gave nothing is remembered as such.
            request_id = chance();
        }
    }

    async fn handed(&self, leased: windlass_engine::core::store::Leased) -> Result<Handed, ShelfError> {
        let shop_id = shop_of(&leased.job);
        let shop = match shop_id {
            Some(shop) => self.shelves.shops.get(shop).await?.map(|shop| shop.value),
            None => None,
        };
        let lease_ms = leased.job.lease().map_or(0, |lease| lease.lease_ms);
        let (name, user_id, currency) =
            shop.map_or((None, None, None), |shop| (shop.name, Some(shop.user_id), shop.currency));
        Ok(Handed {
            fence: leased.job.fence,
            lease_ms,
            task: HandedTask {
                id: leased.job.id,
                kind: leased.job.spec.kind.to_string(),
                shop_id,
                attempt: leased.job.attempt,
                payload: leased.job.spec.payload,
                retry_delay_ms: leased.retry_delay_ms,
            },
            shop: HandedShop { shop_id, name, user_id, currency },
        })
    }

    /// The worker is alive. Answers whether the task is still its own, and whether it should stop.
    pub async fn renew(&self, lease: LeaseRef) -> Result<Option<bool>, StoreError> {
        let answer = self.client.store().renew(vec![lease]).await?;
        let is_ours = answer.renewed.contains(&lease.job_id);
        Ok(is_ours.then(|| answer.cancel_requested.contains(&lease.job_id)))
    }

    /// How far the worker is. Answers whether the task is still its own.
    pub async fn progress(&self, lease: LeaseRef, progress: &Value) -> Result<bool, StoreError> {
        let progress = Json::from_value("progress", progress, PROGRESS_BYTES_MAX)?;
        let written = self.client.store().progress(vec![ProgressWrite { lease, progress }]).await?;
        Ok(written.first() == Some(&Written::Done))
    }

    /// The task is done. Answers whether it was still the worker's own.
    pub async fn complete(&self, lease: LeaseRef) -> Result<bool, ShelfError> {
        let job = self.client.get(lease.job_id).await?;
        let is_done = self.settle(lease, Outcome::DONE).await?;
        if let Some((job, kind)) = job.as_ref().and_then(|job| Some((job, kind_of(job)?)))
            && let (true, Some(shop)) = (is_done, shop_of(job))
        {
            let now = self.client.store().now().await?;
            self.shelves.health.update(shop, |had| succeeded(had.map(|had| had.value), kind, now)).await?;
        }
        Ok(is_done)
    }

    /// The task is not done. Answers whether it was still the worker's own.
    pub async fn fail(&self, lease: LeaseRef, fail: &Fail) -> Result<bool, ShelfError> {
        let job = self.client.get(lease.job_id).await?;
        let after = |time: Duration| Start::AfterMs(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
        let error = fail.error.clone();
        let outcome = match fail.class {
            FailClass::Retry => match &job {
                Some(job) => {
                    let climbed = climb(job, self.tasks.settings(), &*self.world, &error);
                    outcome(climbed, fail.retry_after)
                }
                None => Outcome::Retry { error, when: fail.retry_after.map(after) },
            },
            FailClass::Permanent => Outcome::Failed { error },
            FailClass::Quota => Outcome::Parked { until: after(fail.retry_after.unwrap_or(QUOTA_WAIT)) },
            FailClass::Auth => Outcome::Parked { until: after(fail.retry_after.unwrap_or(RECONNECT_WAIT)) },
            FailClass::Release => Outcome::Released,
            FailClass::Canceled => Outcome::Canceled,
        };
        let code = match fail.class {
            FailClass::Retry => "retry",
            FailClass::Permanent => "permanent",
            FailClass::Quota => "quota",
            FailClass::Auth => "needs_reconnect",
            FailClass::Release | FailClass::Canceled => return self.settle(lease, outcome).await,
        };
        let is_done = self.settle(lease, outcome).await?;
        if let Some((job, kind)) = job.as_ref().and_then(|job| Some((job, kind_of(job)?)))
            && let (true, Some(shop)) = (is_done, shop_of(job))
        {
            let at = self.client.store().now().await?;
            let message = fail.error.clone();
            let error = LastError { code: code.to_owned(), message, listing_id: None, kind, at };
            let keeps = |had: &crate::shop::Health| {
                // The worker itself may have said more.
                had.last_error.as_ref().is_some_and(|had| had.at.plus_ms(10_000) >= at && had.kind == kind)
            };
            let update = self.shelves.health.update(shop, |had| match had.map(|had| had.value) {
                Some(had) if keeps(&had) => windlass_engine::Change::Leave,
                had => windlass_engine::Change::from(failed(had, &error)),
            });
            update.await?;
        }
        Ok(is_done)
    }

    async fn settle(&self, lease: LeaseRef, outcome: Outcome) -> Result<bool, ShelfError> {
        let written = self.client.store().settle(vec![Settlement { lease, outcome }]).await?;
        Ok(written.first() == Some(&Written::Done))
    }

    /// How the desk and its tasks do, for a program that watches.
    pub async fn metrics(&self) -> Result<String, ShelfError> {
        metrics::text(&self.shelves, &self.tasks, &self.counts).await
    }

    /// The tasks behind the desk.
    pub fn tasks(&self) -> &Tasks {
        &self.tasks
    }
}
