//! The worker: claims jobs, runs them, keeps their leases, settles them.
//!
//! The engine's own loops run on a thread of their own, so that no handler can
//! starve them; handlers run on the runtime of whoever started the worker. The
//! loops share one [`Engine`] and nothing else:
//!
//! - `pool` is what queues that share slots have together: each has a producer;
//! - `allowance` is how many jobs the worker may still begin;
//! - `producer` claims no more than there are free slots, and starts attempts;
//! - `standby` lets the store claim for a producer that waits, in the commit that brings the work;
//! - `executor` runs one attempt to its end;
//! - `lease_keeper` renews leases, hears of cancels, holds attempts still while the
//!   store is away, and stops attempts whose time is up;
//! - `settler` groups settlements into few commits;
//! - `housekeeper` takes back lost leases, fires schedules, prunes;
//! - `presence` says that the worker is alive;
//! - `shutdown` brings it all to an end, the leases last.

mod allowance;
mod assistant;
mod breaker;
mod doubt;
mod epoch;
mod event;
mod executor;
mod housekeeper;
mod lease_keeper;
mod pool;
mod presence;
mod producer;
mod settler;
mod shutdown;
mod standby;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio::sync::{Notify, mpsc, watch};
use windlass_core::error::StoreError;
use windlass_core::id::{JobId, Kind, WorkerName};
use windlass_core::store::{Settlement, Source, Store};
use windlass_core::transition::Outcome;
use windlass_core::wake::{Registration, Work};

use crate::admission::Admission;
use crate::handler::Handler;
use crate::signal::{Attempt, Stop};
use crate::world::World;

pub use breaker::BreakerPolicy;
pub(crate) use event::OnEvent;
pub use event::WorkerEvent;
pub use housekeeper::Housekeeper;
pub(crate) use pool::Pool;
pub use shutdown::{Shutdown, shutdown_on_signals};

/// How a worker behaves.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) name: WorkerName,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) claim_max: usize,
    pub(crate) lease_ms: Option<u32>,
    pub(crate) grace_ms: u64,
    /// How long an attempt is held still while the store is away.
    pub(crate) still_ms_max: u64,
    pub(crate) poll_ms_max: u64,
    pub(crate) housekeeping: bool,
    pub(crate) until: Until,
    /// How many jobs are begun at most, of all pools together.
    pub(crate) jobs_max: Option<u64>,
}

/// What ends a worker beside its shutdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Nothing.
    Shutdown,
    /// There is nothing that could run, and nothing that becomes due by time alone.
    Idle,
    /// There is nothing that could run now.
    NothingDue,
}

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) world: Arc<dyn World>,
    pub(crate) settings: Settings,
    pub(crate) handlers: HashMap<Kind, Arc<dyn Handler>>,
    pub(crate) listeners: Vec<OnEvent>,
    pub(crate) breaker: Option<BreakerPolicy>,
    pub(crate) admission: Option<Arc<dyn Admission>>,
    pub(crate) pools: Vec<Pool>,
    /// Where handlers run.
    pub(crate) ambient: tokio::runtime::Handle,
}

/// What the loops share.
pub(crate) struct Engine {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) world: Arc<dyn World>,
    pub(crate) settings: Settings,
    pub(crate) handlers: HashMap<Kind, Arc<dyn Handler>>,
    pub(crate) breakers: breaker::Breakers,
    pub(crate) admission: Option<Arc<dyn Admission>>,
    pub(crate) allowance: Arc<allowance::Allowance>,
    pub(crate) ambient: tokio::runtime::Handle,
    pub(crate) pools: Vec<Arc<Pool>>,
    listeners: Vec<OnEvent>,
    settlements: mpsc::UnboundedSender<Settlement>,
    pub(crate) news: Arc<News>,
    pub(crate) phase: watch::Sender<Phase>,
    epoch: epoch::Heard,
    pub(crate) counts: Arc<Counts>,
    /// At the source, for as long as this engine is there.
    registrations: OnceLock<Vec<Registration>>,
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

/// What the loops tell each other.
#[derive(Default)]
pub(crate) struct News {
    /// A running job may be asked to cancel.
    pub(crate) cancels: Notify,
    /// Attempts were settled.
    pub(crate) settled: Notify,
    /// A lease is held: somebody has to look after it.
    pub(crate) held: Notify,
    /// A claim has ended, or a lease was let go: there may be nothing left to do.
    pub(crate) quiet: Notify,
}

/// What a worker has done so far.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) claimed: AtomicU64,
    pub(crate) settled: AtomicU64,
    pub(crate) lost: AtomicU64,
    pub(crate) stuck: AtomicU64,
    /// Claims that are under way: their leases are about to be held.
    pub(crate) claiming: AtomicUsize,
    /// How often a lease was held or let go.
    pub(crate) changes: AtomicU64,
}

