//! The last crash of each worker, and of its host: a program that was started again is another worker.
//!
//! Stores do not keep it with a worker: events tell which jobs were taken back, and the histories of these whose they were.
//! So a server that starts reads what was kept of them (`kept`), and the events behind that.

mod kept;

use std::collections::{BTreeSet, HashMap, VecDeque};

use serde::{Deserialize, Serialize};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::event::{Event, Position, What};
use windlass_engine::core::id::{JobId, WorkerName};
use windlass_engine::core::job::Job;
use windlass_engine::core::query::WorkerStatus;
use windlass_engine::core::store::{EVENTS_KEPT, EVENTS_MAX, Store};
use windlass_engine::core::time::Time;

use crate::view::CrashView;

pub(super) use kept::write;

/// Of how many workers the last crash is kept; the oldest crash goes first.
const KEPT_MAX: usize = 500;
/// How many jobs that were taken back are looked at each time, and how many that failed, since a crash may be the end of one:
/// the newest.
const CRASHED_MAX: usize = 256;
const FAILED_MAX: usize = 64;

/// The last crashes, by worker.
#[derive(Default)]
pub(crate) struct Crashes {
    known: HashMap<WorkerName, Crash>,
    /// Up to where events were looked at for them.
    position: Option<Position>,
    /// Up to where that is kept, and whether a crash is not.
    kept: Option<Position>,
    changed: bool,
}

/// A crash, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Crash {
    at: Time,
    job_id: JobId,
    worker: WorkerName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

/// The newest jobs of which events say that they were taken back, or failed.
#[derive(Default)]
pub(super) struct Suspects {
    crashed: VecDeque<JobId>,
    failed: VecDeque<JobId>,
}

impl Suspects {
    /// Those that an event names.
    pub(super) fn consider(&mut self, event: &Event) {
        let (jobs, max) = match event.what {
            What::Crashed => (&mut self.crashed, CRASHED_MAX),
            What::Failed => (&mut self.failed, FAILED_MAX),
            _ => return,
        };
        let newest = event.jobs.len().saturating_sub(max);
        jobs.extend(&event.jobs[newest..]);
        jobs.drain(..jobs.len().saturating_sub(max));
    }

    /// Their crashes, as far as they are there.
    pub(super) async fn crashes(self, store: &dyn Store) -> Result<Vec<Crash>, StoreError> {
        let Self { crashed, failed } = self;
        let jobs: BTreeSet<JobId> = crashed.into_iter().chain(failed).collect();
        let mut crashes = Vec::new();
        for id in jobs {
            crashes.extend(store.get(id).await?.as_ref().and_then(Crash::told_by));
        }
        if !crashes.is_empty() {
            // Whoever crashed is known for an hour: its host is kept with the crash.
            let workers = store.workers().await?;
            crashes.iter_mut().for_each(|crash| crash.find_host(&workers));
        }
        Ok(crashes)
    }
}

impl Crash {
    /// The newest crash that a job tells of.
    fn told_by(job: &Job) -> Option<Self> {
        let crash = job.history.iter().rev().find(|entry| entry.what == What::Crashed)?;
        Some(Self { at: crash.at, job_id: job.id, worker: crash.worker.clone()?, host: None })
    }

    fn find_host(&mut self, workers: &[WorkerStatus]) {
        let of = workers.iter().find(|worker| worker.name == self.worker);
        self.host = of.and_then(|worker| worker.host.clone());
    }
}

impl Crashes {
    /// What is known of a store: what was kept, and what happened since.
    pub(crate) async fn of_store(store: &dyn Store) -> Result<Self, StoreError> {
        let mut crashes = Self::default();
        if let Some(kept) = kept::read(store).await? {
            crashes.learn(kept);
        }
        let (suspects, position) = heard(store, crashes.position).await?;
        crashes.note(suspects.crashes(store).await?, position);
        Ok(crashes)
    }

    /// Remembers crashes of events up to `position`.
    pub(super) fn note(&mut self, found: Vec<Crash>, position: Position) {
        for crash in found {
            self.changed |= self.add(crash);
        }
        self.position = Some(position);
    }

