//! The store's events, read once for everybody: for the listeners over HTTP,
//! for the statistics and for the metrics.
//!
//! While somebody listens the store is asked when it announces work and every
//! 200 ms; otherwise once a second, for the statistics alone. Where the store tells of new work and no job runs whose end
//! somebody could wait for, it is asked less and less often.

mod crashes;
mod crew;
mod history;
mod kept;
mod ongoing;
mod rings;
mod spread;
mod troubles;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, broadcast};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::event::{Action, Event, Position, What};
use windlass_engine::core::id::{JobId, QueueName};
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::EVENTS_MAX;
use windlass_engine::core::time::Time;
use windlass_report::crashes::{Crashes, Suspects};
use windlass_report::schema::{AnyJson, Id, Moment, Name, PositionText};

use crate::api::Api;

pub(crate) use history::{HistoryView, Span};
pub(crate) use kept::{keep, keep_rest};
pub(crate) use rings::{Latency, LatencyPoints, Percentiles, Rings, Throughput};
pub(crate) use troubles::{FAILURES_MS, Failures};

use crew::Crew;
use ongoing::Ongoing;
use troubles::Picks;

/// How often the store is asked while somebody listens and jobs run: stores announce work, and no other event, so an end is
/// heard of by asking alone. It costs five short reads a second for the whole server, however many listen.
const LISTENED_MS: u64 = 200;
/// How often it is asked when nobody does.
const IDLE_MS: u64 = 1_000;
/// After so many looks in vain, while nobody could wait for anything, the pause doubles with each, up to so many.
const QUIET_AFTER: u32 = 10;
const QUIET_MAX: u32 = 17;
/// How long it is then while somebody listens, and when nobody does.
const QUIET_LISTENED_MS: u64 = 15_000;
const QUIET_IDLE_MS: u64 = 32_000;
/// Announcements that come in a burst are answered together.
const BURST_MS: u64 = 20;
/// How many events a listener may be behind before it reads from the store again.
const BEHIND_MAX: usize = 1_024;
/// How many jobs of an event are named.
const NAMED_MAX: usize = 100;
/// How many jobs are looked at each time for latencies.
const SAMPLES_MAX: usize = 8;

/// The events.
pub(crate) struct Feed {
    live: broadcast::Sender<Told>,
    seats: Arc<Semaphore>,
    came: Notify,
    rings: Mutex<Rings>,
    crashes: Mutex<Crashes>,
    ongoing: Mutex<Ongoing>,
    told: AtomicU64,
    quiet: AtomicBool,
    /// How often the workers were others than before, while nothing happened.
    crews: AtomicU64,
}

/// What listeners hear.
#[derive(Clone)]
pub(crate) enum Told {
    /// An event.
    Event {
        /// Where it stands.
        position: Position,
        /// As text of the stream.
        frame: Bytes,
    },
    /// The feed begins to read here. Whoever listened before it did has to ask the store what happened meanwhile.
    Begun,
}

/// An event.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Event")]
pub(crate) struct EventView<'a> {
    #[schemars(with = "PositionText")]
    position: String,
    #[schemars(with = "Moment")]
    at: Time,
    #[schemars(with = "String")]
    what: What,
    #[schemars(with = "Name")]
    queue: &'a QueueName,
    /// How many jobs it happened to.
    count: usize,
    /// The first hundred of them.
    #[schemars(with = "Vec<Id>")]
    jobs: &'a [JobId],
    /// With `acted`: who did what.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<AnyJson>")]
    action: Option<&'a Action>,
}

/// Somebody who hears all events from now on.
pub(crate) struct Listener {
    pub live: broadcast::Receiver<Told>,
    _seat: OwnedSemaphorePermit,
}

impl Feed {
    pub(crate) fn new(listeners_max: usize) -> Self {
        Self {
            live: broadcast::Sender::new(BEHIND_MAX),
            seats: Arc::new(Semaphore::new(listeners_max)),
            came: Notify::new(),
            rings: Mutex::new(Rings::default()),
            crashes: Mutex::default(),
            ongoing: Mutex::default(),
            told: AtomicU64::new(0),
            quiet: AtomicBool::new(false),
            crews: AtomicU64::new(0),
        }
    }

