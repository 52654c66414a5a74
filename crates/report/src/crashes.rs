//! The last crash of each worker, and of its host: a program that was started again is another worker.
//!
//! Stores do not keep it with a worker: events tell which jobs were taken back, and the histories of these whose they were.
//! So whoever wants to know reads what a server has kept of them (`kept`), and the events behind that.

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

pub use kept::record;

/// Of how many workers the last crash is kept; the oldest crash goes first.
const KEPT_MAX: usize = 500;
/// How many jobs that were taken back are looked at each time, and how many that failed, since a crash may be the end of one:
/// the newest.
const CRASHED_MAX: usize = 256;
const FAILED_MAX: usize = 64;

/// The last crashes, by worker.
#[derive(Default)]
pub struct Crashes {
    known: HashMap<WorkerName, Crash>,
    /// Up to where events were looked at for them.
    position: Option<Position>,
    /// Up to where that is kept, and whether a crash is not.
    kept: Option<Position>,
    changed: bool,
}

/// A crash, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crash {
    at: Time,
    job_id: JobId,
    worker: WorkerName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

/// The newest jobs of which events say that they were taken back, or failed.
#[derive(Default)]
pub struct Suspects {
    crashed: VecDeque<JobId>,
    failed: VecDeque<JobId>,
}

impl Suspects {
    /// Those that an event names.
    pub fn consider(&mut self, event: &Event) {
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
    pub async fn crashes(self, store: &dyn Store) -> Result<Vec<Crash>, StoreError> {
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
    pub async fn of_store(store: &dyn Store) -> Result<Self, StoreError> {
        let mut crashes = Self::default();
        if let Some(kept) = kept::read(store).await? {
            crashes.learn(kept);
        }
        let (suspects, position) = heard(store, crashes.position).await?;
        crashes.note(suspects.crashes(store).await?, position);
        Ok(crashes)
    }

    /// Remembers crashes of events up to `position`.
    pub fn note(&mut self, found: Vec<Crash>, position: Position) {
        for crash in found {
            self.changed |= self.add(crash);
        }
        self.position = Some(position);
    }

    /// Goes on from what another has found out.
    pub fn take_over(&mut self, other: Self) {
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
    pub fn of(&self, worker: &WorkerStatus) -> Option<CrashView> {
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
    use super::*;

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
}
