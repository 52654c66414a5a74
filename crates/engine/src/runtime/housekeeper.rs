//! The housekeeper: what any process may do for the whole store. Takes back
//! lost leases, fires schedules, prunes. Many may do it at once; the store sees
//! to it that each thing happens once.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::sync::Notify;
use windlass_core::error::StoreError;
use windlass_core::store::{EXPIRE_MAX, PRUNE_MAX, Source, Store};

use crate::world::{RealWorld, World, barely_jittered, half_jittered};

/// How often lost leases are looked for, at least and at most.
const EXPIRE_MS: std::ops::RangeInclusive<u64> = 20..=2_000;
/// How often schedules are looked at, at least and at most, while something happens.
const FIRE_MS: std::ops::RangeInclusive<u64> = 5..=1_000;
/// The longest pause while there is nothing to look after, of whoever is told when something happens and of whoever is not
/// (what happens in this process is told to everybody): for leases that have run out.
const EXPIRE_REST_MS: Rest = Rest { told: 30_000, untold: 3_000 };
/// The same for schedules. A new one must not wait longer than this for its first run.
const FIRE_REST_MS: Rest = Rest { told: 60_000, untold: 5_000 };
/// The longest pause in a world whose time a test moves.
const PAUSE_IN_PLACE_MS: u64 = 60_000;
/// How often finished jobs are pruned.
const PRUNE_MS: u64 = 60_000;
/// The longest pause of pruning while nothing happens: what is kept for days may be kept a little longer.
const PRUNE_REST_MS: Rest = Rest { told: 300_000, untold: PRUNE_MS };

/// How long nobody looks at what does not change.
struct Rest {
    told: u64,
    untold: u64,
}

/// Keeps a store in order. Workers have one of their own; a process that only
/// serves a store runs one by itself.
pub struct Housekeeper {
    source: Arc<dyn Source>,
    store: Option<Arc<dyn Store>>,
    world: Arc<dyn World>,
    mind: Mind,
}

/// What those who rest are told.
#[derive(Default)]
struct News {
    expire: Notify,
    fire: Notify,
    prune: Notify,
}

/// What looks at an error of the store, and at what was being done.
type Mind = Box<dyn Fn(&StoreError, &str) + Send + Sync>;

impl Housekeeper {
    /// A housekeeper for a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let mind: Mind = Box::new(|error, doing| {
            tracing::warn!(code = error.code(), %error, doing, "the store did not answer; trying again");
        });
        Self::minding(store.clone(), Some(store), Arc::new(RealWorld::new()), mind)
    }

    pub(crate) fn minding(
        source: Arc<dyn Source>,
        store: Option<Arc<dyn Store>>,
        world: Arc<dyn World>,
        mind: Mind,
    ) -> Self {
        Self { source, store, world, mind }
    }

    /// Another world, for tests.
    pub fn in_world(mut self, world: Arc<dyn World>) -> Self {
        self.world = world;
        self
    }

    /// Keeps house for as long as it is polled; drop it to end.
    pub fn run(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.keep())
    }

    async fn keep(&self) {
        let news = Arc::new(News::default());
        let heard = news.clone();
        let _registration = self.source.on_work(Arc::new(move |_| {
            heard.expire.notify_one();
            heard.fire.notify_one();
            heard.prune.notify_one();
        }));
        match self.store.as_deref() {
            None => self.expire(&news.expire).await,
            Some(store) => {
                tokio::join!(
                    self.expire(&news.expire),
                    self.fire(store, &news.fire),
                    self.prune(store, &news.prune)
                );
            }
        }
    }

    async fn expire(&self, news: &Notify) {
        loop {
            let wait_ms = match self.source.expire().await {
                Ok(expired) => {
                    for job_id in &expired.jobs {
                        tracing::warn!(%job_id, "took back a lease that had run out");
                    }
                    let more = expired.jobs.len() + expired.marked >= EXPIRE_MAX as usize;
                    if more { Some(0) } else { expired.next_in_ms }
                }
                Err(error) => Some(self.mind(&error, "take back leases")),
            };
            if wait_ms.is_none() && !self.world.runs_in_place() {
                // Whoever enqueued is followed by whoever claims: the pause behind this lets that happen first.
                self.rest(barely_jittered(&*self.world, self.longest(&EXPIRE_REST_MS)), news).await;
            }
            let wait_ms = wait_ms.unwrap_or(u64::MAX);
            self.pause(wait_ms.clamp(*EXPIRE_MS.start(), self.at_most(*EXPIRE_MS.end()))).await;
        }
    }

    async fn fire(&self, store: &dyn Store, news: &Notify) {
        loop {
            let wait_ms = match store.fire_schedules().await {
                Ok(fired) => {
                    for run in &fired.runs {
                        tracing::info!(schedule = %run.schedule, run = %run.run, job_id = %run.job_id, skipped = run.skipped, "schedule");
                    }
                    fired.next_in_ms
                }
                Err(error) => Some(self.mind(&error, "fire schedules")),
            };
            // Not before it is due: a schedule is never early.
            let wait_ms = wait_ms.unwrap_or(u64::MAX).max(*FIRE_MS.start());
            let pace_ms = wait_ms.min(self.at_most(*FIRE_MS.end()));
            self.world.sleep_ms(pace_ms).await;
            self.rest(wait_ms.min(self.longest(&FIRE_REST_MS)).saturating_sub(pace_ms), news).await;
        }
    }

    async fn prune(&self, store: &dyn Store, news: &Notify) {
        loop {
            match store.prune().await {
                Ok(pruned) if pruned >= u64::from(PRUNE_MAX) => continue,
                Ok(_) => {}
                Err(error) => drop(self.mind(&error, "prune")),
            }
            self.pause(PRUNE_MS).await;
            self.rest(self.longest(&PRUNE_REST_MS).saturating_sub(PRUNE_MS), news).await;
        }
    }

    /// Waits until something happens, but no longer than this.
    async fn rest(&self, ms: u64, news: &Notify) {
        if ms > 0 {
            tokio::select! {
                () = news.notified() => {}
                () = self.world.sleep_ms(ms) => {}
            }
        }
    }

    /// How long a rest may be. What is said while nobody listens is told when somebody does again.
    fn longest(&self, rest: &Rest) -> u64 {
        match self.world.runs_in_place() {
            true => PAUSE_IN_PLACE_MS,
            false if self.source.capabilities().tells => rest.told,
            false => rest.untold,
        }
    }

    /// The longest pause. Where time stands still until everybody waits, hours pass in a moment, and looking
    /// every second of them would be most of the work.
    fn at_most(&self, ms: u64) -> u64 {
        if self.world.runs_in_place() { PAUSE_IN_PLACE_MS } else { ms }
    }

    /// Looks at an error; answers that there is no hurry.
    fn mind(&self, error: &StoreError, doing: &str) -> u64 {
        (self.mind)(error, doing);
        u64::MAX
    }

    /// Processes that were started together must not all come at once.
    async fn pause(&self, ms: u64) {
        self.world.sleep_ms(half_jittered(&*self.world, ms)).await;
    }
}
