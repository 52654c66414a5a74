//! What can be done to a store, as it is written down. `core`'s book decides what it means.

use serde::{Deserialize, Serialize};
use uuid::Uuid;
use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::event::Action;
use windlass_core::id::{BudgetName, JobId, Kind, QueueName, ScheduleName, StepName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::policy::schedule::SchedulePolicy;
use windlass_core::record::BatchAnswer;
use windlass_core::store::{
    CancelAnswer, ClaimAnswer, ClaimRequest, DeleteAnswer, Enqueued, Expired, Fired, LeaseRef, ProgressWrite,
    QueueDeletion, RenewAnswer, Rerun, RerunAnswer, RetryAnswer, RunNowAnswer, Settlement, Spent, StepWrite,
    WorkerBeat, Written,
};
use windlass_core::time::Time;
use windlass_core::transition::Outcome;

use super::history::Turn;
use super::jobs_form;
use super::record_form::Batch;

/// One operation.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Op {
    Enqueue(#[serde(with = "jobs_form")] Vec<New>),
    Claim(#[serde(with = "ClaimForm")] ClaimRequest),
    Renew(Vec<LeaseRef>),
    Steps(Vec<Step>),
    Progress(Vec<Report>),
    Settle(Vec<Settled>),
    Expire,
    Spend(BudgetName, u32),
    CoolDown(BudgetName, u64),
    Cancel(Jobs),
    Retry(Jobs),
    RunNow(Jobs),
    Rerun(Vec<Rerun>),
    Delete(Jobs),
    DeleteQueue(QueueName),
    DeleteBudget(BudgetName),
    PutQueue(QueueName, QueuePolicy),
    PauseQueue(QueueName, bool),
    PutBudget(BudgetName, BudgetPolicy),
    PutSchedule(ScheduleName, SchedulePolicy),
    DeleteSchedule(ScheduleName),
    FireSchedules,
    Beat(#[serde(with = "BeatForm")] WorkerBeat),
    ForgetWorker(WorkerName),
    Prune,
    Records(Batch),
    Act(Action),
    /// Not asked for by anybody: the history is another.
    Turn(Turn),
}

/// What an operation is answered.
#[derive(Debug)]
pub(crate) enum Answer {
    Enqueued(Vec<Enqueued>),
    Claimed(ClaimAnswer),
    Renewed(RenewAnswer),
    Written(Vec<Written>),
    Expired(Expired),
    Spent(Spent),
    Canceled(Vec<CancelAnswer>),
    Retried(Vec<RetryAnswer>),
    RunNow(Vec<RunNowAnswer>),
    Rerun(Vec<RerunAnswer>),
    DeletedJobs(Vec<DeleteAnswer>),
    DeletedQueue(QueueDeletion),
    Deleted(bool),
    Fired(Fired),
    Pruned(u64),
    Batch(BatchAnswer),
    Done,
}

impl Op {
    /// The jobs that it brings.
    pub(crate) fn new_jobs(&self) -> impl Iterator<Item = &NewJob> {
        let (plain, with_records) = match self {
            Self::Enqueue(jobs) => (jobs.as_slice(), [].as_slice()),
            Self::Records(batch) => ([].as_slice(), batch.0.jobs.as_slice()),
            _ => ([].as_slice(), [].as_slice()),
        };
        plain.iter().map(|new: &New| &new.0).chain(with_records)
    }

    /// Whether it enqueues jobs none of which is known.
    pub(crate) fn is_new(&self, book: &Book) -> bool {
        matches!(self, Self::Enqueue(jobs) if !jobs.is_empty() && jobs.iter().all(|new| book.job(new.0.id).is_none()))
    }

    /// Whether it may change anything: what does not is answered without an entry. A yes in vain costs an entry.
    pub(crate) fn may_change(&self, book: &Book, now: Time) -> bool {
        let held =
            |lease: &LeaseRef| book.job(lease.job_id).is_some_and(|job| job.lease_for(lease.fence).is_some());
        match self {
            Self::Enqueue(jobs) => jobs.iter().any(|new| book.job(new.0.id).is_none()),
            Self::Claim(request) => book.would_claim(request, now),
            Self::Renew(leases) => leases.iter().any(held),
            Self::Steps(steps) => steps.iter().any(|step| held(&step.0.lease)),
            Self::Progress(reports) => reports.iter().any(|report| held(&report.0.lease)),
            Self::Settle(ends) => ends.iter().any(|end| held(&end.0.lease)),
            Self::Expire => book.next_look().is_some_and(|at| at <= now),
            Self::Spend(name, amount) => book.would_spend(name, *amount, now),
            Self::Cancel(jobs) | Self::Retry(jobs) | Self::RunNow(jobs) | Self::Delete(jobs) => {
                jobs.ids().iter().any(|id| book.job(*id).is_some())
            }
            Self::Rerun(wishes) => wishes.iter().any(|wish| book.job(wish.job_id).is_some()),
            Self::DeleteSchedule(name) => book.schedules().iter().any(|schedule| schedule.name == *name),
            Self::FireSchedules => book.would_fire(now),
            _ => true,
        }
    }

    /// Does it. Answers also whether anything changed; what is refused has changed nothing.
    pub(crate) fn apply(&self, book: &mut Book, now: Time) -> Result<(Answer, bool), StoreError> {
        Ok(match self {
            Self::Enqueue(jobs) => {
                let answer = book.enqueue(jobs.iter().map(|new| new.0.clone()).collect(), now)?;
                let changed = answer.iter().any(|enqueued| !enqueued.deduplicated);
                (Answer::Enqueued(answer), changed)
            }
            Self::Claim(request) => {
                let answer = book.claim(request, now)?;
                let changed = !answer.leases.is_empty();
                (Answer::Claimed(answer), changed)
            }
            Self::Renew(leases) => {
                let answer = book.renew(leases, now);
                let changed = !answer.renewed.is_empty();
                (Answer::Renewed(answer), changed)
            }
            Self::Steps(steps) => written(book.store_steps(&inner(steps, |step| step.0.clone()), now)),
            Self::Progress(reports) => written(book.progress(&inner(reports, |report| report.0.clone()))),
            Self::Settle(ends) => written(book.settle(&inner(ends, |end| end.0.clone()), now)),
            Self::Expire => {
                let answer = book.expire(now);
                // A mark is as good as a move: the second look rests on it.
                let changed = !answer.jobs.is_empty() || answer.marked > 0;
                (Answer::Expired(answer), changed)
            }
            Self::Spend(name, amount) => {
                let answer = book.spend(name, *amount, now);
                (Answer::Spent(answer), answer == Spent::Granted && *amount > 0)
            }
            Self::Cancel(jobs) => {
                let answer = book.cancel(jobs.ids(), now);
                let changed =
                    answer.iter().any(|one| matches!(one, CancelAnswer::Canceled | CancelAnswer::Requested));
                (Answer::Canceled(answer), changed)
            }
            Self::Retry(jobs) => {
                let answer = book.retry(jobs.ids(), now);
                let changed = answer.contains(&RetryAnswer::Retried);
                (Answer::Retried(answer), changed)
            }
            Self::RunNow(jobs) => {
                let answer = book.run_now(jobs.ids(), now);
                let changed = answer.contains(&RunNowAnswer::Due);
                (Answer::RunNow(answer), changed)
            }
            Self::Rerun(wishes) => {
                let answer = book.rerun(wishes, now);
                let changed = answer.contains(&RerunAnswer::Retried);
                (Answer::Rerun(answer), changed)
            }
            Self::Delete(jobs) => {
                let answer = book.delete(jobs.ids(), now);
                let changed = answer.contains(&DeleteAnswer::Deleted);
                (Answer::DeletedJobs(answer), changed)
            }
            Self::DeleteQueue(name) => {
                let answer = book.delete_queue(name);
                (Answer::DeletedQueue(answer), answer == QueueDeletion::Deleted)
            }
            Self::DeleteBudget(name) => {
                let deleted = book.delete_budget(name);
                (Answer::Deleted(deleted), deleted)
            }
            Self::DeleteSchedule(name) => {
                let deleted = book.delete_schedule(name);
                (Answer::Deleted(deleted), deleted)
            }
            Self::FireSchedules => {
                let changed = book.would_fire(now);
                (Answer::Fired(book.fire_schedules(now)), changed)
            }
            Self::Prune => (Answer::Pruned(book.prune(now)), true),
            Self::Records(batch) => {
                let answer = book.write_records(&batch.0, now)?;
                let changed = matches!(answer, BatchAnswer::Done { .. });
                (Answer::Batch(answer), changed)
            }
            _ => return self.apply_setting(book, now),
        })
    }

    /// What is set, and always changes something.
    fn apply_setting(&self, book: &mut Book, now: Time) -> Result<(Answer, bool), StoreError> {
        match self {
            Self::CoolDown(name, for_ms) => book.cool_down(name.clone(), *for_ms, now),
            Self::PutQueue(name, policy) => book.put_queue(name.clone(), policy.clone(), now)?,
            Self::PauseQueue(name, paused) => book.pause_queue(name.clone(), *paused),
            Self::PutBudget(name, policy) => book.put_budget(name.clone(), *policy),
            Self::PutSchedule(name, policy) => book.put_schedule(name.clone(), policy.clone(), now)?,
            Self::Beat(beat) => book.beat(beat.clone(), now),
            Self::ForgetWorker(name) => book.forget_worker(name),
            Self::Act(action) => book.act(action.clone(), now)?,
            other => return Err(StoreError::Broken(format!("{other:?} is no setting"))),
        }
        Ok((Answer::Done, true))
    }
}

fn written(answer: Vec<Written>) -> (Answer, bool) {
    let changed = answer.contains(&Written::Done);
    (Answer::Written(answer), changed)
}

fn inner<F, T>(forms: &[F], take: impl Fn(&F) -> T) -> Vec<T> {
    forms.iter().map(take).collect()
}

/// The jobs that are steered. Entries before meaning 3 name one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Jobs {
    One(JobId),
    Many(Vec<JobId>),
}

impl Jobs {
    fn ids(&self) -> &[JobId] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::Many(ids) => ids,
        }
    }
}

