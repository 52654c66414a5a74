//! The calls, one file for each noun, and what they share.

pub(crate) mod actions;
pub(crate) mod budgets;
mod cached;
pub(crate) mod claim;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod jobs;
pub(crate) mod leases;
pub(crate) mod list;
pub(crate) mod log;
pub(crate) mod many;
pub(crate) mod new_job;
pub(crate) mod queues;
pub(crate) mod schedules;
pub(crate) mod sign_in;
pub(crate) mod stats;
pub(crate) mod steer;
pub(crate) mod trouble;
pub(crate) mod views;
pub(crate) mod workers;
pub(crate) mod writes;

use std::sync::{Arc, OnceLock};

use http::StatusCode;
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, watch};
use windlass_engine::Client;
use windlass_engine::core::id::{JobId, Kind};
use windlass_engine::core::json::Json;
use windlass_engine::core::query::{JobFilter, ListRequest};
use windlass_engine::core::store::{Holder, Store};
use windlass_engine::core::time::Time;
use windlass_engine::world::World;

use cached::Cached;
use windlass_report::doctor::Finding;
use windlass_report::waiting::{self, Waiting};

use crate::access::{Caller, Door};
use crate::answer::Refusal;
use crate::feed::Feed;
use crate::metrics::Metrics;
use crate::pages::{self, Suggestion};
use crate::rooms::Rooms;
use crate::roster::Roster;
use crate::sample::Sample;
use crate::settings::{Role, Settings};
use crate::wake::Wake;

/// What all calls share.
pub(crate) struct Api {
    pub store: Arc<dyn Store>,
    pub client: Client,
    pub world: Arc<dyn World>,
    pub settings: Settings,
    pub door: Door,
    pub wake: Arc<Wake>,
    pub feed: Feed,
    pub roster: Roster,
    /// Runs over many jobs.
    pub runs: many::Runs,
    pub stats: stats::Cache,
    /// Who did what.
    pub actions: actions::Actions,
    /// How many jobs there are in each state, by what else is wanted.
    pub counts: pages::Counts,
    pub trouble: Cached<Vec<Finding>>,
    /// For the form of a new job.
    pub suggestions: Cached<Vec<Suggestion>>,
    /// What queued jobs wait for.
    waiting: Cached<Waiting>,
    pub metrics: Metrics,
    pub seats: windlass_listen::Seats,
    /// For requests that are being worked on.
    pub rooms: Rooms,
    /// Long polls.
    pub polls: Semaphore,
    /// Claims that ask the store at the same time: a wake must not become a stampede.
    pub claims: Semaphore,
    /// Refusals that wait for their answer.
    pub refusals: windlass_listen::Refusals,
    /// True once the server is told to stop.
    pub stop: watch::Sender<bool>,
    /// What there is to see when there is nothing else.
    pub sample: OnceLock<Sample>,
}

/// What queued jobs wait for is given again for this long, and longer where it took long to find out.
const WAITING_MS: u64 = 1_000;
/// How many claims ask the store at the same time.
const CLAIMS_MAX: usize = 8;

impl Api {
    pub(crate) fn new(store: Arc<dyn Store>, settings: Settings, world: Arc<dyn World>) -> Self {
        let limits = settings.limits;
        Self {
            client: Client::in_world(store.clone(), world.clone()),
            door: Door::new(&settings),
            wake: Wake::on(&*store),
            feed: Feed::new(limits.listeners_max),
            roster: Roster::default(),
            runs: many::Runs::default(),
            stats: stats::Cache::default(),
            actions: actions::Actions::default(),
            counts: pages::Counts::default(),
            trouble: Cached::new(trouble::CACHE_MS),
            suggestions: Cached::new(pages::SUGGESTIONS_MS),
            waiting: Cached::new(WAITING_MS),
            metrics: Metrics::default(),
            seats: windlass_listen::Seats::default(),
            rooms: Rooms::new(&limits),
            polls: Semaphore::new(limits.polls_max),
            claims: Semaphore::new(CLAIMS_MAX),
            refusals: windlass_listen::Refusals::default(),
            stop: watch::Sender::new(false),
            sample: OnceLock::new(),
            store,
            world,
            settings,
        }
    }

    /// Lets a caller with a wrong token wait, as all of them do.
    pub(crate) async fn refused(&self) -> Result<(), Refusal> {
        Ok(self.refusals.wait(&*self.world, self.settings.limits.refusal_ms).await?)
    }

    /// Whether the inside of such a job is hidden from this caller.
    pub(crate) fn hides(&self, kind: &Kind, caller: &Caller) -> bool {
        caller.role != Role::Admin && self.settings.is_sensitive(kind)
    }

    /// Whether there was never a job, as far as anybody remembers.
    pub(crate) async fn is_empty(&self) -> Result<bool, Refusal> {
        let request = ListRequest { filter: JobFilter::default(), limit: 1, after: None };
        Ok(self.store.list(request).await?.jobs.is_empty())
    }

    /// What queued jobs wait for.
    pub(crate) async fn waiting(&self) -> Result<Arc<Waiting>, Refusal> {
        Ok(self.waiting.get(&*self.world, waiting::look(&*self.store, waiting::PAGES_MAX)).await?)
    }

    /// The time by the store's clock.
    pub(crate) async fn now(&self) -> Result<Time, Refusal> {
        Ok(self.store.now().await?)
    }

    /// Refuses a token that is held to some queues and asks about a job that
    /// is in another one, or that was last claimed by somebody else's worker
    /// (fault 76: a guessed fence alone is worth nothing).
    pub(crate) async fn owned(
        &self,
        caller: &Caller,
        jobs: impl Iterator<Item = JobId>,
    ) -> Result<(), Refusal> {
        let Some(queues) = caller.queues() else { return Ok(()) };
        let foreign = |holder: &Holder| {
            let worker = holder.worker.as_ref().map_or("", |worker| worker.as_str());
            !queues.contains(&holder.queue) || !caller.owns_worker(worker)
        };
        // A job that is not there is answered for by the store: the lease is lost.
        let holders = self.store.holders(jobs.collect()).await?;
        match holders.into_iter().find(foreign) {
            None => Ok(()),
            Some(Holder { job_id, .. }) => {
                let message = "this token may only write to leases of its own workers in its own queues";
                Err(Refusal::new(StatusCode::FORBIDDEN, "forbidden", message)
                    .details(serde_json::json!({ "job_id": job_id })))
            }
        }
    }
}

/// JSON of a caller through the gate: too long is 413, anything else wrong is 400.
pub(crate) fn gated(field: &'static str, raw: &RawValue, bytes_max: usize) -> Result<Json, Refusal> {
    if raw.get().len() > bytes_max {
        return Err(Refusal::too_large(field, bytes_max));
    }
    Ok(Json::new(field, raw.get().as_bytes(), bytes_max)?)
}

/// Reads a field that may be left out: a `null` that is there is JSON, too.
pub(crate) fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    serde::Deserialize::deserialize(from).map(Some)
}
