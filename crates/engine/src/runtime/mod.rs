//! The worker: claims jobs, runs them, keeps their leases, settles them.
//!
//! The engine's own loops run on a thread of their own, so that no handler can
//! starve them; handlers run on the runtime of whoever started the worker. The
//! loops share one [`Engine`] and nothing else:
//!
//! - `producer` claims no more than there are free slots, and starts attempts;
//! - `standby` lets the store claim for a producer that waits, in the commit that brings the work;
//! - `executor` runs one attempt to its end;
//! - `lease_keeper` renews leases, hears of cancels, and stops attempts whose
//!   time is up;
//! - `settler` groups settlements into few commits;
//! - `housekeeper` takes back lost leases, fires schedules, prunes;
//! - `presence` says that the worker is alive;
//! - `shutdown` brings it all to an end, the leases last.

mod assistant;
mod breaker;
mod executor;
mod housekeeper;
mod lease_keeper;
mod presence;
mod producer;
mod settler;
mod shutdown;
mod standby;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, mpsc, watch};
use windlass_core::error::StoreError;
use windlass_core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_core::store::{Settlement, Source, Store};
use windlass_core::transition::Outcome;

use crate::handler::Handler;
use crate::signal::{Attempt, Stop};
use crate::slots::Slots;
use crate::world::World;

pub use breaker::BreakerPolicy;
pub use housekeeper::Housekeeper;
pub use shutdown::{Shutdown, shutdown_on_signals};

/// How a worker behaves.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: WorkerName,
    pub(crate) queues: Vec<QueueName>,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) claim_max: usize,
    pub(crate) lease_ms: Option<u32>,
    pub(crate) grace_ms: u64,
    pub(crate) poll_ms_max: u64,
    pub(crate) housekeeping: bool,
    pub(crate) until_idle: bool,
}

/// What the loops share.
pub(crate) struct Engine {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) world: Arc<dyn World>,
    pub(crate) settings: Settings,
    pub(crate) handlers: HashMap<Kind, Arc<dyn Handler>>,
    pub(crate) breakers: breaker::Breakers,
    /// Where handlers run.
    pub(crate) ambient: tokio::runtime::Handle,
    pub(crate) slots: Arc<Slots>,
    held: Mutex<HashMap<JobId, Arc<Attempt>>>,
    settlements: mpsc::UnboundedSender<Settlement>,
    /// New work, or a cancel: ask the store.
    pub(crate) news: Arc<News>,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) standby: standby::Standby,
    pub(crate) counts: Counts,
}

/// Where a worker is in its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It claims.
    Working,
    /// It claims no more and waits for what it runs.
    Draining,
    /// All is settled; the loops end.
    Ended,
    /// The store has stopped for good.
    Failed(StoreError),
}

/// What the store calls when something may have changed.
#[derive(Default)]
pub(crate) struct News {
    pub(crate) work: Notify,
    pub(crate) cancels: Notify,
    /// A claim came back full.
    pub(crate) full: Notify,
    /// Attempts were settled.
    pub(crate) settled: Notify,
}

/// What a worker has done so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) claimed: AtomicU64,
    pub(crate) settled: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) stuck: AtomicU64,
    /// The last claim found nothing, and nothing becomes due by time alone.
    pub(crate) idle: AtomicBool,
    /// The last claim of the producer gave all that was asked for: there is more.
    pub(crate) full: AtomicBool,
    /// Claims that are under way: their leases are about to be held.
    pub(crate) claiming: AtomicUsize,
    /// How many jobs they may give.
    pub(crate) asked: AtomicUsize,
}

/// What a worker did, when it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Attempts that it began.
    pub claimed: u64,
    /// Attempts whose end was stored.
    pub settled: u64,
    /// Attempts whose lease was lost.
    pub lost: u64,
    /// Handlers that did not stop when they were told to; their slots stayed out of use.
    pub stuck: u64,
}

impl Engine {
    #[expect(clippy::too_many_arguments, reason = "called once, by the builder, with everything there is")]
    pub(crate) fn new(
        source: Arc<dyn Source>,
        store: Option<Arc<dyn Store>>,
        world: Arc<dyn World>,
        settings: Settings,
        handlers: HashMap<Kind, Arc<dyn Handler>>,
        breaker: Option<BreakerPolicy>,
        slots: usize,
        ambient: tokio::runtime::Handle,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<Settlement>) {
        let (settlements, settled) = mpsc::unbounded_channel();
        let news = Arc::new(News::default());
        source.on_work(Arc::new({
            // A store may outlive its workers; it must not keep them alive.
            let news = Arc::downgrade(&news);
            move || {
                if let Some(news) = news.upgrade() {
                    news.work.notify_one();
                    news.cancels.notify_one();
                }
            }
        }));
        let engine = Arc::new(Self {
            source,
            store,
            world,
            breakers: breaker::Breakers::new(breaker),
            settings,
            handlers,
            ambient,
            slots: Slots::new(slots),
            held: Mutex::default(),
            settlements,
            news,
            phase: watch::Sender::new(Phase::Working),
            standby: standby::Standby::new(),
            counts: Counts::default(),
        });
        standby::register(&engine);
        (engine, settled)
    }

    /// Runs the loops to their end, on the calling thread.
    pub(crate) async fn run(
        self: Arc<Self>,
        settled: mpsc::UnboundedReceiver<Settlement>,
        shutdown: Shutdown,
    ) -> Result<Summary, StoreError> {
        let keeper = tokio::spawn(lease_keeper::run(self.clone()));
        let settler = tokio::spawn(settler::run(self.clone(), settled));
        let housekeeper = tokio::spawn(self.clone().keep_house());
        let presence = tokio::spawn(presence::run(self.clone()));
        let producer = tokio::spawn(producer::run(self.clone()));
        let assistant = tokio::spawn(assistant::run(self.clone()));
        shutdown::drain(&self, shutdown).await;
        for task in [producer, assistant, housekeeper, presence, settler, keeper] {
            if let Err(error) = task.await {
                tracing::error!(%error, "a loop of the worker ended badly");
            }
        }
        match &*self.phase.borrow() {
            Phase::Failed(error) => Err(error.clone()),
            Phase::Working | Phase::Draining | Phase::Ended => Ok(self.summary()),
        }
    }

