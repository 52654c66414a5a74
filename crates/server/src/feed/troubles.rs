//! Attempts that went wrong in the last quarter of an hour, grouped by what they say.
//!
//! How many there were is counted. What they say is read from some of them where there are many, and each of
//! these then stands for as many as it was picked from.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::Serialize;
use windlass_engine::core::id::{JobId, Kind, QueueName};
use windlass_engine::core::job::Job;
use windlass_engine::core::time::Time;

use windlass_report::fold::folded;
use windlass_report::schema::{Id, Moment, Name};

/// How far back failures are grouped.
pub(crate) const FAILURES_MS: i64 = 15 * 60_000;
/// How many failures are kept.
const KEPT_MAX: usize = 4_000;
/// How many groups are shown.
const GROUPS_MAX: usize = 20;
/// How many kinds of a group are named.
const KINDS_MAX: usize = 3;
/// How many jobs are looked at each time.
const PICKS_MAX: usize = 64;

/// Instead of an error of a kind that is sensitive.
const HIDDEN: &str = "(hidden: the kind is sensitive)";

/// The failures that were looked at.
#[derive(Default)]
pub(super) struct Troubles(VecDeque<Trouble>);

struct Trouble {
    at: Time,
    error: String,
    kind: Kind,
    queue: QueueName,
    job_id: JobId,
    /// For how many it stands.
    weight: f64,
}

/// Failures that say the same.
#[derive(Clone, Serialize, JsonSchema)]
#[schemars(rename = "FailureGroup")]
pub(crate) struct Failures {
    /// The first line, with `#` for numbers and `…` for what is quoted.
    pub error: String,
    /// The kinds of their jobs, three at most.
    #[schemars(with = "Vec<Name>")]
    pub kinds: Vec<Kind>,
    /// How many kinds there are beside these.
    pub more_kinds: usize,
    #[schemars(with = "Name")]
    pub queue: QueueName,
    pub count: u64,
    /// Whether `count` was estimated: not all of them were looked at.
    pub estimated: bool,
    #[schemars(with = "Moment")]
    pub last_at: Time,
    #[schemars(with = "Id")]
    pub last_job: JobId,
}

impl Failures {
    /// Whether the error is known, and may be told.
    pub(crate) fn is_named(&self) -> bool {
        !self.error.is_empty() && self.error != HIDDEN
    }
}

impl Troubles {
    /// Takes note of a job whose attempt went wrong.
    pub(super) fn note(&mut self, job: &Job, weight: f64, sensitive: bool) {
        let Some(entry) = job.history.iter().rev().find(|entry| entry.error.is_some()) else { return };
        let error = entry.error.as_deref().map_or_else(String::new, folded);
        if self.0.len() >= KEPT_MAX {
            self.0.pop_front();
        }
        self.0.push_back(Trouble {
            at: entry.at,
            error: if sensitive { HIDDEN.to_owned() } else { error },
            kind: job.spec.kind.clone(),
            queue: job.spec.queue.clone(),
            job_id: job.id,
            weight,
        });
    }

    /// The failures up to `now`, the most frequent first.
    pub(super) fn groups(&self, now: Time) -> Vec<Failures> {
        let since = now.plus_ms(-FAILURES_MS);
        let mut groups: BTreeMap<&str, Vec<&Trouble>> = BTreeMap::new();
        for trouble in self.0.iter().filter(|trouble| trouble.at >= since) {
            groups.entry(&trouble.error).or_default().push(trouble);
        }
        let mut groups: Vec<Failures> = groups.into_values().filter_map(|group| group_of(&group)).collect();
        groups.sort_by_key(|group| std::cmp::Reverse((group.count, group.last_at)));
        groups.truncate(GROUPS_MAX);
        groups
    }
}

fn group_of(group: &[&Trouble]) -> Option<Failures> {
    let last = group.iter().max_by_key(|trouble| trouble.at)?;
    let mut kinds: Vec<&Kind> = group.iter().map(|trouble| &trouble.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    Some(Failures {
        error: last.error.clone(),
        more_kinds: kinds.len().saturating_sub(KINDS_MAX),
        kinds: kinds.into_iter().take(KINDS_MAX).cloned().collect(),
        queue: last.queue.clone(),
        count: group.iter().map(|trouble| trouble.weight).sum::<f64>().round() as u64,
        estimated: group.iter().any(|trouble| trouble.weight > 1.0),
        last_at: last.at,
        last_job: last.job_id,
    })
}

/// Some of many jobs, evenly spread (systematic sampling): all of them while there are few.
pub(super) struct Picks {
    jobs: Vec<JobId>,
    seen: u64,
    stride: u64,
}

impl Default for Picks {
    fn default() -> Self {
        Self { jobs: Vec::new(), seen: 0, stride: 1 }
    }
}

impl Picks {
    pub(super) fn offer(&mut self, job: JobId) {
        if self.seen.is_multiple_of(self.stride) && self.jobs.len() == PICKS_MAX {
            let mut at = 0;
            self.jobs.retain(|_| {
                at += 1;
                at % 2 == 1
            });
            self.stride *= 2;
        }
        if self.seen.is_multiple_of(self.stride) {
            self.jobs.push(job);
        }
        self.seen += 1;
    }

    /// The jobs, and for how many each of them stands.
    pub(super) fn picked(self) -> (Vec<JobId>, f64) {
        let weight = self.seen as f64 / self.jobs.len().max(1) as f64;
        (self.jobs, weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_all_picked_and_many_stand_for_the_rest() {
        for (count, picked, weight) in [(0_u128, 0, 0.0), (64, 64, 1.0), (306, 39, 306.0 / 39.0)] {
            let mut picks = Picks::default();
            (0..count).for_each(|id| picks.offer(JobId(uuid::Uuid::from_u128(id))));
            let (jobs, of) = picks.picked();
            assert_eq!((jobs.len(), of), (picked, weight), "{count}");
        }
    }

    #[test]
    fn one_cause_is_one_group_whatever_the_kind() {
        let mut troubles = Troubles::default();
        let at = Time::from_ms(1_000_000);
        for number in 0..15 {
            troubles.0.push_back(Trouble {
                at,
                error: folded(&format!("no connection to 10.0.0.{number}")),
                kind: Kind::new(format!("kind-{number}")).unwrap(),
                queue: QueueName::default(),
                job_id: JobId(uuid::Uuid::from_u128(number)),
                weight: 20.4,
            });
        }
        let groups = troubles.groups(at);
        assert_eq!(groups.len(), 1);
        let group = &groups[0];
        assert_eq!((group.count, group.estimated), (306, true));
        assert_eq!((group.kinds.len(), group.more_kinds), (3, 12));
        assert_eq!(troubles.groups(at.plus_ms(FAILURES_MS + 1)).len(), 0);
    }
}
