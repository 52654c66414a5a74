//! Who does the work in a process, and the workers that they are.

use std::future::Future;
use std::sync::Arc;

use windlass_engine::core::policy::cron::CronLine;
use windlass_engine::core::store::Store;
use windlass_engine::world::World;
use windlass_engine::{Client, Context, Failure, Job, Summary, Worker, WorkerError};

use crate::archive::Archive;
use crate::breaker::Breaker;
use crate::jobs::{Publish, Update, Work};
use crate::process::{Processor, process};
use crate::publish::{Publisher, publish};
use crate::settings::{Roles, Settings};
use crate::sources::{self, SourceError};
use crate::update::{Updater, update};

/// Who does the work.
#[derive(Clone)]
pub struct Staff {
    /// Where everything is kept.
    pub archive: Archive,
    /// Fetches news.
    pub updater: Option<Arc<Updater>>,
    /// Works on articles.
    pub processor: Option<Arc<Processor>>,
    /// Publishes.
    pub publisher: Option<Arc<Publisher>>,
    /// How many articles at once.
    pub at_once: usize,
    /// Clock and waiting.
    pub world: Arc<dyn World>,
}

impl Staff {
    /// Puts them together. Nothing is asked of anybody yet.
    pub fn new(
        store: Arc<dyn Store>,
        world: Arc<dyn World>,
        settings: &Settings,
        roles: Roles,
    ) -> Result<Self, SourceError> {
        let archive = Archive::new(Client::in_world(store, world.clone()), settings.bounds);
        let updater = match settings.news.as_ref().filter(|_| roles.updater) {
            None => None,
            Some(news) => Some(Arc::new(Updater {
                archive: archive.clone(),
                provider: sources::news(news)?,
                world: world.clone(),
                pages_max: settings.pages_max,
            })),
        };
        let processor = match settings.model.as_ref().filter(|_| roles.processor) {
            None => None,
            Some(model) => Some(Arc::new(Processor {
                archive: archive.clone(),
                model: sources::model(model)?,
                pages: sources::pages(settings)?,
                rules: settings.rules.clone(),
                counts_calls: settings.calls_per_day.is_some(),
                world: world.clone(),
                breaker: Breaker::default(),
            })),
        };
        let publisher = match settings.kv.as_ref().filter(|_| roles.processor) {
            None => None,
            Some(kv) => Some(Arc::new(Publisher {
                archive: archive.clone(),
                kv: sources::kv(kv)?,
                writes_per_day: settings.kv_writes_per_day,
            })),
        };
        Ok(Self { archive, updater, processor, publisher, at_once: settings.at_once, world })
    }

    /// A worker that goes on until it is told to end; nothing when there is nothing to go on with. With a
    /// schedule of its own the processor is not part of it: see [`Staff::process_on`].
    pub fn worker(&self, processes: bool) -> Option<Worker<Self>> {
        let worker = Worker::new(self.archive.client.store().clone()).in_world(self.world.clone());
        let mut worker = worker.state(self.clone());
        let mut is_any = false;
        if self.updater.is_some() {
            worker = worker.handle(run_update).queue(Update::QUEUE, 1);
            is_any = true;
        }
        if self.publisher.is_some() {
            worker = worker.handle(run_publish).queue(Publish::QUEUE, 1);
            is_any = true;
        }
        if self.processor.is_some() && processes {
            worker = worker.handle(run_work).queue(Work::QUEUE, self.at_once);
            is_any = true;
        }
        is_any.then_some(worker)
    }

    /// One run of the processor: at most as many articles as it works on at once, each as far as it goes now.
    pub async fn process_once(
        &self,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Summary, WorkerError> {
        // As a source: the schedules of the store are fired by whoever works all the time.
        let source = self.archive.client.store().clone();
        let worker = Worker::from_source(source).in_world(self.world.clone()).state(self.clone());
        let worker = worker.handle(run_work).queue(Work::QUEUE, self.at_once);
        worker.jobs_max(self.at_once as u64).due_only().run_until(stop).await
    }

    /// Runs of the processor by a cron line, one after the other.
    pub async fn process_on<S>(&self, cron: &CronLine, stop: impl Fn() -> S) -> Result<(), WorkerError>
    where
        S: Future<Output = ()> + Send + 'static,
    {
        loop {
            let now = self.archive.client.store().now().await?;
            let Some(next) = cron.next_after(now) else {
                stop().await;
                return Ok(());
            };
            tokio::select! {
                () = self.world.sleep_ms(next.ms_since(now)) => {}
                () = stop() => return Ok(()),
            }
            let Summary { claimed, .. } = self.process_once(stop()).await?;
            tracing::info!(articles = claimed, "Processor run finished");
        }
    }
}

/// A job that nobody here has been hired for is given back; the handlers are only registered with those who are.
fn missing() -> Failure {
    Failure::retry("this process has nobody for such a job")
}

async fn run_update(_: Update, ctx: Context<Staff>) -> Result<<Update as Job>::Output, Failure> {
    let updater = ctx.state().updater.clone().ok_or_else(missing)?;
    update(updater, ctx.without_state()).await
}

async fn run_work(work: Work, ctx: Context<Staff>) -> Result<(), Failure> {
    let processor = ctx.state().processor.clone().ok_or_else(missing)?;
    process(work, processor, ctx.without_state()).await
}

async fn run_publish(_: Publish, ctx: Context<Staff>) -> Result<<Publish as Job>::Output, Failure> {
    let publisher = ctx.state().publisher.clone().ok_or_else(missing)?;
    publish(publisher, ctx.without_state()).await
}
