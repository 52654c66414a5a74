//! Remote workers do not say by themselves that they are alive: their claims
//! and renewals say it, and the roster passes it on to the store.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use http::header::USER_AGENT;
use windlass_engine::core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_engine::core::store::WorkerBeat;

/// How often a worker is reported.
const BEAT_MS: u64 = 10_000;
/// A worker that was not heard of for so long is dropped here; the store forgets it by itself.
const SILENT_MS: u64 = 120_000;
/// How many workers and leases are followed; beyond that the numbers err on the low side.
const FOLLOWED_MAX: usize = 100_000;

/// The remote workers of this server.
#[derive(Default)]
pub(crate) struct Roster(Mutex<Crew>);

#[derive(Default)]
struct Crew {
    workers: HashMap<WorkerName, Member>,
    holders: HashMap<JobId, WorkerName>,
}

/// What a worker works with and where, as its header `user-agent` says: `windlass-python/0.1.0 (a-machine)`.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Agent {
    pub version: Option<String>,
    pub host: Option<String>,
}

impl Agent {
    /// What the header says; a word of it that is longer than this is cut.
    const WORD_MAX: usize = 64;

    /// Reads it. Nothing is refused: it is for people to look at.
    pub(crate) fn read(headers: &HeaderMap) -> Self {
        let text = headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let word = |text: &str| {
            let word: String = text.chars().take(Self::WORD_MAX).collect();
            (!word.is_empty()).then_some(word)
        };
        let (version, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
        // Whoever is not ours may say anything in its comment.
        let ours = version.starts_with("windlass");
        let host = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).filter(|_| ours);
        Self { version: word(version), host: host.and_then(|(host, _)| word(host)) }
    }
}

/// What is newer than the last beat of a worker.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub slots: u32,
    pub running: u32,
    pub heard_ago_ms: u64,
}

struct Member {
    queues: Vec<QueueName>,
    kinds: Option<Vec<Kind>>,
    slots: u32,
    running: u32,
    agent: Agent,
    heard_ms: u64,
    beat_ms: Option<u64>,
}

impl Roster {
    /// A worker asks for work. Answers with its beat when one is due.
    pub(crate) fn asked(
        &self,
        worker: &WorkerName,
        queues: &[QueueName],
        kinds: Option<&[Kind]>,
        limit: u32,
        agent: Agent,
        now_ms: u64,
    ) -> Option<WorkerBeat> {
        let mut crew = self.lock();
        if !crew.workers.contains_key(worker) {
            crew.workers.retain(|_, member| now_ms.saturating_sub(member.heard_ms) < SILENT_MS);
            if crew.workers.len() >= FOLLOWED_MAX {
                return None;
            }
        }
        let member = crew.workers.entry(worker.clone()).or_insert_with(|| Member {
            queues: Vec::new(),
            kinds: None,
            slots: 0,
            running: 0,
            agent: Agent::default(),
            heard_ms: now_ms,
            beat_ms: None,
        });
        member.queues = queues.to_vec();
        member.kinds = kinds.map(<[Kind]>::to_vec);
        member.slots = limit + member.running;
        member.agent = agent;
        member.due(worker, now_ms)
    }

    /// A worker got leases.
    pub(crate) fn took(&self, worker: &WorkerName, jobs: impl Iterator<Item = JobId>) {
        let mut crew = self.lock();
        for job in jobs {
            if crew.holders.len() >= FOLLOWED_MAX && !crew.holders.contains_key(&job) {
                continue;
            }
            // Whoever held it before has lost it, and may be too dead to say so.
            if let Some(before) = crew.holders.insert(job, worker.clone()) {
                crew.count(&before, -1);
            }
            crew.count(worker, 1);
        }
    }

    /// Leases were renewed. Answers with the beats that are due.
    pub(crate) fn renewed(&self, jobs: &[JobId], now_ms: u64) -> Vec<WorkerBeat> {
        let mut crew = self.lock();
        let mut workers: Vec<WorkerName> =
            jobs.iter().filter_map(|job| crew.holders.get(job).cloned()).collect();
        workers.sort_unstable();
        workers.dedup();
        workers.iter().filter_map(|worker| crew.workers.get_mut(worker)?.due(worker, now_ms)).collect()
    }

    /// Leases are over: settled, or lost.
    pub(crate) fn ended(&self, jobs: impl Iterator<Item = JobId>) {
        let mut crew = self.lock();
        for job in jobs {
            if let Some(worker) = crew.holders.remove(&job) {
                crew.count(&worker, -1);
            }
        }
    }

