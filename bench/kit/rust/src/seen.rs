//! What the handlers saw. Many peers want handlers without a state of their
//! own, so this is the process's.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::Work;

static RUNS: AtomicU64 = AtomicU64::new(0);
static LAST_US: AtomicU64 = AtomicU64::new(0);
static KEEP: AtomicBool = AtomicBool::new(false);
static PICKUPS_MS: Mutex<Vec<(f64, f64)>> = Mutex::new(Vec::new());

/// Milliseconds since 1970, to the microsecond: the same clock in all languages.
pub fn now_ms() -> f64 {
    now_us() as f64 / 1e3
}

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Every handler calls this, first thing.
pub fn ran(work: &Work) {
    let now = now_us();
    RUNS.fetch_add(1, Ordering::Relaxed);
    LAST_US.store(now, Ordering::Relaxed);
    if KEEP.load(Ordering::Relaxed) {
        let pickup = (work.sent_ms, now as f64 / 1e3 - work.sent_ms);
        PICKUPS_MS.lock().unwrap_or_else(|broken| broken.into_inner()).push(pickup);
    }
}

pub(crate) fn keep_pickups() {
    KEEP.store(true, Ordering::Relaxed);
}

pub(crate) fn runs() -> u64 {
    RUNS.load(Ordering::Relaxed)
}

pub(crate) fn last_ms() -> f64 {
    LAST_US.load(Ordering::Relaxed) as f64 / 1e3
}

/// How long each job waited, of those that were sent at `since_ms` or later.
pub(crate) fn pickups_ms(since_ms: f64) -> Vec<f64> {
    let seen = PICKUPS_MS.lock().unwrap_or_else(|broken| broken.into_inner());
    seen.iter().filter(|(sent, _)| *sent >= since_ms).map(|(_, took)| (took * 1e3).round() / 1e3).collect()
}