    async fn keep_house(self: Arc<Self>) {
        if !self.settings.housekeeping {
            return;
        }
        let mind = {
            let engine = self.clone();
            Box::new(move |error: &StoreError, doing: &str| engine.mind(error, doing))
        };
        let keeper = Housekeeper::minding(self.source.clone(), self.store.clone(), self.world.clone(), mind);
        tokio::select! {
            () = self.until(|phase| matches!(phase, Phase::Ended | Phase::Failed(_))) => {}
            () = keeper.run() => {}
        }
    }

    fn summary(&self) -> Summary {
        let Counts { claimed, settled, lost, stuck, idle: _, full: _, claiming: _, asked: _ } = &self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Summary { claimed: read(claimed), settled: read(settled), lost: read(lost), stuck: read(stuck) }
    }

    /// The attempts whose leases this worker holds, running or about to be settled.
    pub(crate) fn held(&self) -> Vec<Arc<Attempt>> {
        self.lock_held().values().cloned().collect()
    }

    pub(crate) fn held_count(&self) -> usize {
        self.lock_held().len()
    }

    pub(crate) fn hold(&self, attempt: Arc<Attempt>) {
        self.lock_held().insert(attempt.lease.job_id, attempt);
    }

    /// Lets go of a lease, unless the job was claimed here again in the meantime.
    pub(crate) fn let_go(&self, job_id: JobId, fence: u64) {
        let mut held = self.lock_held();
        if held.get(&job_id).is_some_and(|attempt| attempt.lease.fence == fence) {
            held.remove(&job_id);
            self.slots.room_made();
        }
    }

    /// Says how an attempt ended. Only the first to say so is heard.
    pub(crate) fn finish(&self, attempt: &Attempt, outcome: Option<Outcome>) {
        if !attempt.finish() {
            return;
        }
        match outcome {
            // The settler lives until every attempt has let go; should it be
            // gone all the same, the lease runs out and the job is not lost.
            Some(outcome) => drop(self.settlements.send(Settlement { lease: attempt.lease, outcome })),
            None => self.lost(attempt),
        }
    }

    /// The lease is gone: stop the handler and forget the attempt.
    pub(crate) fn lost(&self, attempt: &Attempt) {
        attempt.finish();
        attempt.halt(Stop::LeaseLost);
        self.counts.lost.fetch_add(1, Ordering::Relaxed);
        self.let_go(attempt.lease.job_id, attempt.lease.fence);
    }

    /// Waits for the phase to be one that `fits`.
    pub(crate) async fn until(&self, fits: impl Fn(&Phase) -> bool) {
        let mut phases = self.phase.subscribe();
        // The sender is ours: it cannot be gone.
        let _ = phases.wait_for(|phase| fits(phase)).await;
    }

    pub(crate) fn is_working(&self) -> bool {
        *self.phase.borrow() == Phase::Working
    }

    /// Looks at an error of the store: what cannot pass ends the worker.
    pub(crate) fn mind(&self, error: &StoreError, doing: &str) {
        if error.is_transient() {
            tracing::warn!(code = error.code(), %error, doing, "the store did not answer; trying again");
        } else if error.is_of_one_call() {
            tracing::error!(code = error.code(), %error, doing, "the store refused a call; going on with others");
        } else {
            tracing::error!(code = error.code(), %error, doing, "the store has stopped; ending the worker");
            self.phase.send_replace(Phase::Failed(error.clone()));
        }
    }

    fn lock_held(&self) -> std::sync::MutexGuard<'_, HashMap<JobId, Arc<Attempt>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits that grow while nothing comes, and begin anew when something did.
pub(crate) struct Backoff {
    ms_min: u64,
    ms_max: u64,
    ms: u64,
}

impl Backoff {
    pub(crate) fn new(ms_min: u64, ms_max: u64) -> Self {
        Self { ms_min, ms_max, ms: ms_min }
    }

    pub(crate) fn reset(&mut self) {
        self.ms = self.ms_min;
    }

    pub(crate) fn next_ms(&mut self, world: &dyn World) -> u64 {
        let ms = self.ms;
        self.ms = (self.ms * 2).min(self.ms_max);
        crate::world::half_jittered(world, ms).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::SimWorld;

    /// Fault 38: a thousand workers that lost the store at the same moment do
    /// not come back at the same moment.
    #[test]
    fn fault_38_waits_are_spread() {
        let world = SimWorld::new(3);
        for failures in [0, 3, 6] {
            let waits: Vec<u64> = (0..1_000)
                .map(|_| {
                    let mut trouble = Backoff::new(100, 5_000);
                    for _ in 0..failures {
                        trouble.next_ms(&world);
                    }
                    trouble.next_ms(&world)
                })
                .collect();
            let longest = (100u64 << failures).min(5_000);
            assert!(waits.iter().all(|wait| (longest / 2..=longest).contains(wait)));
            // Of ten equal slices of the range none has more than a fifth of them.
            for slice in 0..10 {
                let from = longest / 2 + slice * longest / 20;
                let within =
                    waits.iter().filter(|wait| (from..from + longest / 20 + 1).contains(*wait)).count();
                assert!(within <= 200, "{within} of 1000 come within {} ms", longest / 20);
            }
        }
    }
}
