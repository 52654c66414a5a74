//! Tasks in the store: asked for, looked at, taken in by more urgent ones.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use windlass_engine::core::job::NewJob;
use windlass_engine::core::query::{Cursor, JobFilter, ListRequest, PAGE_MAX, Page, QueueStatus};
use windlass_engine::core::store::Enqueued;
use windlass_engine::core::time::Span;
use windlass_engine::world::World;
use windlass_engine::{
    BudgetName, BudgetPolicy, Client, JobId, JobRecord, JobRequest, Key, Kind, Ladder, OnCrash, QueueName,
    QueuePolicy, State, StateName, StoreError, Time,
};

use crate::settings::TaskSettings;
use crate::shop::ShopId;
use crate::task::{self, AGEING_MS, BUDGET, QUEUE, TaskKind};

/// How often a task is asked for under its two marks before the one that is there is taken for the answer.
const TRIES_MAX: u32 = 4;
/// How many tasks of a shop are looked at; there are never so many.
const OF_SHOP_MAX: usize = 50;

/// How often a task is handed out at most, crashes with progress between them included.
const ATTEMPTS_MAX: u32 = 1_000;

/// The tasks of a store.
#[derive(Clone)]
pub struct Tasks {
    client: Client,
    world: Arc<dyn World>,
    settings: TaskSettings,
}

/// A task that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The task that is there now.
    pub id: JobId,
    /// It was there before.
    pub was_there: bool,
}

impl Tasks {
    /// The tasks of this client's store.
    pub fn new(client: Client, world: Arc<dyn World>, settings: TaskSettings) -> Self {
        Self { client, world, settings }
    }

    /// How tasks are made and handed out.
    pub fn settings(&self) -> &TaskSettings {
        &self.settings
    }

    /// Tells the store what holds for tasks.
    pub async fn prepare(&self) -> Result<(), StoreError> {
        let store = self.client.store();
        let lease_ms = u32::try_from(self.settings.lease.as_millis()).unwrap_or(u32::MAX);
        let policy = QueuePolicy {
            // Rungs are counted by failures alone (`ladder.rs`); crashes have a bound of their own.
            ladder: Ladder::new(vec![Span::from_ms(60_000)])?,
            max_attempts: Some(ATTEMPTS_MAX),
            lease_ms,
            on_crash: OnCrash::Resume,
            delete_finished: true,
            ageing_ms: Some(AGEING_MS),
            ..QueuePolicy::default()
        };
        store.put_queue(QueueName::new(QUEUE)?, policy.checked()?).await?;
        let TaskSettings { per_second, per_day, .. } = self.settings;
        let name = BudgetName::new(BUDGET)?;
        // Claims that spend of one budget go one after the other: where there is no limit, and was none before, there is
        // no budget either, and what tasks name in vain holds up nobody.
        let is_limited = per_second.is_some() || per_day.is_some();
        if is_limited || store.budgets().await?.iter().any(|had| had.budget.name == name) {
            store.put_budget(name, BudgetPolicy { per_second, per_day, ..BudgetPolicy::default() }).await?;
        }
        Ok(())
    }

    /// The task as it is enqueued. Its mark is the first of its two.
    pub fn new_job(&self, kind: TaskKind, shop: ShopId) -> Result<NewJob, StoreError> {
        self.marked(kind, shop, kind.dedupe_key(shop))
    }

    /// The first download of a shop, for which a user waits.
    pub fn first_download(&self, shop: ShopId) -> JobRequest {
        let kind = TaskKind::RegularDownload;
        let request = task::request(kind, shop).dedupe_key(kind.dedupe_key(shop));
        request.priority(TaskKind::ForcedDownload.priority())
    }

    fn marked(&self, kind: TaskKind, shop: ShopId, mark: String) -> Result<NewJob, StoreError> {
        let request = task::request(kind, shop).dedupe_key(mark);
        Ok(request.id(windlass_engine::world::new_id(&*self.world)).build()?)
    }

    /// Asks for a task. Equal tasks that are queued are one; one that is running may have looked before the wish
    /// came, so that another is queued behind it. A forced download takes in a regular one that is queued.
    pub async fn ask(&self, kind: TaskKind, shop: ShopId) -> Result<Asked, StoreError> {
        let first = self.client.enqueue_new(self.new_job(kind, shop)?).await?;
        let asked = self.not_running(kind, shop, first).await?;
        if kind == TaskKind::ForcedDownload {
            self.take_in(shop, &[TaskKind::RegularDownload], None).await?;
        }
        Ok(asked)
    }

    /// What is there for a wish whose first mark was given this answer.
    pub async fn not_running(
        &self,
        kind: TaskKind,
        shop: ShopId,
        mut found: Enqueued,
    ) -> Result<Asked, StoreError> {
        let marks = [kind.dedupe_key(shop), kind.second_dedupe_key(shop)];
        for at in 1..=TRIES_MAX {
            if !found.deduplicated {
                return Ok(Asked { id: found.id, was_there: false });
            }
            let is_queued = match self.client.get(found.id).await? {
                Some(job) => job.state == State::Queued,
                None => false,
            };
            // A regular download looks at everything in any case.
            if is_queued || kind == TaskKind::RegularDownload {
                break;
            }
            let mark = marks[at as usize % 2].clone();
            found = self.client.enqueue_new(self.marked(kind, shop, mark)?).await?;
        }
        Ok(Asked { id: found.id, was_there: found.deduplicated })
    }