    /// A place among the listeners, if there is one.
    pub(crate) fn listen(&self) -> Option<Listener> {
        let seat = self.seats.clone().try_acquire_owned().ok()?;
        let listener = Listener { live: self.live.subscribe(), _seat: seat };
        self.came.notify_one();
        Some(listener)
    }

    /// Looks at what was counted.
    pub(crate) fn rings<T>(&self, look: impl FnOnce(&Rings) -> T) -> T {
        look(&self.lock())
    }

    /// The last crashes of workers.
    pub(crate) fn crashes<T>(&self, look: impl FnOnce(&mut Crashes) -> T) -> T {
        look(&mut self.crashes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether nothing has happened for a while, and no job runs.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet.load(Ordering::Relaxed)
    }

    /// Another number when a worker has come, gone or fallen silent while nothing happened.
    pub(crate) fn crews(&self) -> u64 {
        self.crews.load(Ordering::Relaxed)
    }

    /// How many events were told since the server started.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Rings> {
        self.rings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_listened_to(&self) -> bool {
        self.live.receiver_count() > 0
    }

    fn ongoing(&self) -> std::sync::MutexGuard<'_, Ongoing> {
        self.ongoing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells an event to all listeners and counts it.
    fn tell(&self, event: &Event) {
        if event.what != What::Acted {
            self.lock().count(event);
        }
        self.ongoing().hear(event);
        self.told.fetch_add(1, Ordering::Relaxed);
        if self.is_listened_to() {
            // Nobody hears it when the last one has just left.
            let _ = self.live.send(Told::Event { position: event.position, frame: frame(event) });
        }
    }
}

/// An event as text of the stream.
pub(crate) fn frame(event: &Event) -> Bytes {
    let Event { position, at, what, queue, jobs, action } = event;
    let view = EventView {
        position: position.to_string(),
        at: *at,
        what: *what,
        queue,
        count: jobs.len(),
        jobs: &jobs[..jobs.len().min(NAMED_MAX)],
        action: action.as_ref(),
    };
    // JSON has no line breaks of its own, so one data line holds it.
    let data = serde_json::to_string(&view).unwrap_or_default();
    Bytes::from(format!("id: {position}\nevent: {what}\ndata: {data}\n\n"))
}

/// Reads the events until it is dropped.
pub(crate) async fn run(api: Arc<Api>) {
    let mut woken = api.wake.watch();
    let mut last = None;
    let mut idle: u32 = 0;
    let (mut crew, mut crew_due_ms) = (Crew::default(), 0);
    loop {
        let before = api.feed.told();
        if let Err(error) = read_on(&api, &mut last).await {
            tracing::warn!(code = error.code(), %error, "could not read events; trying again");
        }
        let listened = api.feed.is_listened_to();
        let awaited = listened && api.feed.ongoing().is_any();
        let quiet = api.store.capabilities().tells && api.feed.told() == before && !awaited;
        idle = if quiet { (idle + 1).min(QUIET_MAX) } else { 0 };
        api.feed.quiet.store(idle >= QUIET_AFTER, Ordering::Relaxed);
        let now_ms = api.world.boot_ms();
        if listened && idle >= QUIET_AFTER && now_ms >= crew_due_ms {
            crew_due_ms = now_ms + crew::LOOK_MS;
            look_at(&api, &mut crew).await;
        }
        let pause_ms = pause_ms(listened, idle);
        tokio::select! {
            _ = woken.changed(), if listened => {
                idle = 0;
                api.world.sleep_ms(BURST_MS).await;
            }
            () = api.feed.came.notified() => idle = 0,
            () = api.world.sleep_ms(pause_ms) => {}
        }
    }
}

/// Looks whether the workers are others than before.
async fn look_at(api: &Api, crew: &mut Crew) {
    // A store that does not answer is told of by whoever reads the events.
    if api.store.workers().await.is_ok_and(|workers| crew.changes(&workers)) {
        api.feed.crews.fetch_add(1, Ordering::Relaxed);
    }
}

/// How long to wait after so many looks in vain.
fn pause_ms(listened: bool, idle: u32) -> u64 {
    let (shortest_ms, longest_ms) =
        if listened { (LISTENED_MS, QUIET_LISTENED_MS) } else { (IDLE_MS, QUIET_IDLE_MS) };
    (shortest_ms << idle.saturating_sub(QUIET_AFTER)).min(longest_ms)
}

/// Where the feed begins to read, and that it does.
async fn begun(api: &Api) -> Result<Position, StoreError> {
    let end = api.store.events_end().await?;
    if api.feed.lock().history.position().is_none() {
        let history = kept::recalled(api, end).await?;
        let now = api.store.now().await?;
        api.feed.lock().recall(history, now);
    }
    let crashes = Crashes::of_store(&*api.store).await?;
    api.feed.crashes(|known| known.take_over(crashes));
    // What runs already is awaited, too; of very many some are, which is enough.
    let filter = JobFilter { states: vec![StateName::Running], ..JobFilter::default() };
    let running = api.store.list(ListRequest { filter, limit: PAGE_MAX, after: None }).await?;
    api.feed.ongoing().begin(running.jobs.iter().map(|job| job.id));
    // Nobody hears it when nobody came before it.
    let _ = api.feed.live.send(Told::Begun);
    Ok(end)
}

/// Reads all that is new, and looks at some of the jobs that it happened to.
pub(crate) async fn read_on(api: &Api, last: &mut Option<Position>) -> Result<(), StoreError> {
    let mut since = match *last {
        Some(position) => position,
        None => begun(api).await?,
    };
    *last = Some(since);
    let mut samples = Samples::default();
    loop {
        let events = match api.store.events(Some(since), EVENTS_MAX).await {
            // Listeners are told so when they ask the store themselves.
            Err(StoreError::AnotherEpoch(_)) => {
                *last = None;
                since = begun(api).await?;
                continue;
            }
            events => events?,
        };
        for event in &events {
            api.feed.tell(event);
            samples.consider(event);
            since = event.position;
        }
        *last = Some(since);
        if events.len() < EVENTS_MAX as usize {
            break;
        }
    }
    let Samples { ended, troubled, suspects } = samples;
    for id in ended {
        if let Some(job) = api.store.get(id).await? {
            api.feed.lock().sample(&job);
        }
    }
    let (troubled, weight) = troubled.picked();
    for id in troubled {
        if let Some(job) = api.store.get(id).await? {
            let sensitive = api.settings.is_sensitive(&job.spec.kind);
            api.feed.lock().troubles.note(&job, weight, sensitive);
        }
    }
    let crashes = suspects.crashes(&*api.store).await?;
    api.feed.crashes(|known| known.note(crashes, since));
    Ok(())
}

/// Some of the jobs that events named: a few are enough to know how it goes.
#[derive(Default)]
struct Samples {
    ended: Vec<JobId>,
    troubled: Picks,
    suspects: Suspects,
}

impl Samples {
    fn consider(&mut self, event: &Event) {
        self.suspects.consider(event);
        match event.what {
            What::Completed => {
                let room = SAMPLES_MAX.saturating_sub(self.ended.len());
                self.ended.extend(event.jobs.iter().take(room));
            }
            What::Failed | What::Retrying | What::Crashed => {
                event.jobs.iter().for_each(|job| self.troubled.offer(*job));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the guides promise to whoever listens while jobs run; a server on which nothing happens rests.
    #[test]
    fn a_pause_is_short_as_long_as_something_happens() {
        for idle in 0..=QUIET_AFTER {
            assert!(pause_ms(true, idle) < 250, "{idle}");
        }
        assert_eq!([true, false].map(|listened| pause_ms(listened, QUIET_MAX)), [15_000, 32_000]);
    }
}
