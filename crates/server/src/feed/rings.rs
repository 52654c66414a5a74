//! What happened in the last quarter of an hour, by the second, in bounded memory.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::Serialize;
use windlass_engine::core::event::{Event, What};
use windlass_engine::core::id::QueueName;
use windlass_engine::core::job::Job;
use windlass_engine::core::state::State;
use windlass_engine::core::time::Time;
use windlass_report::schema::Moment;

use super::history::History;
use super::troubles::{Failures, Troubles};

/// How far back it goes.
const SECONDS: usize = 900;
/// How many seconds one point of a chart stands for.
const STEP_SECONDS: usize = 5;
/// How long one point of the latencies stands for.
const LATENCY_STEP_MS: i64 = 15_000;
/// How many looks at jobs are kept.
const SAMPLES_KEPT: usize = 4_000;
/// How many pairs of event and queue are counted apart; further queues go into one.
const COUNTED_MAX: usize = 1_000;

/// The counts.
pub(crate) struct Rings {
    seconds: Vec<Second>,
    totals: BTreeMap<(What, QueueName), u64>,
    samples: VecDeque<Sample>,
    pub(super) troubles: Troubles,
    pub(crate) history: History,
}

#[derive(Clone, Copy)]
struct Second {
    at: i64,
    counts: [u32; What::ALL.len()],
}

struct Sample {
    at: Time,
    wait_ms: u64,
    run_ms: u64,
}

impl Default for Rings {
    fn default() -> Self {
        let empty = Second { at: -1, counts: [0; What::ALL.len()] };
        Self {
            seconds: vec![empty; SECONDS],
            totals: BTreeMap::new(),
            samples: VecDeque::new(),
            troubles: Troubles::default(),
            history: History::default(),
        }
    }
}

impl Rings {
    /// Counts an event.
    pub(super) fn count(&mut self, event: &Event) {
        self.add(event.at.ms() / 1_000, event.what, event.jobs.len() as u64);
        self.history.count(event);
        let key = (event.what, event.queue.clone());
        let key = if self.totals.len() < COUNTED_MAX || self.totals.contains_key(&key) {
            key
        } else {
            (event.what, QueueName::new("(others)").unwrap_or_default())
        };
        *self.totals.entry(key).or_default() += event.jobs.len() as u64;
    }

    fn add(&mut self, at: i64, what: What, jobs: u64) {
        let slot = &mut self.seconds[at as usize % SECONDS];
        if slot.at != at {
            *slot = Second { at, counts: [0; What::ALL.len()] };
        }
        let count = &mut slot.counts[what as usize];
        *count = count.saturating_add(u32::try_from(jobs).unwrap_or(u32::MAX));
    }

    /// Begins with a history, and fills the last quarter of an hour with what it knows of it, each minute evenly.
    pub(super) fn recall(&mut self, history: History, now: Time) {
        self.history = history;
        let since = now.plus_ms(-(SECONDS as i64 - 60) * 1_000);
        let known: Vec<_> =
            self.history.since(since).map(|(minute, counted)| (minute, counted.counts())).collect();
        for (minute, counts) in known {
            for (what, jobs) in counts {
                for second in (0..60).filter(|_| jobs > 0) {
                    let jobs = jobs * (second + 1) / 60 - jobs * second / 60;
                    self.add(minute * 60 + second as i64, what, jobs);
                }
            }
        }
    }

    /// Takes note of a job that ended.
    pub(super) fn sample(&mut self, job: &Job) {
        if let (State::Completed { ended_at, .. }, Some(started_at)) = (&job.state, job.started_at) {
            let due = job.run_at.max(job.created_at);
            let (wait_ms, run_ms) = (started_at.ms_since(due), ended_at.ms_since(started_at));
            self.history.sample(&job.spec.queue, *ended_at, wait_ms, run_ms);
            let sample = Sample { at: *ended_at, wait_ms, run_ms };
            push(&mut self.samples, sample, SAMPLES_KEPT);
        }
    }

    /// How many jobs of a queue each thing happened to, since the server started.
    pub(crate) fn totals(&self) -> &BTreeMap<(What, QueueName), u64> {
        &self.totals
    }

    /// The rates up to `now`.
    pub(crate) fn throughput(&self, now: Time) -> Throughput {
        let newest = now.ms() / 1_000 / STEP_SECONDS as i64 * STEP_SECONDS as i64;
        let oldest = newest - SECONDS as i64;
        let series = |whats: &[What]| {
            let mut points = vec![0.0; SECONDS / STEP_SECONDS];
            for second in self.seconds.iter().filter(|second| (oldest..newest).contains(&second.at)) {
                let jobs: u32 = whats.iter().map(|what| second.counts[*what as usize]).sum();
                points[(second.at - oldest) as usize / STEP_SECONDS] += f64::from(jobs) / STEP_SECONDS as f64;
            }
            points
        };
        Throughput {
            from: Time::from_ms(oldest * 1_000),
            step_seconds: STEP_SECONDS,
            enqueued: series(&[What::Enqueued]),
            started: series(&[What::Claimed]),
            completed: series(&[What::Completed]),
            failed: series(&[What::Failed]),
            retrying: series(&[What::Retrying, What::Crashed]),
        }
    }

    /// The latencies of the jobs that were looked at.
    pub(crate) fn latency(&self, now: Time) -> Latency {
        let since = now.plus_ms(-(SECONDS as i64) * 1_000);
        let recent = || self.samples.iter().filter(|sample| sample.at >= since);
        Latency {
            samples: recent().count(),
            wait_ms: Percentiles::of(recent().map(|sample| sample.wait_ms).collect()),
            run_ms: Percentiles::of(recent().map(|sample| sample.run_ms).collect()),
        }
    }