    /// Goes on from what another has found out.
    pub(super) fn take_over(&mut self, other: Self) {
        let Self { known, position, kept, changed } = other;
        for crash in known.into_values() {
            self.add(crash);
        }
        (self.position, self.kept) = (position, kept);
        self.changed |= changed;
    }

    /// Adds a crash, if it is newer than what is known of its worker.
    fn add(&mut self, crash: Crash) -> bool {
        if self.known.get(&crash.worker).is_some_and(|known| known.at >= crash.at) {
            return false;
        }
        self.known.insert(crash.worker.clone(), crash);
        if self.known.len() > KEPT_MAX {
            let oldest = self.known.values().min_by_key(|crash| crash.at).map(|crash| crash.worker.clone());
            oldest.and_then(|worker| self.known.remove(&worker));
        }
        true
    }

    /// The last crash of a worker, or of its host.
    pub(crate) fn of(&self, worker: &WorkerStatus) -> Option<CrashView> {
        let host = worker.host.as_deref();
        let beside = |crash: &&Crash| host.is_some() && crash.host.as_deref() == host;
        let own = self.known.get(&worker.name);
        let last = own.or_else(|| self.known.values().filter(beside).max_by_key(|crash| crash.at));
        last.map(|Crash { at, job_id, worker, host: _ }| CrashView {
            at: *at,
            job_id: *job_id,
            worker: worker.clone(),
        })
    }
}

