//! The three tasks, as one handler: what they do is in files of their own, what
//! becomes of them here.

mod confirm;
mod page;
mod send;
mod upload;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use windlass_engine::core::store::{StepWrite, Written};
use windlass_engine::{Context, Failure, Handler, JobId, Json, StepName, Time};

use crate::book::Run;
use crate::caller::Caller;
use crate::ladder::climb;
use crate::shop::{Health, LastError, ListingId, ShopId};
use crate::sync::Sync;
use crate::task::{Payload, TaskKind};
use crate::trouble::Trouble;

/// Runs tasks of one kind.
pub struct TaskHandler {
    kind: TaskKind,
    sync: Arc<Sync>,
}

impl TaskHandler {
    /// A handler of tasks of one kind.
    pub fn new(kind: TaskKind, sync: Arc<Sync>) -> Self {
        Self { kind, sync }
    }
}

/// One attempt of a task.
pub(crate) struct Attempt<'t> {
    pub(crate) sync: &'t Sync,
    pub(crate) ctx: &'t Context,
    pub(crate) shop: ShopId,
    pub(crate) kind: TaskKind,
    pub(crate) caller: Caller<'t>,
    /// Whether this attempt has come further than the one before.
    has_got_on: AtomicBool,
}

#[async_trait]
impl Handler for TaskHandler {
    async fn run(&self, ctx: Context) -> Result<Option<Json>, Failure> {
        let Payload { shop_id: shop } = ctx.payload_as()?;
        let (sync, kind) = (&*self.sync, self.kind);
        // A regular download that is a shop's first is one that its user waits for.
        let is_for_user = kind.is_asked_for() || !has_been_downloaded(sync, shop).await?;
        let caller = Caller { sync, ctx: &ctx, shop, is_for_user };
        let attempt = Attempt { sync, ctx: &ctx, shop, kind, caller, has_got_on: AtomicBool::new(false) };
        tracing::info!(shop, task = %ctx.id(), kind = kind.as_str(), attempt = ctx.attempt(), "Task begun");
        match attempt.work().await {
            Ok(()) => {
                attempt.succeeded().await?;
                tracing::info!(shop, task = %ctx.id(), kind = kind.as_str(), "Task done");
                Ok(None)
            }
            Err(trouble) => Err(attempt.failed(trouble).await),
        }
    }
}

