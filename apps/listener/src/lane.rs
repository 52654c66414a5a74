//! A lane: one listener, or one part of it, as this instance follows it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use mongodb::bson::{Bson, DateTime, Document};

use crate::event::id_text;
use crate::listener::Listener;
use crate::token::Token;

/// Which lane: a listener, and its part where it has several.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LaneId {
    /// The listener's `_id`.
    pub(crate) listener: Bson,
    /// Its part, and of how many.
    pub(crate) part: Option<(u32, u32)>,
}

impl LaneId {
    /// As it is written in collections.
    pub(crate) fn text(&self) -> String {
        match self.part {
            None => id_text(&self.listener),
            // Lanes of another split are others: what those have done is theirs.
            Some((part, of)) => format!("{}/{part}of{of}", id_text(&self.listener)),
        }
    }

    /// All lanes of a listener.
    pub(crate) fn of(listener: &Listener) -> Vec<Self> {
        match listener.partitions {
            0 | 1 => vec![Self { listener: listener.key.clone(), part: None }],
            many => (0..many)
                .map(|part| Self { listener: listener.key.clone(), part: Some((part, many)) })
                .collect(),
        }
    }

    /// Whether a document is one of this lane's.
    pub(crate) fn takes(&self, id: &Bson) -> bool {
        takes(self.part, id)
    }
}

/// Which documents belong to a part: by their key, so that the changes of each stay in order.
fn takes(part: Option<(u32, u32)>, id: &Bson) -> bool {
    part.is_none_or(|(part, of)| {
        let text = id_text(id);
        // FNV-1a: the same on every machine and in every version of this program.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        hash % u64::from(of) == u64::from(part)
    })
}

/// How far a lane came before its listener was split anew: jobs of its documents up to there exist.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Inherited {
    pub(crate) part: Option<(u32, u32)>,
    pub(crate) token: Token,
}

/// Where a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Following {
    /// By a stream of its own, behind the shared one.
    CatchingUp,
    /// By the shared stream.
    Live,
    /// Its definition cannot be read; nothing is done until it is mended.
    Refused,
}

/// What everybody may know of a lane; the lane itself belongs to whoever reads for it.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) id: LaneId,
    /// The same as text.
    pub(crate) name: String,
    pub(crate) fence: i64,
    seen: Mutex<Seen>,
    /// It is to be let go.
    pub(crate) stop: AtomicBool,
    /// Whoever read for it has let it go.
    pub(crate) gone: AtomicBool,
    /// Somebody else has it: nothing more is written for it.
    pub(crate) lost: AtomicBool,
    /// Jobs whose status is yet to be written.
    pub(crate) pending: AtomicU64,
    pub(crate) jobs: AtomicU64,
    pub(crate) events: AtomicU64,
    pub(crate) dead: AtomicU64,
    pub(crate) errors: AtomicU64,
}

/// What changes as a lane moves.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) listener: Option<Arc<Listener>>,
    pub(crate) token: Token,
    /// Everything up to here has its status written, too.
    pub(crate) status_token: Token,
    pub(crate) following: Following,
    /// When the stream last told something that is worked on by now, by the clock since boot.
    pub(crate) moved_boot_ms: u64,
    /// Whether that was that there is nothing more.
    pub(crate) is_at_end: bool,
    pub(crate) last_error: Option<String>,
    /// Jobs per second of late, and since when and from how many jobs on it is counted.
    pub(crate) rate: f64,
    pub(crate) counted: (u64, u64),
}

/// How long a rate is counted before it is told anew.
const RATE_MS: u64 = 2_000;

impl Seen {
    /// How many seconds a lane is behind: from the moment of its position to now. A stream that has just told that
    /// there is nothing more is not behind, however long nothing was written.
    pub(crate) fn lag(&self, now: DateTime, now_boot_ms: u64) -> f64 {
        let position_ms = i64::from(self.token.cluster_time().time) * 1_000;
        let behind_ms = u64::try_from(now.timestamp_millis() - position_ms).unwrap_or(0);
        let silent_ms = now_boot_ms.saturating_sub(self.moved_boot_ms);
        let lag_ms = if self.is_at_end { silent_ms.min(behind_ms) } else { behind_ms };
        lag_ms as f64 / 1_000.0
    }
}

