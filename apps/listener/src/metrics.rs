//! Counts, for `/metrics` and the page.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Bounds of what a change took to become a durable row, in milliseconds.
const BOUNDS_MS: [u64; 10] = [5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000];
/// The most pairs of listener and code that are counted apart.
const ERRORS_MAX: usize = 2_000;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) events: AtomicU64,
    pub(crate) jobs: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) statuses: AtomicU64,
    pub(crate) status_failures: AtomicU64,
    pub(crate) dead: AtomicU64,
    pub(crate) gaps: AtomicU64,
    /// Gaps of all listeners that nobody has looked through yet, as they were last counted.
    pub(crate) open_gaps: AtomicU64,
    pub(crate) locks_taken: AtomicU64,
    pub(crate) locks_lost: AtomicU64,
    pub(crate) locks_stolen: AtomicU64,
    pub(crate) locks_released: AtomicU64,
    pub(crate) stale_seen: AtomicU64,
    pub(crate) heartbeats: AtomicU64,
    pub(crate) heartbeats_failed: AtomicU64,
    pub(crate) heartbeat_late_ms: AtomicU64,
    pub(crate) heartbeat_boot_ms: AtomicU64,
    pub(crate) recovered: AtomicU64,
    pub(crate) reopened: AtomicU64,
    delays: [AtomicU64; BOUNDS_MS.len() + 1],
    delay_sum_ms: AtomicU64,
    errors: Mutex<BTreeMap<(String, i32), u64>>,
}

pub(crate) fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}

pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Metrics {
    /// A change became durable as a row, this long after it was written.
    pub(crate) fn delayed(&self, ms: u64) {
        let place = BOUNDS_MS.iter().position(|bound| ms <= *bound).unwrap_or(BOUNDS_MS.len());
        self.delays[place].fetch_add(1, Ordering::Relaxed);
        self.delay_sum_ms.fetch_add(ms, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, listener: &str, code: i32) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        if errors.len() < ERRORS_MAX || errors.contains_key(&(listener.to_owned(), code)) {
            *errors.entry((listener.to_owned(), code)).or_default() += 1;
        }
    }

    /// In the text form of Prometheus; `more` are lines of the moment.
    pub(crate) fn text(&self, more: &[(&str, &str, String, f64)]) -> String {
        let mut text = String::new();
        let counters = [
            ("events_total", "changes that were heard", &self.events),
            ("jobs_total", "rows that were written", &self.jobs),
            ("batches_total", "transactions", &self.batches),
            ("statuses_total", "documents whose status was written", &self.statuses),
            ("status_failures_total", "documents whose status could not be written", &self.status_failures),
            ("dead_letters_total", "changes that can never become a job", &self.dead),
            ("gaps_total", "losses of history", &self.gaps),
            ("recovered_total", "documents that were done again", &self.recovered),
            ("streams_reopened_total", "times that the shared stream was opened anew", &self.reopened),
            ("locks_taken_total", "locks that this instance has taken", &self.locks_taken),
            ("locks_stolen_total", "stale locks of others that this instance has taken", &self.locks_stolen),
            ("locks_lost_total", "locks that others have taken from this instance", &self.locks_lost),
            ("locks_released_total", "locks that this instance has let go", &self.locks_released),
            ("stale_locks_seen_total", "stale locks that were seen", &self.stale_seen),
            ("heartbeats_total", "heartbeats", &self.heartbeats),
            ("heartbeats_failed_total", "heartbeats that did not arrive", &self.heartbeats_failed),
        ];
        for (name, help, counter) in counters {
            let _ = writeln!(
                text,
                "# HELP windlass_listener_{name} {help}\n# TYPE windlass_listener_{name} counter\nwindlass_listener_{name} {}",
                get(counter)
            );
        }
        self.delay_lines(&mut text);
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(
            text,
            "# HELP windlass_listener_errors_total errors by listener and code\n# TYPE windlass_listener_errors_total counter"
        );
        for ((listener, code), count) in errors.iter() {
            let _ = writeln!(
                text,
                "windlass_listener_errors_total{{listener=\"{}\",code=\"{code}\"}} {count}",
                plain(listener)
            );
        }
        let mut last = "";
        for (name, help, labels, value) in more {
            if *name != last {
                let _ = writeln!(
                    text,
                    "# HELP windlass_listener_{name} {help}\n# TYPE windlass_listener_{name} gauge"
                );
                last = name;
            }
            let _ = writeln!(text, "windlass_listener_{name}{labels} {value}");
        }
        text
    }

    fn delay_lines(&self, text: &mut String) {
        let name = "windlass_listener_delay_seconds";
        let _ = writeln!(
            text,
            "# HELP {name} from the commit of a change to its durable row\n# TYPE {name} histogram"
        );
        let mut sum = 0;
        for (place, bound) in BOUNDS_MS.iter().enumerate() {
            sum += get(&self.delays[place]);
            let _ = writeln!(text, "{name}_bucket{{le=\"{}\"}} {sum}", *bound as f64 / 1_000.0);
        }
        sum += get(&self.delays[BOUNDS_MS.len()]);
        let total = get(&self.delay_sum_ms) as f64 / 1_000.0;
        let _ = writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {sum}\n{name}_sum {total}\n{name}_count {sum}");
    }
}

/// A label's value, as the form wants it.
pub(crate) fn plain(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_lines() {
        let metrics = Metrics::default();
        metrics.failed("a\"b", 286);
        metrics.delayed(7);
        metrics.delayed(70_000);
        let text = metrics.text(&[("lag_seconds", "lag", "{listener=\"x\"}".into(), 1.5)]);
        for line in [
            "windlass_listener_errors_total{listener=\"a\\\"b\",code=\"286\"} 1",
            "windlass_listener_delay_seconds_bucket{le=\"0.01\"} 1",
            "windlass_listener_delay_seconds_count 2",
            "windlass_listener_lag_seconds{listener=\"x\"} 1.5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