impl Attempt<'_> {
    async fn work(&self) -> Result<(), Trouble> {
        if self.sync.shelves.shops.get(self.shop).await?.is_none() {
            let said = format!("shop {} is not known here; add it with POST /shops", self.shop);
            return Err(Trouble::Ended(Failure::permanent(said)));
        }
        match self.kind {
            TaskKind::RegularDownload | TaskKind::ForcedDownload => self.download().await,
            TaskKind::UploadChanges => self.upload().await,
        }
    }

    /// The run of this task, as far as it came; another task's is begun anew.
    pub(crate) async fn run(&self) -> Result<Run, Trouble> {
        let now = self.now().await?;
        let had = self.sync.shelves.runs.get(self.run_key()).await?.map(|run| run.value);
        let ours = had.filter(|run| run.task == self.ctx.id() && run.finished_at.is_none());
        Ok(ours.unwrap_or_else(|| Run::new(self.ctx.id(), self.kind, now)))
    }

    /// Uploads and downloads are shown apart.
    pub(crate) fn run_key(&self) -> String {
        run_key(self.shop, self.kind)
    }

    pub(crate) async fn now(&self) -> Result<Time, Trouble> {
        Ok(self.sync.client.store().now().await?)
    }

    /// This attempt has come further: should its worker crash now, that was no crash without progress. Said by a
    /// step, of which each attempt stores one.
    pub(crate) async fn got_on(&self) -> Result<(), Trouble> {
        if self.has_got_on.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        let name = StepName::new(format!("got on, {}", self.ctx.fence())).map_err(Failure::from)?;
        let step = StepWrite { lease: self.ctx.lease(), name, output: Json::null() };
        match self.sync.client.store().store_steps(vec![step]).await?.first() {
            Some(Written::Lost) | None => Err(Trouble::Ended(Failure::LeaseLost)),
            Some(Written::Done | Written::TooManySteps) => Ok(()),
        }
    }

    async fn succeeded(&self) -> Result<(), Failure> {
        let (now, kind) = (self.sync.client.store().now().await?, self.kind);
        let update =
            self.sync.shelves.health.update(self.shop, |had| succeeded(had.map(|had| had.value), kind, now));
        update.under(self.ctx).await?;
        Ok(())
    }

    /// Writes down what went wrong, for people, and says how the attempt ends.
    async fn failed(&self, trouble: Trouble) -> Failure {
        let ended =
            matches!(trouble, Trouble::Ended(Failure::Released | Failure::LeaseLost | Failure::Canceled));
        let (code, message) = (trouble.code(), trouble.message());
        tracing::warn!(shop = self.shop, task = %self.ctx.id(), kind = self.kind.as_str(), code, "Task not done");
        if !ended && let Err(failure) = self.note(code, message, None).await {
            tracing::warn!(shop = self.shop, %failure, "What went wrong could not be written down");
        }
        match trouble.failure() {
            Failure::Retry { error, .. } => self.climb(&error.to_string()).await,
            failure => failure,
        }
    }

    /// The next rung, as the store knows the task's failures.
    async fn climb(&self, error: &str) -> Failure {
        match self.sync.client.get(self.ctx.id()).await {
            Ok(Some(job)) => climb(&job, self.sync.tasks.settings(), &*self.sync.world, error),
            Ok(None) => Failure::LeaseLost,
            // Whoever cannot read the task cannot settle it either; should it be back by then, a minute will do.
            Err(_) => Failure::retry(error.to_owned()),
        }
    }

    /// Writes down what went wrong.
    pub(crate) async fn note(
        &self,
        code: &str,
        message: String,
        listing_id: Option<ListingId>,
    ) -> Result<(), Failure> {
        let at = self.sync.client.store().now().await?;
        let error = LastError { code: code.to_owned(), message, listing_id, kind: self.kind, at };
        let update =
            self.sync.shelves.health.update(self.shop, |had| failed(had.map(|had| had.value), &error));
        update.under(self.ctx).await?;
        Ok(())
    }
}

/// Whether a shop has been downloaded before.
async fn has_been_downloaded(sync: &Sync, shop: ShopId) -> Result<bool, Failure> {
    let health = sync.shelves.health.get(shop).await?;
    let downloads = [TaskKind::RegularDownload, TaskKind::ForcedDownload];
    Ok(health.is_some_and(|health| downloads.iter().any(|kind| health.value.last_success.contains_key(kind))))
}

/// The key of a shop's last walk, or of its last upload.
pub fn run_key(shop: ShopId, kind: TaskKind) -> String {
    match kind {
        TaskKind::UploadChanges => format!("{shop}/upload"),
        TaskKind::RegularDownload | TaskKind::ForcedDownload => format!("{shop}/download"),
    }
}

/// The health of a shop after a success.
pub fn succeeded(health: Option<Health>, kind: TaskKind, now: Time) -> Health {
    let mut health = health.unwrap_or_default();
    health.last_success.insert(kind, now);
    // What one download could not do another has done.
    let same =
        |error: &LastError| (error.kind == TaskKind::UploadChanges) == (kind == TaskKind::UploadChanges);
    health.last_error = health.last_error.filter(|error| !same(error) || error.listing_id.is_some());
    health
}

/// The health of a shop after a failure.
pub fn failed(health: Option<Health>, error: &LastError) -> Health {
    let mut health = health.unwrap_or_default();
    health.last_error = Some(error.clone());
    health
}

/// The name of a walk, for what it has seen.
pub(crate) fn seen_prefix(shop: ShopId, task: JobId) -> String {
    format!("{shop}/{task}/")
}