impl Handle {
    /// Jobs per second of late, by the clock since boot.
    pub(crate) fn rate(&self, now_boot_ms: u64) -> f64 {
        let jobs = self.jobs.load(Ordering::Relaxed);
        let mut rate = 0.0;
        self.see(|seen| {
            let (since, from) = seen.counted;
            let ms = now_boot_ms.saturating_sub(since);
            if ms >= RATE_MS {
                seen.rate = jobs.saturating_sub(from) as f64 * 1_000.0 / ms as f64;
                seen.counted = (now_boot_ms, jobs);
            }
            rate = seen.rate;
        });
        rate
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn see(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Somebody else has the lane.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self, why: &str) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        self.see(|seen| seen.last_error = Some(why.to_owned()));
    }
}

/// A lane, held by whoever reads for it.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) handle: Arc<Handle>,
    /// What the listener says at this position; nothing while that cannot be understood.
    pub(crate) listener: Option<Arc<Listener>>,
    /// The document that it was read from.
    pub(crate) document: Document,
    /// Everything up to here is done.
    pub(crate) token: Token,
    /// Jobs up to here exist; what is read again is only for the status.
    pub(crate) jobs_token: Token,
    /// The same for documents of lanes that were before this one.
    pub(crate) inherited: Vec<Inherited>,
    /// The token that the database knows.
    pub(crate) stored: Token,
    /// Whether the definition has changed since it was stored.
    pub(crate) definition_changed: bool,
    /// The newest moment at which a job of an owner before us is due, in milliseconds: ours come behind it.
    pub(crate) run_at_floor_ms: i64,
    /// The newest moment at which a job of this lane is due.
    pub(crate) run_at_max_ms: i64,
    /// The same for documents of late.
    pub(crate) run_at: HashMap<String, i64>,
}

impl Lane {
    pub(crate) fn new(
        handle: Arc<Handle>,
        document: Document,
        token: Token,
        jobs_token: Token,
        run_at_max_ms: i64,
    ) -> Self {
        let mut lane = Self {
            stored: jobs_token.clone(),
            handle,
            listener: None,
            document,
            token,
            jobs_token,
            inherited: Vec::new(),
            definition_changed: false,
            run_at_floor_ms: run_at_max_ms,
            run_at_max_ms,
            run_at: HashMap::new(),
        };
        lane.understand();
        lane
    }

    pub(crate) fn id(&self) -> &LaneId {
        &self.handle.id
    }

    /// Reads the definition anew.
    pub(crate) fn understand(&mut self) {
        match Listener::read(&self.document) {
            Ok(listener) => self.listener = Some(Arc::new(listener)),
            Err(wrong) => {
                self.listener = None;
                self.handle.failed(&wrong.join("; "));
            }
        }
        let listener = self.listener.clone();
        self.handle.see(|seen| {
            if listener.is_none() {
                seen.following = Following::Refused;
            }
            seen.listener = listener;
        });
    }

    /// Whether an owner before us has made the job of a change.
    pub(crate) fn has_its_job(&self, token: &Token, id: &Bson) -> bool {
        let by = |before: &Inherited| *token <= before.token && takes(before.part, id);
        *token <= self.jobs_token || self.inherited.iter().any(by)
    }

    /// Whether it waits for changes at all. A paused one that is to catch up goes on where it stopped, later.
    pub(crate) fn is_active(&self) -> bool {
        self.listener.as_ref().is_some_and(|listener| listener.is_active)
    }

