//! The last crash of each worker that was seen, and of its host: a program that was started again is another worker.

use std::collections::HashMap;

use windlass_engine::core::event::What;
use windlass_engine::core::id::WorkerName;
use windlass_engine::core::job::Job;
use windlass_engine::core::query::WorkerStatus;

use crate::view::CrashView;

/// Of how many workers the last crash is kept; the oldest crash goes first.
const KEPT_MAX: usize = 1_000;

/// The last crashes, by worker.
#[derive(Default)]
pub(crate) struct Crashes(HashMap<WorkerName, Crash>);

struct Crash {
    view: CrashView,
    host: Option<String>,
}

/// The newest crash that a job tells of.
pub(super) fn told_by(job: &Job) -> Option<CrashView> {
    let crash = job.history.iter().rev().find(|entry| entry.what == What::Crashed)?;
    Some(CrashView { at: crash.at, job_id: job.id, worker: crash.worker.clone()? })
}

impl Crashes {
    /// Remembers a crash, with the host of the worker where that is known.
    pub(super) fn note(&mut self, view: CrashView, workers: &[WorkerStatus]) {
        if self.0.get(&view.worker).is_some_and(|known| known.view.at >= view.at) {
            return;
        }
        if self.0.len() >= KEPT_MAX && !self.0.contains_key(&view.worker) {
            let oldest =
                self.0.values().min_by_key(|crash| crash.view.at).map(|crash| crash.view.worker.clone());
            oldest.and_then(|worker| self.0.remove(&worker));
        }
        let of = workers.iter().find(|worker| worker.name == view.worker);
        let host = of.and_then(|worker| worker.host.clone());
        self.0.insert(view.worker.clone(), Crash { view, host });
    }

    /// The last crash of a worker, or of its host.
    pub(crate) fn of(&self, name: &WorkerName, host: Option<&str>) -> Option<CrashView> {
        let beside = |crash: &&Crash| host.is_some() && crash.host.as_deref() == host;
        let own = self.0.get(name);
        let last = own.or_else(|| self.0.values().filter(beside).max_by_key(|crash| crash.view.at));
        last.map(|crash| crash.view.clone())
    }
}

#[cfg(test)]
mod tests {
    use windlass_engine::core::id::JobId;
    use windlass_engine::core::time::Time;

    use super::*;

    #[test]
    fn a_crash_is_known_by_worker_and_by_host() {
        let name = |name: &str| WorkerName::new(name).unwrap();
        let worker = |worker: &str, host: &str| WorkerStatus {
            name: name(worker),
            queues: Vec::new(),
            kinds: None,
            slots: 1,
            running: 0,
            version: None,
            host: Some(host.to_owned()),
            started_at: Time::from_ms(0),
            seen_at: Time::from_ms(0),
        };
        let crash = |worker: &str, at: i64| CrashView {
            at: Time::from_ms(at),
            job_id: JobId(uuid::Uuid::from_u128(at as u128)),
            worker: name(worker),
        };
        let workers = [worker("a-1", "a"), worker("b-1", "b")];
        let mut crashes = Crashes::default();
        crashes.note(crash("a-1", 10), &workers);
        crashes.note(crash("a-1", 5), &workers);
        crashes.note(crash("remote", 20), &workers);
        let of = |crashes: &Crashes, worker: &str, host| {
            crashes.of(&name(worker), host).map(|crash| crash.at.ms())
        };
        assert_eq!(of(&crashes, "a-1", Some("a")), Some(10), "the newest");
        assert_eq!(of(&crashes, "a-2", Some("a")), Some(10), "of one before it on the same host");
        assert_eq!(of(&crashes, "b-1", Some("b")), None);
        assert_eq!((of(&crashes, "remote", None), of(&crashes, "other", None)), (Some(20), None));
        for number in 0..KEPT_MAX {
            crashes.note(crash(&format!("w{number}"), 100 + number as i64), &[]);
        }
        assert_eq!((crashes.0.len(), of(&crashes, "a-1", None)), (KEPT_MAX, None), "the oldest has gone");
    }
}
