//! The jobs, their queues, and what holds for them.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_engine::core::store::Store;
use windlass_engine::{
    BudgetName, BudgetPolicy, Client, Job, JobRequest, Missed, QueueName, QueuePolicy, StoreError,
};

use crate::article::Article;
use crate::moves::Next;
use crate::publish::PublishReport;
use crate::settings::Settings;
use crate::update::Report;

/// Articles that nobody has tried go before those that are tried again: as if they had come an hour earlier.
const FRESH: i16 = 60;
/// Tried again, an article gives way to fresh ones that come within the next hour, and then to none: so it waits
/// a bounded time, however many come.
const AGEING_MS: u64 = 60_000;
/// An operator wants it first.
const FIRST: i16 = 10_000;
/// Trouble with the store is nobody's fault that could be counted: it is tried until it is over.
const TRIES_MAX: u32 = 1_000_000;
/// What a crash costs is counted by the steps themselves; this is only so that nothing goes on for ever.
const CRASHES_MAX: u32 = 1_000;

/// The budget of pages of news.
pub const NEWS_BUDGET: &str = "bitcoin-news/news";
/// The budget of questions to the model.
pub const MODEL_BUDGET: &str = "bitcoin-news/model";
/// The budget of keys written to Workers KV.
pub const KV_BUDGET: &str = "bitcoin-news/kv";

/// Do with an article what is due.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The article.
    pub id: String,
    /// The round of the article that this job is for; when it is in another, there is nothing to do.
    pub round: u32,
    /// Whatever is open is due, in whatever round.
    #[serde(default)]
    pub first: bool,
}

impl Job for Work {
    const KIND: &'static str = "bitcoin-news/article";
    type Output = ();

    const QUEUE: &'static str = "bitcoin-news/articles";

    fn key(&self) -> Option<String> {
        Some(self.id.clone())
    }

    fn dedupe_key(&self) -> Option<String> {
        let Self { id, round, first } = self;
        Some(if *first { format!("first {id}") } else { format!("{round} {id}") })
    }
}

impl Work {
    /// The job that an article needs now.
    pub fn of(article: &Article, now_ms: i64) -> JobRequest<()> {
        let work = Self { id: article.id().to_owned(), round: article.round, first: false };
        let request = JobRequest::of(&work).priority(if article.round == 0 { FRESH } else { 0 });
        match article.next(now_ms) {
            Next::Wait { due_ms } => {
                request.delay(Duration::from_millis(due_ms.saturating_sub(now_ms).max(0).unsigned_abs()))
            }
            Next::Call(_) | Next::Over => request,
        }
    }

    /// A job before all others.
    pub fn first(article: &Article) -> JobRequest<()> {
        let work = Self { id: article.id().to_owned(), round: article.round, first: true };
        JobRequest::of(&work).priority(FIRST)
    }
}

/// Fetch news.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Update {}

impl Job for Update {
    const KIND: &'static str = "bitcoin-news/update";
    type Output = Report;

    const QUEUE: &'static str = "bitcoin-news/updates";

    fn key(&self) -> Option<String> {
        Some("updater".to_owned())
    }
}

impl Update {
    /// A run that somebody asks for: one that waits already will do. (Those of the schedule wait for each other.)
    pub fn asked_for() -> JobRequest<Report> {
        JobRequest::of(&Self {}).dedupe_key("update")
    }
}

/// Publish to Workers KV what has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publish {}

impl Job for Publish {
    const KIND: &'static str = "bitcoin-news/publish";
    type Output = PublishReport;

    const QUEUE: &'static str = "bitcoin-news/publishing";

    fn key(&self) -> Option<String> {
        Some("publisher".to_owned())
    }
}

/// Tells the store what holds for the queues and budgets. Said again it changes nothing.
pub async fn prepare(store: &dyn Store, settings: &Settings) -> Result<(), StoreError> {
    let lease_ms = u32::try_from(settings.lease.as_millis()).unwrap_or(30_000);
    let articles = QueuePolicy {
        ladder: "1s 5s 30s 1m".parse()?,
        max_attempts: Some(TRIES_MAX),
        crashes_max: CRASHES_MAX,
        delete_finished: true,
        retention_days: 7,
        ageing_ms: Some(AGEING_MS),
        lease_ms,
        ..QueuePolicy::default()
    };
    let runs = QueuePolicy {
        ladder: settings.rules.ladder.clone(),
        crashes_max: CRASHES_MAX,
        retention_days: 7,
        finished_max: 1_000,
        lease_ms,
        ..QueuePolicy::default()
    };
    store.put_queue(QueueName::new(Work::QUEUE)?, articles).await?;
    store.put_queue(QueueName::new(Update::QUEUE)?, runs.clone()).await?;
    store.put_queue(QueueName::new(Publish::QUEUE)?, QueuePolicy { delete_finished: true, ..runs }).await?;
    let daily = |per_day| BudgetPolicy { per_day, ..BudgetPolicy::default() };
    store.put_budget(BudgetName::new(NEWS_BUDGET)?, daily(Some(settings.credits_per_day))).await?;
    store.put_budget(BudgetName::new(MODEL_BUDGET)?, daily(settings.calls_per_day)).await?;
    store.put_budget(BudgetName::new(KV_BUDGET)?, daily(Some(settings.kv_writes_per_day))).await
}

/// Sets when the updater runs. A run that nobody was there to start is made up for once.
pub async fn schedule_updates(client: &Client, settings: &Settings) -> Result<(), StoreError> {
    let schedule = client.schedule("bitcoin-news/updates").cron(&settings.updater_cron);
    schedule.missed(Missed::Last).job(Update {}).await
}

/// Sets that changes are published once a minute, or that they are not.
pub async fn schedule_publishing(client: &Client, settings: &Settings) -> Result<(), StoreError> {
    const NAME: &str = "bitcoin-news/publishing";
    match settings.kv {
        Some(_) => client.schedule(NAME).cron("* * * * *").missed(Missed::Skip).job(Publish {}).await,
        None => client.store().delete_schedule(windlass_engine::ScheduleName::new(NAME)?).await.map(drop),
    }
}