/// What a worker did, when it has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
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
    pub(crate) fn new(parts: Parts) -> (Arc<Self>, mpsc::UnboundedReceiver<Settlement>) {
        let Parts { source, store, world, settings, handlers, listeners, breaker, admission, pools, ambient } =
            parts;
        let (settlements, settled) = mpsc::unbounded_channel();
        let engine = Arc::new(Self {
            source,
            store,
            world,
            breakers: breaker::Breakers::new(breaker),
            admission,
            allowance: allowance::Allowance::new(settings.jobs_max),
            settings,
            handlers,
            ambient,
            pools: pools.into_iter().map(Arc::new).collect(),
            listeners,
            settlements,
            news: Arc::default(),
            phase: watch::Sender::new(Phase::Working),
            epoch: epoch::Heard::default(),
            counts: Arc::default(),
            registrations: OnceLock::new(),
        });
        let wake = engine.source.on_work(Arc::new({
            // What is registered ends with the engine; it must not keep it alive.
            let engine = Arc::downgrade(&engine);
            move |work: &Work| {
                if let Some(engine) = engine.upgrade() {
                    engine.hear_of(work);
                }
            }
        }));
        let registrations = std::iter::once(wake).chain(standby::register(&engine)).collect();
        // It is new, so there are none yet.
        let _ = engine.registrations.set(registrations);
        (engine, settled)
    }

    /// There may be new work, or a cancel of a job: pools that claim from its queues ask the store.
    fn hear_of(&self, work: &Work) {
        let mut concerned = self.pools.iter().filter(|pool| work.concerns(&pool.queues)).peekable();
        if concerned.peek().is_some() {
            self.news.cancels.notify_one();
        }
        for pool in concerned {
            pool.work.notify_one();
        }
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
        let claimers = self.pools.iter().flat_map(|pool| {
            let producer = tokio::spawn(producer::run(self.clone(), pool.clone()));
            [producer, tokio::spawn(assistant::run(self.clone(), pool.clone()))]
        });
        let tasks: Vec<_> = claimers.chain([housekeeper, presence, settler, keeper]).collect();
        shutdown::drain(&self, shutdown).await;
        for task in tasks {
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
        let Counts { claimed, settled, lost, stuck, claiming: _, changes: _ } = &*self.counts;
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Summary { claimed: read(claimed), settled: read(settled), lost: read(lost), stuck: read(stuck) }
    }

    /// The attempts whose leases this worker holds, running or about to be settled.
    pub(crate) fn held(&self) -> Vec<Arc<Attempt>> {
        self.pools.iter().flat_map(|pool| pool.held()).collect()
    }

    pub(crate) fn held_count(&self) -> usize {
        self.pools.iter().map(|pool| pool.held_count()).sum()
    }

    /// Lets go of a lease, unless the job was claimed here again in the meantime.
    pub(crate) fn let_go(&self, job_id: JobId, fence: u64) {
        for pool in &self.pools {
            pool.let_go(job_id, fence);
        }
        self.counts.changes.fetch_add(1, Ordering::SeqCst);
        self.news.quiet.notify_waiters();
    }

    /// Says that a claim is under way, until what is returned is dropped. Said before the phase is looked at:
    /// a shutdown either is seen, or sees that leases may still come and waits for them.
    pub(crate) fn claiming(&self) -> Claiming {
        self.counts.claiming.fetch_add(1, Ordering::SeqCst);
        Claiming { counts: self.counts.clone(), news: self.news.clone() }
    }

    /// How often a lease was held or let go so far.
    pub(crate) fn changes(&self) -> u64 {
        self.counts.changes.load(Ordering::SeqCst)
    }

    /// Tells whoever wants to hear what the worker does.
    pub(crate) fn tell(&self, event: &WorkerEvent<'_>) {
        for hear in &self.listeners {
            hear(event);
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

    /// Ends a handler whose attempt is over. A program that is held still is asked to end (SIGTERM, with SIGCONT, or
    /// it would not hear it) and killed soon after; whatever else there is, is dropped.
    pub(crate) fn end_handler(&self, attempt: &Attempt, stop: Stop) {
        let now_ms = self.world.boot_ms();
        if attempt.is_held_still(now_ms) && attempt.has_brake() {
            attempt.tell(stop, now_ms);
            attempt.release(now_ms);
        } else {
            attempt.halt(stop);
        }
    }

    /// The lease is gone: stop the handler and forget the attempt.
    pub(crate) fn lost(&self, attempt: &Attempt) {
        attempt.finish();
        self.end_handler(attempt, Stop::LeaseLost);
        self.counts.lost.fetch_add(1, Ordering::Relaxed);
        self.tell(&WorkerEvent::Lost { job_id: attempt.lease.job_id, fence: attempt.lease.fence });
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
        } else if self.admission.as_ref().is_some_and(|admission| admission.outlives(error)) {
            tracing::debug!(code = error.code(), %error, doing, "the store refused a call, which this worker outlives");
        } else if error.is_of_one_call() {
            tracing::error!(code = error.code(), %error, doing, "the store refused a call; going on with others");
        } else {
            tracing::error!(code = error.code(), %error, doing, "the store has stopped; ending the worker");
            self.phase.send_replace(Phase::Failed(error.clone()));
        }
    }
}

/// A claim that is under way.
pub(crate) struct Claiming {
    counts: Arc<Counts>,
    news: Arc<News>,
}

impl Drop for Claiming {
    fn drop(&mut self) {
        self.counts.claiming.fetch_sub(1, Ordering::SeqCst);
        self.news.quiet.notify_waiters();
        self.news.settled.notify_one();
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