/// Which jobs the events behind a position name, and up to where these go.
async fn heard(store: &dyn Store, since: Option<Position>) -> Result<(Suspects, Position), StoreError> {
    let end = store.events_end().await?;
    let (mut suspects, mut since) = (Suspects::default(), since);
    // So many are kept at most; an answer may be short.
    for _ in 0..2 * EVENTS_KEPT / u64::from(EVENTS_MAX) {
        let events = match store.events(since, EVENTS_MAX).await {
            // Of a history that was lost, or too long ago: from where this one begins.
            Err(StoreError::AnotherEpoch(begin)) => {
                since = Some(begin);
                continue;
            }
            events => events?,
        };
        events.iter().for_each(|event| suspects.consider(event));
        match events.last() {
            Some(last) if !end.is_behind(last.position) => since = Some(last.position),
            _ => break,
        }
    }
    Ok((suspects, end))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_engine::core::id::{Kind, QueueName};
    use windlass_engine::core::job::{JobSpec, NewJob, Start};
    use windlass_engine::core::json::Json;
    use windlass_engine::core::memory::MemoryStore;
    use windlass_engine::core::store::{ClaimRequest, Source, WorkerBeat};
    use windlass_engine::world::{SimWorld, World, new_id};

    use super::super::read_on;
    use super::*;
    use crate::api::Api;
    use crate::settings::Settings;

    fn name(name: &str) -> WorkerName {
        WorkerName::new(name).unwrap()
    }

    fn worker(worker: &str, host: Option<&str>) -> WorkerStatus {
        WorkerStatus {
            name: name(worker),
            queues: Vec::new(),
            kinds: None,
            slots: 1,
            running: 0,
            version: None,
            host: host.map(str::to_owned),
            started_at: Time::from_ms(0),
            seen_at: Time::from_ms(0),
        }
    }

    #[test]
    fn a_crash_is_known_by_worker_and_by_host() {
        let workers = [worker("a-1", Some("a")), worker("b-1", Some("b"))];
        let crash = |worker: &str, at: i64| {
            let (job_id, worker) = (JobId(uuid::Uuid::from_u128(at as u128)), name(worker));
            let mut crash = Crash { at: Time::from_ms(at), job_id, worker, host: None };
            crash.find_host(&workers);
            crash
        };
        let mut crashes = Crashes::default();
        let found = vec![crash("a-1", 10), crash("a-1", 5), crash("remote", 20)];
        crashes.note(found, Position::default());
        let of =
            |crashes: &Crashes, name: &str, host| crashes.of(&worker(name, host)).map(|crash| crash.at.ms());
        assert_eq!(of(&crashes, "a-1", Some("a")), Some(10), "the newest");
        assert_eq!(of(&crashes, "a-2", Some("a")), Some(10), "of one before it on the same host");
        assert_eq!(of(&crashes, "b-1", Some("b")), None);
        assert_eq!((of(&crashes, "remote", None), of(&crashes, "other", None)), (Some(20), None));
        let many = (0..KEPT_MAX).map(|number| crash(&format!("w{number}"), 100 + number as i64));
        crashes.note(many.collect(), Position::default());
        assert_eq!((crashes.known.len(), of(&crashes, "a-1", None)), (KEPT_MAX, None), "the oldest has gone");
    }

    struct House {
        world: SimWorld,
        store: Arc<MemoryStore>,
    }

    impl House {
        fn server(&self) -> Api {
            let world: Arc<dyn World> = Arc::new(self.world.clone());
            Api::new(self.store.clone(), Settings::default(), world)
        }

        /// A worker of a host takes a job, and is not heard of again.
        async fn crash(&self, worker: &str, host: &str) {
            let (queues, world) = (vec![QueueName::default()], &self.world);
            let (version, host) = (None, Some(host.to_owned()));
            let beat = WorkerBeat {
                name: name(worker),
                queues: queues.clone(),
                kinds: None,
                slots: 1,
                running: 1,
                version,
                host,
            };
            self.store.beat(beat).await.unwrap();
            let spec = JobSpec::new(Kind::new("k").unwrap(), QueueName::default(), Json::null());
            let job = NewJob { id: new_id(world), spec, start: Start::Now };
            self.store.enqueue(vec![job]).await.unwrap();
            let request_id = new_id(world).0;
            let request = ClaimRequest {
                request_id,
                worker: name(worker),
                queues,
                kinds: None,
                limit: 1,
                lease_ms: Some(1_000),
            };
            assert_eq!(self.store.claim(request).await.unwrap().leases.len(), 1);
            // It is marked first, and taken when it has run out.
            for _ in 0..2 {
                world.advance(2_000);
                self.store.expire().await.unwrap();
            }
        }
    }

    fn of(api: &Api, name: &str, host: &str) -> Option<WorkerName> {
        api.feed.crashes(|crashes| crashes.of(&worker(name, Some(host)))).map(|crash| crash.worker)
    }

    /// A server that was not there when a worker crashed knows of it: from the record, and from the events behind that.
    #[tokio::test]
    async fn crashes_outlive_a_restart_and_are_the_same_through_every_server() {
        let world = SimWorld::new(1);
        let house = House { store: Arc::new(MemoryStore::new(Arc::new(world.clone()))), world };
        house.crash("a-1", "a").await;
        let (first, mut at) = (house.server(), None);
        read_on(&first, &mut at).await.unwrap();
        assert_eq!(of(&first, "a-2", "a"), Some(name("a-1")), "before it was started");
        house.crash("b-1", "b").await;
        read_on(&first, &mut at).await.unwrap();
        write(&first).await;
        drop(first);
        // What is kept needs no events.
        house.store.book().keep_events(0);
        house.crash("c-1", "c").await;
        let (second, third) = (house.server(), house.server());
        for server in [&second, &third] {
            read_on(server, &mut None).await.unwrap();
            let found = ["a", "b", "c"].map(|host| of(server, "x", host));
            assert_eq!(found, ["a-1", "b-1", "c-1"].map(|worker| Some(name(worker))));
        }
        // Whoever asks without a server is told the same.
        let known = Crashes::of_store(&*house.store).await.unwrap();
        assert_eq!(known.of(&worker("x", Some("c"))).map(|crash| crash.worker), Some(name("c-1")));
        assert!(second.feed.crashes(|crashes| crashes.changed), "the third crash is not kept yet");
        write(&second).await;
        write(&third).await;
        let fourth = house.server();
        house.store.book().keep_events(0);
        read_on(&fourth, &mut None).await.unwrap();
        assert_eq!(of(&fourth, "x", "c"), Some(name("c-1")));
        assert!(!fourth.feed.crashes(|crashes| crashes.changed), "nothing is new");
    }
}