    /// When a job of this document is due: later than the one before it, so that they run in order.
    pub(crate) fn due_ms(&mut self, document: String, now_ms: i64) -> i64 {
        const REMEMBERED_MAX: usize = 20_000;
        if self.run_at.len() >= REMEMBERED_MAX {
            self.run_at.retain(|_, due| *due >= now_ms);
        }
        // An owner before us may have been ahead of the clock by as many milliseconds as a document had changes.
        const AHEAD_MS_MAX: i64 = 60_000;
        let inherited = (self.run_at_floor_ms + 1).min(now_ms + AHEAD_MS_MAX);
        let floor = self.run_at.get(&document).map_or(inherited, |due| due + 1);
        let due = floor.max(now_ms);
        self.run_at_max_ms = self.run_at_max_ms.max(due);
        self.run_at.insert(document, due);
        due
    }
}

impl Drop for Lane {
    /// Whoever read for it reads no more, however that came about.
    fn drop(&mut self) {
        self.handle.gone.store(true, Ordering::Relaxed);
    }
}

/// All lanes of this instance.
#[derive(Debug, Default)]
pub(crate) struct Registry(Mutex<HashMap<String, Arc<Handle>>>);

impl Registry {
    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Handle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, id: LaneId, fence: i64, token: Token, now_boot_ms: u64) -> Arc<Handle> {
        let seen = Seen {
            listener: None,
            status_token: token.clone(),
            token,
            following: Following::CatchingUp,
            moved_boot_ms: now_boot_ms,
            is_at_end: false,
            last_error: None,
            rate: 0.0,
            counted: (now_boot_ms, 0),
        };
        let handle = Arc::new(Handle {
            name: id.text(),
            id,
            fence,
            seen: Mutex::new(seen),
            stop: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            pending: AtomicU64::new(0),
            jobs: AtomicU64::new(0),
            events: AtomicU64::new(0),
            dead: AtomicU64::new(0),
            errors: AtomicU64::new(0),
        });
        self.lock().insert(handle.id.text(), handle.clone());
        handle
    }

    /// Forgets a lane, unless it was taken anew since.
    pub(crate) fn remove(&self, handle: &Handle) {
        let mut all = self.lock();
        if all.get(&handle.id.text()).is_some_and(|held| held.fence == handle.fence) {
            all.remove(&handle.id.text());
        }
    }

    pub(crate) fn get(&self, lane: &str) -> Option<Arc<Handle>> {
        self.lock().get(lane).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Handle>> {
        let mut all: Vec<_> = self.lock().values().cloned().collect();
        all.sort_by_key(|handle| handle.id.text());
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::Timestamp;

    use super::*;

    #[test]
    fn parts_share_all_documents_and_know_their_own() {
        let part = |part: u32| LaneId { listener: Bson::Int32(1), part: Some((part, 4)) };
        for n in 0..100 {
            let takers = (0..4).filter(|at| part(*at).takes(&Bson::Int32(n))).count();
            assert_eq!(takers, 1, "document {n}");
        }
        let taken = (0..4).all(|at| (0..100).any(|n| part(at).takes(&Bson::Int32(n))));
        assert!(taken, "each part has some");
        assert_ne!(part(0).text(), LaneId { part: Some((0, 2)), ..part(0) }.text());
    }

    /// A stream that is behind and moves is behind; one that is at the end is not, however old its position is.
    #[test]
    fn lag_is_from_the_position_to_now_unless_there_is_nothing_more() {
        let registry = Registry::default();
        let id = LaneId { listener: Bson::Int32(1), part: None };
        let ten_minutes_ago = Token::before(Timestamp { time: 1_000_000, increment: 1 });
        let handle = registry.add(id, 1, ten_minutes_ago, 50_000);
        let lag = |boot_ms: u64| handle.seen().lag(DateTime::from_millis(1_000_600_000), boot_ms);
        assert_eq!(lag(50_100), 600.0, "it moved a moment ago");
        handle.see(|seen| seen.is_at_end = true);
        assert_eq!(lag(50_100), 0.1);
        assert_eq!(lag(80_000), 30.0, "nothing was heard since");
    }
}
