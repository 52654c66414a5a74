//! Schedules: a cron line with a time zone that enqueues jobs.
//! What a cron line means over the changes of the clocks is in [`super::cron`].

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Invalid;
use crate::id::{DedupeKey, JobId, ScheduleName};
use crate::job::{JobSpec, NewJob, Start};
use crate::policy::cron::CronLine;
use crate::time::Time;

/// A run that is this late is still on time, and not missed.
pub const ON_TIME_MS: u64 = 60_000;
/// How many missed runs are made up for at most.
pub const MISSED_MAX: u32 = 100;
/// How many pauses are remembered.
pub const RESTS_MAX: usize = 16;
/// How long after the moment that its id is made of a job that was asked for by hand may have been accepted.
const BY_HAND_MS_MAX: i64 = 2_000;

/// When to enqueue what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchedulePolicy {
    /// Five fields, or six with seconds in front.
    pub cron: String,
    /// An IANA time zone such as `Europe/Berlin`.
    pub zone: String,
    /// What happens when the job of an earlier run is not over yet.
    #[serde(default)]
    pub overlap: Overlap,
    /// What happens to runs that were missed.
    #[serde(default)]
    pub missed: Missed,
    /// Whether it is at rest. Runs of that time are left out, whatever the rule for missed ones: a pause is somebody's
    /// decision, and no outage.
    #[serde(default)]
    pub paused: bool,
    /// The job to enqueue.
    pub job: JobSpec,
}

/// What happens when the job of an earlier run is not over yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// This run is left out.
    #[default]
    Skip,
    /// The job is enqueued all the same.
    Queue,
}

/// What happens to runs that nobody was there to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missed {
    /// They are left out.
    Skip,
    /// The newest is made up for.
    #[default]
    Last,
    /// The newest so many are made up for, oldest first.
    All(u32),
}

/// A schedule with its memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Its name.
    pub name: ScheduleName,
    /// When to enqueue what.
    pub policy: SchedulePolicy,
    /// Runs up to this moment are dealt with.
    pub settled_to: Time,
    /// The newest run that enqueued a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_run: Option<Time>,
    /// The job of that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_job: Option<JobId>,
    /// Its newest pauses, oldest first: at most [`RESTS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rests: Vec<Rest>,
}

/// A time in which a schedule was paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rest {
    /// Since when.
    pub from: Time,
    /// Until when; nothing while it lasts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Time>,
}

impl Rest {
    /// Whether a run of this moment was left out for it.
    pub fn holds(&self, run: Time) -> bool {
        self.from < run && self.to.is_none_or(|to| run <= to)
    }
}

impl SchedulePolicy {
    /// Refuses a cron line, a zone or a job that cannot be.
    pub fn checked(mut self) -> Result<Self, Invalid> {
        CronLine::new(&self.cron, &self.zone)?;
        if let Missed::All(cap) = self.missed
            && (cap == 0 || cap > MISSED_MAX)
        {
            return Err(Invalid::new("missed", format!("must be between 1 and {MISSED_MAX}")));
        }
        if self.job.dedupe_key.is_some() {
            return Err(Invalid::new("dedupe_key", "cannot be set on a schedule; use overlap"));
        }
        self.job = self.job.checked()?;
        Ok(self)
    }

    /// The first run after `after`; nothing when there is none.
    pub fn next_after(&self, after: Time) -> Option<Time> {
        CronLine::new(&self.cron, &self.zone).ok()?.next_after(after)
    }

    /// The newest run at or before `at`.
    fn newest_at(&self, at: Time) -> Option<Time> {
        CronLine::new(&self.cron, &self.zone).ok()?.newest_at(at)
    }
}

impl Schedule {
    /// A schedule that begins at `now`.
    pub fn new(name: ScheduleName, policy: SchedulePolicy, now: Time) -> Self {
        let rests = if policy.paused { vec![Rest { from: now, to: None }] } else { Vec::new() };
        Self { name, policy, settled_to: now, last_run: None, last_job: None, rests }
    }

    /// Takes another policy, and goes on from where it is. But another line counts from now on, where nothing was due by
    /// the one before; and so does one that was paused: the runs of a pause are left out. What was due before a pause and
    /// had not fired goes with it.
    pub fn change(&mut self, policy: SchedulePolicy, now: Time) {
        let has_another_line = (&policy.cron, &policy.zone) != (&self.policy.cron, &self.policy.zone);
        if self.policy.paused || (has_another_line && !self.is_due(now)) {
            self.settle(now);
        }
        match (self.policy.paused, policy.paused) {
            (false, true) => {
                let crowded = (self.rests.len() + 1).saturating_sub(RESTS_MAX);
                self.rests.drain(..crowded);
                self.rests.push(Rest { from: now, to: None });
            }
            (true, false) => {
                if let Some(rest) = self.rests.last_mut() {
                    rest.to.get_or_insert(now);
                }
            }
            _ => {}
        }
        self.policy = policy;
    }