    /// Queued tasks of these kinds have nothing to add to the one that does all of it.
    pub async fn take_in(
        &self,
        shop: ShopId,
        kinds: &[TaskKind],
        but: Option<JobId>,
    ) -> Result<(), StoreError> {
        for job in self.of_shop(shop).await? {
            let is_meant = kind_of(&job).is_some_and(|kind| kinds.contains(&kind)) && Some(job.id) != but;
            if is_meant && job.state == State::Queued {
                self.client.cancel(job.id).await?;
            }
        }
        Ok(())
    }

    /// Whether a task of this kind is queued for a shop.
    pub async fn is_queued(&self, kind: TaskKind, shop: ShopId) -> Result<bool, StoreError> {
        let filter = JobFilter {
            states: vec![StateName::Queued],
            kind: Some(Kind::new(kind.as_str())?),
            ..of_shop(shop)?
        };
        let mut found = false;
        self.walk(filter, 1, |_| {
            found = true;
            false
        })
        .await?;
        Ok(found)
    }

    /// The tasks of a shop that the store still has, the newest first.
    pub async fn of_shop(&self, shop: ShopId) -> Result<Vec<JobRecord>, StoreError> {
        let mut found = Vec::new();
        self.walk(of_shop(shop)?, PAGE_MAX, |job| {
            found.push(job);
            found.len() < OF_SHOP_MAX
        })
        .await?;
        Ok(found)
    }

    /// The tasks of some shops, the newest first. A store reads past the tasks of all shops to find those of one, so
    /// many shops are looked for at once.
    pub async fn of_shops(&self, shops: Vec<ShopId>) -> Result<HashMap<ShopId, Vec<JobRecord>>, StoreError> {
        let mut found: HashMap<ShopId, Vec<JobRecord>> =
            shops.into_iter().map(|shop| (shop, Vec::new())).collect();
        let all = JobFilter { queue: Some(QueueName::new(QUEUE)?), ..JobFilter::default() };
        self.walk(all, PAGE_MAX, |job| {
            if let Some(jobs) = shop_of(&job).and_then(|shop| found.get_mut(&shop))
                && jobs.len() < OF_SHOP_MAX
            {
                jobs.push(job);
            }
            true
        })
        .await?;
        Ok(found)
    }

    /// Shows tasks to `see` until it has seen enough. A page may end early, with nothing or little of what is wanted:
    /// the store looks at so many jobs at a time.
    async fn walk(
        &self,
        filter: JobFilter,
        limit: u32,
        mut see: impl FnMut(JobRecord) -> bool,
    ) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let request = ListRequest { filter: filter.clone(), limit, after };
            let page = self.client.store().list(request).await?;
            for job in page.jobs {
                if !see(job) {
                    return Ok(());
                }
            }
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// A page of all tasks.
    pub async fn page(&self, filter: JobFilter, after: Option<Cursor>) -> Result<Page, StoreError> {
        let filter = JobFilter { queue: Some(QueueName::new(QUEUE)?), ..filter };
        self.client.store().list(ListRequest { filter, limit: PAGE_MAX, after }).await
    }

    /// How the store's queues stand.
    pub async fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        self.client.store().queues().await
    }

    /// The time by the store's clock.
    pub async fn now(&self) -> Result<Time, StoreError> {
        self.client.store().now().await
    }

    /// Lets tasks of a shop that wait for its seller begin again, with all their rungs.
    pub async fn wake(&self, shop: ShopId) -> Result<(), StoreError> {
        let now = self.client.store().now().await?;
        for job in self.of_shop(shop).await? {
            let Some(kind) = kind_of(&job) else { continue };
            if job.state == State::Queued && job.run_at > now {
                self.client.cancel(job.id).await?;
                self.ask(kind, shop).await?;
            }
        }
        Ok(())
    }

    /// Downloads a shop from now on and ever so often.
    pub async fn schedule(
        &self,
        shop: ShopId,
        interval: Option<crate::shop::Interval>,
    ) -> Result<(), StoreError> {
        let cron = interval.unwrap_or(self.settings.interval).cron(shop);
        let job = task::request(TaskKind::RegularDownload, shop);
        self.client.schedule(&task::schedule_name(shop)).cron(&cron).job(job).await
    }

    /// The longest that a task is with a worker that is not heard of.
    pub fn lease(&self) -> Duration {
        self.settings.lease
    }
}

fn of_shop(shop: ShopId) -> Result<JobFilter, StoreError> {
    let (queue, key) = (Some(QueueName::new(QUEUE)?), Some(Key::new(task::key(shop))?));
    Ok(JobFilter { queue, key, ..JobFilter::default() })
}

/// What kind of task a job is.
pub fn kind_of(job: &JobRecord) -> Option<TaskKind> {
    job.spec.kind.as_str().parse().ok()
}

/// Which shop a job is about.
pub fn shop_of(job: &JobRecord) -> Option<ShopId> {
    job.spec.payload.read::<task::Payload>().ok().map(|payload| payload.shop_id)
}
