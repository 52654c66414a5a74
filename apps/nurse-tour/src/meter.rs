//! What a worker counts: by stage, class and outcome, never by message.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::trouble::Trouble;

/// The bounds of the buckets of durations, in milliseconds.
const BUCKETS_MS: [u64; 10] = [10, 50, 100, 500, 1_000, 5_000, 15_000, 60_000, 300_000, 900_000];

/// The counts of a process, since it was started.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    claimed: u64,
    outcomes: BTreeMap<&'static str, u64>,
    troubles: BTreeMap<(&'static str, &'static str, &'static str), u64>,
    stages: BTreeMap<&'static str, Durations>,
}

#[derive(Debug, Default)]
struct Durations {
    count: u64,
    sum_ms: u64,
    buckets: [u64; BUCKETS_MS.len()],
}

impl Meter {
    pub(crate) fn claimed(&self, count: usize) {
        self.change(|counts| counts.claimed += count as u64);
    }

    pub(crate) fn outcome(&self, outcome: &'static str) {
        self.change(|counts| *counts.outcomes.entry(outcome).or_default() += 1);
    }

    pub(crate) fn trouble(&self, stage: &'static str, trouble: &Trouble) {
        let key = (stage, trouble.class.word(), trouble.provider);
        self.change(|counts| *counts.troubles.entry(key).or_default() += 1);
    }

    pub(crate) fn stage(&self, stage: &'static str, ms: u64) {
        self.change(|counts| {
            let durations = counts.stages.entry(stage).or_default();
            durations.count += 1;
            durations.sum_ms += ms;
            for (bucket, bound) in durations.buckets.iter_mut().zip(BUCKETS_MS) {
                *bucket += u64::from(ms <= bound);
            }
        });
    }

    /// The counts in the text form of Prometheus.
    pub(crate) fn write(&self, out: &mut String) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Counts { claimed, outcomes, troubles, stages } = &*counts;
        let mut line = |text: String| {
            out.push_str(&text);
            out.push('\n');
        };
        line("# TYPE nurse_tour_claimed_total counter".into());
        line(format!("nurse_tour_claimed_total {claimed}"));
        line("# TYPE nurse_tour_attempts_total counter".into());
        for (outcome, count) in outcomes {
            line(format!("nurse_tour_attempts_total{{outcome=\"{outcome}\"}} {count}"));
        }
        line("# TYPE nurse_tour_troubles_total counter".into());
        for ((stage, class, provider), count) in troubles {
            let labels = format!("stage=\"{stage}\",class=\"{class}\",provider=\"{provider}\"");
            line(format!("nurse_tour_troubles_total{{{labels}}} {count}"));
        }
        line("# TYPE nurse_tour_stage_seconds histogram".into());
        for (stage, Durations { count, sum_ms, buckets }) in stages {
            for (bucket, bound) in buckets.iter().zip(BUCKETS_MS) {
                let bound = bound as f64 / 1_000.0;
                line(format!("nurse_tour_stage_seconds_bucket{{stage=\"{stage}\",le=\"{bound}\"}} {bucket}"));
            }
            line(format!("nurse_tour_stage_seconds_bucket{{stage=\"{stage}\",le=\"+Inf\"}} {count}"));
            let sum = *sum_ms as f64 / 1_000.0;
            line(format!("nurse_tour_stage_seconds_sum{{stage=\"{stage}\"}} {sum}"));
            line(format!("nurse_tour_stage_seconds_count{{stage=\"{stage}\"}} {count}"));
        }
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