    /// A worker has ended, and says so.
    pub(crate) fn left(&self, worker: &WorkerName) {
        let mut crew = self.lock();
        crew.workers.remove(worker);
        crew.holders.retain(|_, holder| holder != worker);
    }

    /// What is known here of a worker since its last beat: its slots, how many jobs it runs, and how long ago it
    /// was heard of.
    pub(crate) fn news_of(&self, worker: &WorkerName, now_ms: u64) -> Option<News> {
        let crew = self.lock();
        let Member { slots, running, heard_ms, .. } = crew.workers.get(worker)?;
        let heard_ago_ms = now_ms.saturating_sub(*heard_ms);
        Some(News { slots: *slots.max(running), running: *running, heard_ago_ms })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Crew> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew {
    fn count(&mut self, worker: &WorkerName, by: i32) {
        if let Some(member) = self.workers.get_mut(worker) {
            member.running = member.running.saturating_add_signed(by);
        }
    }
}

impl Member {
    fn due(&mut self, name: &WorkerName, now_ms: u64) -> Option<WorkerBeat> {
        self.heard_ms = now_ms;
        if self.beat_ms.is_some_and(|last| now_ms.saturating_sub(last) < BEAT_MS) {
            return None;
        }
        self.beat_ms = Some(now_ms);
        Some(WorkerBeat {
            name: name.clone(),
            queues: self.queues.clone(),
            kinds: self.kinds.clone(),
            slots: self.slots.max(self.running),
            running: self.running,
            version: self.agent.version.clone(),
            host: self.agent.host.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_dead_worker_are_counted_with_whoever_has_them_now() {
        let roster = Roster::default();
        let name = |name: &str| WorkerName::new(name).unwrap();
        let queues = [QueueName::default()];
        let jobs = || (1..=3).map(|id| JobId(uuid::Uuid::from_u128(id)));
        roster.asked(&name("dead"), &queues, None, 3, Agent::default(), 0);
        roster.took(&name("dead"), jobs());
        roster.asked(&name("alive"), &queues, None, 3, Agent::default(), 1_000);
        roster.took(&name("alive"), jobs());
        let news = |worker: &str| roster.news_of(&name(worker), 5_000).unwrap();
        assert_eq!(news("alive"), News { slots: 3, running: 3, heard_ago_ms: 4_000 });
        assert_eq!(news("dead"), News { slots: 3, running: 0, heard_ago_ms: 5_000 });
        roster.left(&name("alive"));
        assert_eq!(roster.news_of(&name("alive"), 5_000), None);
    }

    #[test]
    fn a_worker_is_reported_now_and_then() {
        let roster = Roster::default();
        let worker = WorkerName::new("w").unwrap();
        let queues = [QueueName::default()];
        let job = JobId(uuid::Uuid::from_u128(1));
        let first = roster.asked(&worker, &queues, None, 4, Agent::default(), 0).unwrap();
        assert_eq!((first.slots, first.running), (4, 0));
        assert!(roster.asked(&worker, &queues, None, 4, Agent::default(), BEAT_MS - 1).is_none());
        roster.took(&worker, [job].into_iter());
        assert_eq!(roster.renewed(&[job], BEAT_MS).len(), 1);
        let beat = roster.asked(&worker, &queues, None, 3, Agent::default(), 2 * BEAT_MS).unwrap();
        assert_eq!((beat.slots, beat.running), (4, 1));
        roster.ended([job, job].into_iter());
        assert_eq!(
            roster.asked(&worker, &queues, None, 4, Agent::default(), 3 * BEAT_MS).unwrap().running,
            0
        );
    }

    #[test]
    fn a_header_says_with_what_a_worker_works() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(USER_AGENT, http::HeaderValue::from_str(text).unwrap());
            let Agent { version, host } = Agent::read(&headers);
            (version, host)
        };
        let said = |text: &str| Some(text.to_owned());
        assert_eq!(Agent::read(&HeaderMap::new()), Agent::default());
        assert_eq!(read(""), (None, None));
        assert_eq!(read("windlass-node/0.1.0"), (said("windlass-node/0.1.0"), None));
        assert_eq!(read("windlass/0.1.0 (box-7)"), (said("windlass/0.1.0"), said("box-7")));
        assert_eq!(read("windlass/0.1.0 ()"), (said("windlass/0.1.0"), None));
        assert_eq!(read("windlass/0.1.0 (open"), (said("windlass/0.1.0"), None));
        assert_eq!(read("Mozilla/5.0 (X11; Linux)"), (said("Mozilla/5.0"), None));
        assert_eq!(read(&"x".repeat(200)).0.unwrap().len(), Agent::WORD_MAX);
    }
}