    /// Whether a run was left out because the schedule was paused, as far as its pauses are remembered.
    pub fn rested_at(&self, run: Time) -> bool {
        self.rests.iter().any(|rest| rest.holds(run))
    }

    /// When the job was asked for that somebody had made of this schedule by hand; nothing when it is none. Its id says
    /// so: it is made of a moment shortly before the store accepted it, as that of a run is made of the run.
    pub fn asked_for(&self, job: JobId, accepted: Time) -> Option<Time> {
        if job.0.get_version_num() != 5 {
            return None;
        }
        let moments = (0..=BY_HAND_MS_MAX).map(|ms| accepted.plus_ms(-ms));
        moments.into_iter().find(|moment| self.id_for(*moment) == job)
    }

    /// Whether a run is not dealt with yet. Whoever fires schedules leaves alone all others, and what it keeps of them.
    pub fn is_due(&self, now: Time) -> bool {
        self.next_due().is_some_and(|at| at <= now)
    }

    /// Says that all runs up to `now` are dealt with.
    pub fn settle(&mut self, now: Time) {
        self.settled_to = now.max(self.settled_to);
    }

    /// The runs to enqueue jobs for at `now`, oldest first.
    pub fn due(&self, now: Time) -> Vec<Time> {
        if self.policy.paused {
            return Vec::new();
        }
        let keep = match self.policy.missed {
            Missed::Skip | Missed::Last => 1,
            Missed::All(cap) => cap.min(MISSED_MAX) as usize,
        };
        let mut runs = Vec::new();
        let mut at = now;
        while runs.len() < keep {
            let Some(run) = self.policy.newest_at(at).filter(|run| *run > self.settled_to) else {
                break;
            };
            runs.push(run);
            at = run.plus_ms(-1);
        }
        if self.policy.missed == Missed::Skip {
            runs.retain(|run| now.ms_since(*run) <= ON_TIME_MS);
        }
        runs.reverse();
        runs
    }

    /// The runs that its line gives at or before `at`, newest first, whether or not a job was enqueued for them.
    pub fn runs_before(&self, at: Time, most: usize) -> Vec<Time> {
        let newest = self.policy.newest_at(at);
        std::iter::successors(newest, |run| self.policy.newest_at(run.plus_ms(-1))).take(most).collect()
    }

    /// When it is due next, seen from what is dealt with.
    pub fn next_due(&self) -> Option<Time> {
        if self.policy.paused {
            return None;
        }
        self.policy.next_after(self.settled_to)
    }

    /// The job of the run at `run`. Its id follows from schedule and run, so
    /// that the same run can never make two.
    pub fn job_for(&self, run: Time) -> NewJob {
        let mut spec = self.policy.job.clone();
        if self.policy.overlap == Overlap::Skip {
            spec.dedupe_key = self.overlap_key();
        }
        NewJob { id: self.id_for(run), spec, start: Start::Now }
    }

    /// The id of the job of a run.
    pub fn id_for(&self, run: Time) -> JobId {
        let mut name = self.name.as_str().as_bytes().to_vec();
        name.extend_from_slice(&run.ms().to_be_bytes());
        JobId(Uuid::new_v5(&NAMESPACE, &name))
    }

    /// The dedupe key by which a schedule's runs keep out of each other's way.
    fn overlap_key(&self) -> Option<DedupeKey> {
        DedupeKey::new(format!("schedule:{}", self.name)).ok()
    }
}

/// What the schedules did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fired {
    /// The runs that enqueued a job.
    pub runs: Vec<FiredRun>,
    /// In how many milliseconds the next schedule is due.
    pub next_in_ms: Option<u64>,
}

/// A run of a schedule that enqueued a job, or found the one before not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiredRun {
    /// The schedule.
    pub schedule: ScheduleName,
    /// The run.
    pub run: Time,
    /// The job that is there now.
    pub job_id: JobId,
    /// The job was there before: this run was left out.
    pub skipped: bool,
}