impl From<Vec<JobId>> for Jobs {
    fn from(ids: Vec<JobId>) -> Self {
        Self::Many(ids)
    }
}

/// A job that is to be enqueued.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct New(#[serde(with = "NewForm")] pub(crate) NewJob);

#[derive(Serialize, Deserialize)]
#[serde(remote = "NewJob")]
pub(super) struct NewForm {
    id: JobId,
    spec: JobSpec,
    #[serde(with = "StartForm")]
    start: Start,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Start")]
pub(crate) enum StartForm {
    Now,
    At(Time),
    AfterMs(u64),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ClaimRequest")]
struct ClaimForm {
    request_id: Uuid,
    worker: WorkerName,
    queues: Vec<QueueName>,
    kinds: Option<Vec<Kind>>,
    limit: u32,
    lease_ms: Option<u32>,
}

/// A step that is to be stored.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Step(#[serde(with = "StepForm")] pub(crate) StepWrite);

#[derive(Serialize, Deserialize)]
#[serde(remote = "StepWrite")]
struct StepForm {
    lease: LeaseRef,
    name: StepName,
    output: Json,
}

/// Progress that is to be noted.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report(#[serde(with = "ReportForm")] pub(crate) ProgressWrite);

#[derive(Serialize, Deserialize)]
#[serde(remote = "ProgressWrite")]
struct ReportForm {
    lease: LeaseRef,
    progress: Json,
}

/// An end of an attempt.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Settled(#[serde(with = "SettledForm")] pub(crate) Settlement);

#[derive(Serialize, Deserialize)]
#[serde(remote = "Settlement")]
struct SettledForm {
    lease: LeaseRef,
    #[serde(with = "OutcomeForm")]
    outcome: Outcome,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Outcome")]
enum OutcomeForm {
    Completed {
        #[serde(
            default,
            deserialize_with = "windlass_core::json::present",
            skip_serializing_if = "Option::is_none"
        )]
        result: Option<Json>,
    },
    Retry {
        error: String,
        #[serde(with = "maybe_start")]
        when: Option<Start>,
    },
    Failed {
        error: String,
    },
    Parked {
        #[serde(with = "StartForm")]
        until: Start,
    },
    Released,
    Canceled,
}

/// Perhaps a start: serde's forms of others know no options.
mod maybe_start {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use windlass_core::job::Start;

    use super::StartForm;

    #[derive(Serialize, Deserialize)]
    struct Known(#[serde(with = "StartForm")] Start);

    pub(super) fn serialize<S: Serializer>(start: &Option<Start>, to: S) -> Result<S::Ok, S::Error> {
        start.map(Known).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Start>, D::Error> {
        Ok(Option::<Known>::deserialize(from)?.map(|known| known.0))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "WorkerBeat")]
struct BeatForm {
    name: WorkerName,
    queues: Vec<QueueName>,
    kinds: Option<Vec<Kind>>,
    slots: u32,
    running: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}