    /// The latencies over time.
    pub(crate) fn latency_points(&self, now: Time) -> LatencyPoints {
        let newest = now.ms() / LATENCY_STEP_MS * LATENCY_STEP_MS;
        let oldest = newest - SECONDS as i64 * 1_000;
        let mut buckets = vec![(Vec::new(), Vec::new()); SECONDS * 1_000 / LATENCY_STEP_MS as usize];
        for sample in self.samples.iter().filter(|sample| (oldest..newest).contains(&sample.at.ms())) {
            let (waits, runs) = &mut buckets[((sample.at.ms() - oldest) / LATENCY_STEP_MS) as usize];
            waits.push(sample.wait_ms);
            runs.push(sample.run_ms);
        }
        let p95 = |values: Vec<u64>| Percentiles::of(values).map(|found| found.p95);
        let (wait_ms, run_ms) = buckets.into_iter().map(|(waits, runs)| (p95(waits), p95(runs))).unzip();
        let step_seconds = LATENCY_STEP_MS as usize / 1_000;
        LatencyPoints { from: Time::from_ms(oldest), step_seconds, wait_ms, run_ms }
    }

    /// The failures, grouped by what they say; the most frequent first.
    pub(crate) fn failures(&self, now: Time) -> Vec<Failures> {
        self.troubles.groups(now)
    }
}

/// Jobs per second, for points of `step_seconds` from `from` on.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct Throughput {
    #[schemars(with = "Moment")]
    pub from: Time,
    pub step_seconds: usize,
    pub enqueued: Vec<f64>,
    pub started: Vec<f64>,
    pub completed: Vec<f64>,
    pub failed: Vec<f64>,
    pub retrying: Vec<f64>,
}

impl Throughput {
    /// Attempts that did not succeed, whether another follows or not.
    pub(crate) fn troubled(&self) -> Vec<f64> {
        self.failed.iter().zip(&self.retrying).map(|(failed, retrying)| failed + retrying).collect()
    }
}

/// 95 of a hundred waited and ran no longer, for points of `step_seconds` from
/// `from` on; null where no job was looked at.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct LatencyPoints {
    #[schemars(with = "Moment")]
    pub from: Time,
    pub step_seconds: usize,
    pub wait_ms: Vec<Option<u64>>,
    pub run_ms: Vec<Option<u64>>,
}

/// How long jobs waited and ran, in the last 15 minutes, of those looked at.
#[derive(Clone, Serialize, JsonSchema)]
pub(crate) struct Latency {
    pub samples: usize,
    /// From the moment at which a job was due to its start.
    pub wait_ms: Option<Percentiles>,
    /// From the start of the last attempt to its end.
    pub run_ms: Option<Percentiles>,
}

/// Half, 95 and 99 of a hundred were not slower.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, JsonSchema)]
pub(crate) struct Percentiles {
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
}

impl Percentiles {
    fn of(mut values: Vec<u64>) -> Option<Self> {
        values.sort_unstable();
        let last = values.len().checked_sub(1)?;
        let at = |percent: usize| values[(last * percent).div_ceil(100)];
        Some(Self { p50: at(50), p95: at(95), p99: at(99) })
    }
}

fn push<T>(list: &mut VecDeque<T>, entry: T, max: usize) {
    if list.len() >= max {
        list.pop_front();
    }
    list.push_back(entry);
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::core::event::Position;
    use windlass_engine::core::id::JobId;

    fn event(at_s: i64, what: What, jobs: usize) -> Event {
        let jobs = vec![JobId(uuid::Uuid::nil()); jobs];
        Event {
            position: Position::default(),
            at: Time::from_ms(at_s * 1_000),
            what,
            queue: QueueName::default(),
            jobs,
            action: None,
        }
    }

    #[test]
    fn rates_go_round() {
        let mut rings = Rings::default();
        rings.count(&event(1_000, What::Completed, 10));
        rings.count(&event(1_003, What::Completed, 5));
        let found = rings.throughput(Time::from_ms(1_005_000));
        assert_eq!(found.completed.len(), 180);
        assert_eq!(found.completed[179], 3.0);
        assert_eq!(found.completed[..179], vec![0.0; 179]);
        // A quarter of an hour later the same slot holds another second.
        rings.count(&event(1_900, What::Completed, 5));
        let found = rings.throughput(Time::from_ms(1_905_000));
        assert_eq!(found.completed[179], 1.0);
        assert_eq!(rings.totals()[&(What::Completed, QueueName::default())], 20);
    }

    #[test]
    fn percentiles_of_few_and_many() {
        assert_eq!(Percentiles::of(vec![]), None);
        assert_eq!(Percentiles::of(vec![7]), Some(Percentiles { p50: 7, p95: 7, p99: 7 }));
        let many = Percentiles::of((0..=100).rev().collect());
        assert_eq!(many, Some(Percentiles { p50: 50, p95: 95, p99: 99 }));
    }

    /// Fault 74: what is counted stays bounded, whatever the queues are called.
    #[test]
    fn fault_74_counts_are_bounded() {
        let mut rings = Rings::default();
        for at in 0..2 * COUNTED_MAX {
            let mut event = event(1, What::Enqueued, 1);
            event.queue = QueueName::new(format!("q{at}")).unwrap();
            rings.count(&event);
        }
        assert_eq!(rings.totals().len(), COUNTED_MAX + 1);
        assert_eq!(rings.totals().values().sum::<u64>(), 2 * COUNTED_MAX as u64);
    }
}
