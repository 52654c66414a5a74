//! The life of a job as a list of attempts and as a timeline, put together
//! from its history and from where it is now.

use schemars::JsonSchema;
use serde::Serialize;
use windlass_engine::core::event::What;
use windlass_engine::core::id::WorkerName;
use windlass_engine::core::job::{HISTORY_MAX, Job};
use windlass_engine::core::state::State;
use windlass_engine::core::time::Time;

use crate::schema::{Moment, WorkerText};

/// One attempt. Only the newest 32 things that happened to a job are kept.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Attempt")]
pub struct AttemptView {
    pub attempt: u32,
    pub fence: u64,
    #[schemars(with = "Option<WorkerText>")]
    pub worker: Option<WorkerName>,
    #[schemars(with = "Option<Moment>")]
    pub started_at: Option<Time>,
    #[schemars(with = "Option<Moment>")]
    pub ended_at: Option<Time>,
    /// `running`, or how it ended: completed, retrying, failed, crashed,
    /// released, parked, canceled.
    pub outcome: &'static str,
    pub error: Option<String>,
}

/// One thing that happened.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "TimelineEntry")]
pub struct TimelineView {
    #[schemars(with = "Moment")]
    pub at: Time,
    /// What: the word of an event, or `step`.
    pub what: &'static str,
    pub attempt: Option<u32>,
    #[schemars(with = "Option<WorkerText>")]
    pub worker: Option<WorkerName>,
    pub step: Option<String>,
    pub error: Option<String>,
}

/// Whether attempts are missing at the beginning: a job keeps the newest things that happened to it alone.
pub(super) fn is_cut(job: &Job) -> bool {
    job.history.len() >= HISTORY_MAX && !is_from_the_beginning(job)
}

/// Whether a history begins with a job's first attempt. Attempts that do not count have no number of their own: with
/// one of these in it nobody can tell.
fn is_from_the_beginning(job: &Job) -> bool {
    let of = |what: What| job.history.iter().filter(|entry| entry.what == what).count();
    let begins = job.history.first().is_none_or(|first| first.attempt == 1);
    begins && of(What::Retried) == job.retries as usize && of(What::Parked) + of(What::Released) == 0
}

pub(super) fn attempts(job: &Job, hidden: bool) -> Vec<AttemptView> {
    let ended = job.history.iter().filter(|entry| entry.fence > 0).map(|entry| AttemptView {
        attempt: entry.attempt,
        fence: entry.fence,
        worker: entry.worker.clone(),
        started_at: entry.started_at,
        ended_at: Some(entry.at),
        outcome: entry.what.as_str(),
        error: entry.error.clone().filter(|_| !hidden),
    });
    let mut attempts: Vec<AttemptView> = ended.collect();
    let outcome = match &job.state {
        State::Running(_) => "running",
        State::Completed { .. } => "completed",
        State::Queued | State::Failed { .. } | State::Canceled { .. } => return attempts,
    };
    attempts.push(AttemptView {
        attempt: job.attempt,
        fence: job.fence,
        worker: job.worker.clone(),
        started_at: job.started_at,
        ended_at: job.state.ended_at(),
        outcome,
        error: None,
    });
    attempts
}

pub(super) fn timeline(job: &Job, hidden: bool) -> Vec<TimelineView> {
    let mut line = vec![TimelineView::new(job.created_at, What::Enqueued.as_str())];
    for attempt in attempts(job, true) {
        if let Some(at) = attempt.started_at {
            let mut claimed = TimelineView::new(at, What::Claimed.as_str());
            claimed.attempt = Some(attempt.attempt);
            claimed.worker = attempt.worker;
            line.push(claimed);
        }
    }
    for step in &job.steps {
        let mut stored = TimelineView::new(step.stored_at, "step");
        stored.attempt = Some(step.attempt);
        stored.step = Some(step.name.to_string());
        line.push(stored);
    }
    for entry in &job.history {
        let mut happened = TimelineView::new(entry.at, entry.what.as_str());
        happened.attempt = Some(entry.attempt).filter(|attempt| *attempt > 0);
        happened.worker = entry.worker.clone();
        happened.error = entry.error.clone().filter(|_| !hidden);
        line.push(happened);
    }
    if let Some(ended_at) = job.state.ended_at() {
        let word = job.state.name().as_str();
        // An end by a lease that ran out has no entry of its own in the history.
        if !line.iter().any(|entry| entry.what == word && entry.at == ended_at) {
            line.push(TimelineView::new(ended_at, word));
        }
    }
    line.sort_by_key(|entry| entry.at);
    line
}

impl TimelineView {
    fn new(at: Time, what: &'static str) -> Self {
        Self { at, what, attempt: None, worker: None, step: None, error: None }
    }
}

#[cfg(test)]
mod tests {
    use windlass_engine::core::id::{JobId, Kind, QueueName};
    use windlass_engine::core::job::{Entry, JobSpec, NewJob, Start};
    use windlass_engine::core::json::Json;
    use windlass_engine::core::policy::queue::QueuePolicy;
    use windlass_engine::core::transition::accept;

    use super::*;

    /// A job to which these things happened, each in an attempt.
    fn job(happened: impl IntoIterator<Item = (What, u32)>) -> Job {
        let id: JobId = "0198c0de-0000-7000-8000-000000000001".parse().unwrap();
        let spec = JobSpec::new(Kind::new("k").unwrap(), QueueName::default(), Json::null());
        let new = NewJob { id, spec, start: Start::Now };
        let mut job = accept(new, 0, &QueuePolicy::default(), Time::from_ms(0));
        let entry = |(what, attempt)| Entry {
            at: Time::from_ms(0),
            what,
            attempt,
            fence: 1,
            worker: None,
            started_at: None,
            error: None,
        };
        job.history = happened.into_iter().map(entry).collect();
        job
    }

    #[test]
    fn a_history_is_cut_when_something_is_missing() {
        let max = u32::try_from(HISTORY_MAX).unwrap();
        let tried = |first: u32| (first..first + max).map(|attempt| (What::Retrying, attempt));
        assert!(!is_cut(&job(tried(1).take(HISTORY_MAX - 1))));
        assert!(!is_cut(&job(tried(1))), "all that there was is there");
        assert!(is_cut(&job(tried(2))));
        let parked = std::iter::repeat_n((What::Parked, 1), HISTORY_MAX);
        assert!(is_cut(&job(parked)), "nobody can tell");
        let mut second_life = job(tried(1));
        second_life.retries = 1;
        assert!(is_cut(&second_life));
    }
}