/// The namespace of the ids of scheduled jobs.
const NAMESPACE: Uuid = Uuid::from_u128(0x7769_6e64_6c61_5373_9c68_6564_756c_6501);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Kind, QueueName};
    use crate::json::Json;

    fn policy(cron: &str, zone: &str, missed: Missed) -> SchedulePolicy {
        let job = JobSpec::new(Kind::new("report").unwrap(), QueueName::default(), Json::null());
        let policy = SchedulePolicy {
            cron: cron.into(),
            zone: zone.into(),
            overlap: Overlap::Skip,
            missed,
            paused: false,
            job,
        };
        policy.checked().unwrap()
    }

    fn time(text: &str) -> Time {
        text.parse().unwrap()
    }

    /// Fault 46: missed runs follow the rule, with a cap.
    #[test]
    fn fault_46_missed_runs() {
        let start = time("2026-01-01T00:00:00Z");
        let due = |missed, now: &str| {
            let schedule =
                Schedule::new(ScheduleName::new("s").unwrap(), policy("0 * * * *", "UTC", missed), start);
            schedule.due(time(now)).iter().map(|run| run.to_string()[11..16].to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(due(Missed::Skip, "2026-01-01T05:00:30Z"), ["05:00"]);
        assert!(due(Missed::Skip, "2026-01-01T05:30:00Z").is_empty());
        assert_eq!(due(Missed::Last, "2026-01-01T05:30:00Z"), ["05:00"]);
        assert_eq!(due(Missed::All(3), "2026-01-01T05:30:00Z"), ["03:00", "04:00", "05:00"]);
        assert_eq!(due(Missed::All(100), "2026-06-01T05:30:00Z").len(), 100);
        assert!(due(Missed::Last, "2026-01-01T00:59:59Z").is_empty());
    }

    /// A pause is a decision: no rule for missed runs makes up for what it left out, and it is remembered.
    #[test]
    fn runs_of_a_pause_are_left_out() {
        let hourly = policy("0 * * * *", "UTC", Missed::All(9));
        let paused = SchedulePolicy { paused: true, ..hourly.clone() };
        let start = time("2026-01-01T00:00:00Z");
        let mut schedule = Schedule::new(ScheduleName::new("s").unwrap(), hourly.clone(), start);
        schedule.change(paused.clone(), time("2026-01-01T01:30:00Z"));
        assert!(schedule.due(time("2026-01-01T03:30:00Z")).is_empty());
        // Said again, or with another line, it stays one pause.
        schedule.change(
            SchedulePolicy { cron: "30 * * * *".into(), ..paused.clone() },
            time("2026-01-01T02:00:00Z"),
        );
        schedule.change(hourly.clone(), time("2026-01-01T03:30:00Z"));
        assert!(
            schedule.due(time("2026-01-01T03:59:00Z")).is_empty(),
            "not even the one at 01:00, which had not fired"
        );
        assert_eq!(schedule.due(time("2026-01-01T05:10:00Z")).len(), 2);
        let rested = |at: &str| schedule.rested_at(time(at));
        assert!(!rested("2026-01-01T01:00:00Z") && rested("2026-01-01T02:00:00Z"));
        assert!(rested("2026-01-01T03:00:00Z") && !rested("2026-01-01T04:00:00Z"));
        for hour in 0..40 {
            let at = start.plus_ms((10 + hour) * 3_600_000);
            schedule.change(if hour % 2 == 0 { paused.clone() } else { hourly.clone() }, at);
        }
        assert_eq!(schedule.rests.len(), RESTS_MAX);
    }

    #[test]
    fn a_job_by_hand_is_known_by_its_id() {
        let of = |name: &str| {
            Schedule::new(
                ScheduleName::new(name).unwrap(),
                policy("0 * * * *", "UTC", Missed::Last),
                Time::MIN,
            )
        };
        let (asked, accepted) = (time("2026-01-01T05:12:00.100Z"), time("2026-01-01T05:12:00.130Z"));
        let id = of("s").job_for(asked).id;
        assert_eq!(of("s").asked_for(id, accepted), Some(asked));
        assert_eq!(of("other").asked_for(id, accepted), None);
        assert_eq!(of("s").asked_for(id, accepted.plus_ms(60_000)), None);
    }

    #[test]
    fn bad_lines_are_refused() {
        for (cron, zone) in [
            ("* * * *", "UTC"),
            ("61 * * * *", "UTC"),
            ("", "UTC"),
            ("0 0 * * *", "Mars/Base"),
            ("0 0 30 2 *", "Europe/Nowhere"),
        ] {
            let mut bad = policy("0 0 * * *", "UTC", Missed::Last);
            bad.cron = cron.into();
            bad.zone = zone.into();
            assert!(bad.checked().is_err(), "{cron} {zone}");
        }
    }

    /// Fault 45: the same run always has the same job id.
    #[test]
    fn fault_45_a_run_is_one_job() {
        let schedule = Schedule::new(
            ScheduleName::new("s").unwrap(),
            policy("0 * * * *", "UTC", Missed::Last),
            Time::MIN,
        );
        let run = time("2026-01-01T05:00:00Z");
        assert_eq!(schedule.job_for(run).id, schedule.job_for(run).id);
        assert_ne!(schedule.job_for(run).id, schedule.job_for(run.plus_ms(3_600_000)).id);
    }
}
