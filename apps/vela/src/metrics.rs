//! How things stand, for a program that watches: counts in the text form of Prometheus. Each is cheap to say, however
//! many shops there are: how each of them does is said by `GET /shops`.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use windlass_engine::core::query::{JobFilter, PAGE_MAX};
use windlass_engine::{ShelfError, StateName, Time};

use crate::book::Shelves;
use crate::ledger::Ledger;
use crate::task::{QUEUE, TaskKind};
use crate::tasks::Tasks;

/// Tasks that failed are counted up to this many: whoever has more need not know how many more.
const FAILED_MAX: usize = 1_000;
/// How many ledgers are said: with the scope of a token each shop has one.
const LEDGERS_MAX: u32 = 100;

/// What this process has done since it began.
#[derive(Debug, Default)]
pub struct Counts {
    handed: [AtomicU64; TaskKind::ALL.len()],
    in_vain: AtomicU64,
}

impl Counts {
    /// A task was handed out.
    pub fn handed(&self, kind: TaskKind) {
        for (one, count) in TaskKind::ALL.into_iter().zip(&self.handed) {
            count.fetch_add(u64::from(one == kind), Ordering::Relaxed);
        }
    }

    /// A worker asked, and there was nothing.
    pub fn in_vain(&self) {
        self.in_vain.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counts of a manager and of its store.
pub async fn text(shelves: &Shelves, tasks: &Tasks, counts: &Counts) -> Result<String, ShelfError> {
    let (now, mut out) = (tasks.now().await?, String::new());
    stored(&mut out, tasks, now).await?;
    let failed = failed(tasks).await?;
    line(&mut out, "tasks", "state", "failed", failed as u64);
    family(&mut out, "handed_out_total", "counter", "Tasks that this manager handed out over REST, by type.");
    for (kind, count) in TaskKind::ALL.into_iter().zip(&counts.handed) {
        line(&mut out, "handed_out_total", "type", kind.as_str(), count.load(Ordering::Relaxed));
    }
    family(&mut out, "asked_in_vain_total", "counter", "How often it was asked over REST and had nothing.");
    let _ = writeln!(out, "vela_asked_in_vain_total {}", counts.in_vain.load(Ordering::Relaxed));
    let ledgers = shelves.ledgers.scan().limit(LEDGERS_MAX).await?;
    let ledgers: Vec<(String, Ledger)> =
        ledgers.entries.into_iter().map(|ledger| (ledger.key.to_string(), ledger.value)).collect();
    quotas(&mut out, &ledgers, now);
    Ok(out)
}

async fn stored(out: &mut String, tasks: &Tasks, now: Time) -> Result<(), ShelfError> {
    let queues = tasks.queues().await?;
    let (queued, running, oldest) = queues
        .iter()
        .find(|queue| queue.name.as_str() == QUEUE)
        .map_or((0, 0, None), |queue| (queue.queued, queue.running, queue.oldest_due));
    family(
        out,
        "oldest_due_seconds",
        "gauge",
        "For how long the longest waiting of the due tasks could have run.",
    );
    let waits_ms = oldest.map_or(0, |oldest| now.ms_since(oldest));
    let _ = writeln!(out, "vela_oldest_due_seconds {}", waits_ms / 1_000);
    let help = format!("Tasks by state; those that failed are counted up to {FAILED_MAX}.");
    family(out, "tasks", "gauge", &help);
    line(out, "tasks", "state", "queued", queued);
    line(out, "tasks", "state", "running", running);
    Ok(())
}

async fn failed(tasks: &Tasks) -> Result<usize, ShelfError> {
    let (mut count, mut after) = (0, None);
    while count < FAILED_MAX {
        let filter = JobFilter { states: vec![StateName::Failed], ..JobFilter::default() };
        let page = tasks.page(filter, after).await?;
        count += page.jobs.len();
        match page.next.filter(|_| page.jobs.len() == PAGE_MAX as usize) {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    Ok(count.min(FAILED_MAX))
}

fn quotas(out: &mut String, ledgers: &[(String, Ledger)], now: Time) {
    family(out, "etsy_calls", "gauge", "Calls to Etsy that count now, by the window that they count in.");
    for (scope, ledger) in ledgers {
        let (second, day) = ledger.used(now);
        for (window, used) in [("second", second), ("day", day)] {
            let _ = writeln!(out, "vela_etsy_calls{{scope=\"{scope}\",window=\"{window}\"}} {used}");
        }
    }
    family(
        out,
        "etsy_calls_max",
        "gauge",
        "How many calls to Etsy a window may hold, where there is a limit.",
    );
    for (scope, ledger) in ledgers {
        let limits = ledger.limits();
        for (window, limit) in [("second", limits.per_second), ("day", limits.per_day)] {
            if let Some(limit) = limit {
                let _ = writeln!(out, "vela_etsy_calls_max{{scope=\"{scope}\",window=\"{window}\"}} {limit}");
            }
        }
    }
}

fn family(out: &mut String, name: &str, sort: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "# HELP vela_{name} {help}\n# TYPE vela_{name} {sort}");
}

/// The values of labels are words of our own.
fn line(out: &mut String, name: &str, label: &str, value: &str, count: u64) {
    let _ = writeln!(out, "vela_{name}{{{label}=\"{value}\"}} {count}");
}
