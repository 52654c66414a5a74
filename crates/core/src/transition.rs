//! Every move that a job can make, and no other way to make one.
//!
//! Each function looks at the job, at what happens and at the time, and either
//! moves the job and says what happened, or refuses and changes nothing.
//! Whether a job may be claimed *now* (key, limit, budgets) is not decided
//! here but in [`crate::eligible`].

use crate::epoch::next_fence;
use crate::event::What;
use crate::id::{StepName, WorkerName};
use crate::job::{Entry, Job, NewJob, Start, bounded_error};
use crate::json::Json;
use crate::lease::Look;
use crate::policy::queue::{OnCrash, QueuePolicy};
use crate::state::{FailureReason, Lease, State};
use crate::step::{STEPS_MAX, Step};
use crate::time::Time;

/// How an attempt ended, as its worker says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Completed {
        /// What it gave.
        result: Option<Json>,
    },
    /// Failed; try again by the ladder, or when the handler says.
    Retry {
        /// What went wrong.
        error: String,
        /// When to try again, instead of the ladder's delay.
        when: Option<Start>,
    },
    /// Failed for good.
    Failed {
        /// What went wrong.
        error: String,
    },
    /// To be gone on with later; costs no attempt.
    Parked {
        /// When.
        until: Start,
    },
    /// Given back unfinished (shutdown); costs no attempt.
    Released,
    /// Stopped because somebody asked for it.
    Canceled,
}

impl Outcome {
    /// A completion without a result.
    pub const DONE: Outcome = Outcome::Completed { result: None };

    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Retry { .. } => "retry",
            Self::Failed { .. } => "failed",
            Self::Parked { .. } => "parked",
            Self::Released => "released",
            Self::Canceled => "canceled",
        }
    }
}

/// What a move did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// What happened, for the events.
    pub what: What,
    /// The queue keeps no finished jobs: take it out of the store.
    pub delete: bool,
}

/// A write that named a stale fence, or came after the job had been taken back. It changed nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("lease lost: the job is no longer held with this fence")]
pub struct Lost;

/// A new job, accepted at `now` as the `seq`-th.
pub fn accept(new: NewJob, seq: u64, policy: &QueuePolicy, now: Time) -> Job {
    let NewJob { id, spec, start } = new;
    Job {
        id,
        seq,
        rank: crate::eligible::rank(spec.priority, policy.ageing_ms, now),
        created_at: now,
        run_at: start.moment(now),
        state: State::Queued,
        attempt: 0,
        crashes: 0,
        fence: 0,
        retries: 0,
        started_at: None,
        worker: None,
        progress: None,
        steps: Vec::new(),
        history: Vec::new(),
        spec,
    }
}

/// Gives the lease of a queued job to `worker`. The caller has made sure that it may run. `floor` is that of the
/// store's epoch.
pub fn claim(job: &mut Job, worker: &WorkerName, lease_ms: u32, floor: u64, now: Time) -> Moved {
    debug_assert_eq!(job.state, State::Queued);
    job.fence = next_fence(job.fence, floor);
    job.attempt += 1;
    job.started_at = Some(now);
    job.worker = Some(worker.clone());
    job.state = State::Running(Lease {
        worker: worker.clone(),
        fence: job.fence,
        started_at: now,
        lease_ms,
        expires_at: now.plus_ms(i64::from(lease_ms)),
        cancel_requested: false,
        marked_at: None,
    });
    Moved { what: What::Claimed, delete: false }
}

/// Moves the expiry of a lease, also of one that has run out and was not taken back. Answers whether the job
/// is asked to cancel.
pub fn renew(job: &mut Job, fence: u64, now: Time) -> Result<bool, Lost> {
    let lease = held(job, fence)?;
    lease.renew(now);
    Ok(lease.cancel_requested)
}

/// What became of a step that was to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepStored {
    /// It is stored.
    Stored,
    /// A step of that name was stored before; that one stays.
    Kept,
    /// The job has as many steps as a job may have.
    TooMany,
}

/// Stores the output of a step. The first output of a name stays for ever.
pub fn store_step(
    job: &mut Job,
    fence: u64,
    name: &StepName,
    output: &Json,
    now: Time,
) -> Result<StepStored, Lost> {
    held(job, fence)?;
    if job.steps.iter().any(|step| step.name == *name) {
        return Ok(StepStored::Kept);
    }
    if job.steps.len() >= STEPS_MAX {
        return Ok(StepStored::TooMany);
    }
    job.crashes = 0;
    job.steps.push(Step { name: name.clone(), output: output.clone(), attempt: job.attempt, stored_at: now });
    Ok(StepStored::Stored)
}

/// Notes how far the handler is.
pub fn progress(job: &mut Job, fence: u64, progress: &Json) -> Result<(), Lost> {
    held(job, fence)?;
    job.progress = Some(progress.clone());
    Ok(())
}

/// Ends an attempt. A repeat of a settlement that was taken changes nothing
/// and answers `None`.
pub fn settle(
    job: &mut Job,
    policy: &QueuePolicy,
    fence: u64,
    outcome: &Outcome,
    now: Time,
) -> Result<Option<Moved>, Lost> {
    let Ok(lease) = held(job, fence) else {
        return if already_settled(job, fence, outcome) { Ok(None) } else { Err(Lost) };
    };
    let canceled = lease.cancel_requested;
    let worker = lease.worker.clone();
    let what = match outcome {
        Outcome::Completed { result } => {
            job.state = State::Completed { ended_at: now, result: result.clone() };
            return Ok(Some(ended(policy, What::Completed)));
        }
        _ if canceled => end_canceled(job, now),
        Outcome::Canceled => end_canceled(job, now),
        Outcome::Failed { .. } => end_failed(job, FailureReason::Permanent, now),
        Outcome::Retry { when, .. } => {
            let rule = policy.retry_rule(&job.spec);
            match rule.delay_ms(job.attempt) {
                None => end_failed(job, FailureReason::Exhausted, now),
                Some(delay_ms) => {
                    requeue(job, when.unwrap_or(Start::AfterMs(delay_ms)).moment(now), What::Retrying)
                }
            }
        }
        Outcome::Parked { until } => requeue(job, until.moment(now), What::Parked),
        Outcome::Released => requeue(job, now, What::Released),
    };
    let attempt = job.attempt;
    if matches!(what, What::Parked | What::Released) {
        job.attempt -= 1;
    }
    let error = match outcome {
        Outcome::Retry { error, .. } | Outcome::Failed { error } => Some(bounded_error(error)),
        _ => None,
    };
    let started_at = job.started_at;
    job.record(Entry { at: now, what, attempt, fence, worker: Some(worker), started_at, error });
    Ok(Some(ended(policy, what)))
}

/// What a look at a lease did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiry {
    /// It is marked: the next look may take it back.
    Marked,
    /// It is taken back.
    Taken(Moved),
}

/// Looks at a lease: marks it when it is near its end, and takes it back when it has run out and nobody has
/// renewed it since a look before ([`crate::lease::Lease::look`]). Refuses (with `None`) when neither is due.
pub fn expire(job: &mut Job, policy: &QueuePolicy, now: Time) -> Option<Expiry> {
    let State::Running(lease) = &mut job.state else { return None };
    match lease.look(now) {
        Look::Early => return None,
        Look::Mark => {
            lease.marked_at = Some(now);
            return Some(Expiry::Marked);
        }
        Look::Take => {}
    }
    let (canceled, worker) = (lease.cancel_requested, lease.worker.clone());
    let entry = Entry {
        at: now,
        what: What::Crashed,
        attempt: job.attempt,
        fence: job.fence,
        worker: Some(worker),
        started_at: job.started_at,
        error: Some(LEASE_RAN_OUT.to_owned()),
    };
    job.record(entry);
    job.crashes += 1;
    let what = if canceled {
        end_canceled(job, now)
    } else if policy.on_crash == OnCrash::Fail {
        end_failed(job, FailureReason::Crashed, now)
    } else if job.crashes >= policy.crashes_max {
        end_failed(job, FailureReason::Quarantined, now)
    } else if job.attempt >= policy.retry_rule(&job.spec).attempts_max() {
        end_failed(job, FailureReason::Exhausted, now)
    } else {
        requeue(job, now, What::Crashed)
    };
    Some(Expiry::Taken(ended(policy, what)))
}

/// The error text of an attempt whose lease ran out.
pub const LEASE_RAN_OUT: &str = "the lease ran out: the worker crashed, was cut off or stood still";

/// What became of a wish to cancel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    /// The job was queued; it is canceled and will never start.
    Canceled(Moved),
    /// The job is running; its worker will be told.
    Requested(Moved),
    /// Its worker has been told before.
    AlreadyRequested,
    /// The job is final; nothing changed.
    Final,
}

/// Asks for a job to be canceled.
pub fn cancel(job: &mut Job, policy: &QueuePolicy, now: Time) -> Cancel {
    match &mut job.state {
        State::Queued => {
            let what = end_canceled(job, now);
            job.record(note(now, what));
            Cancel::Canceled(ended(policy, what))
        }
        State::Running(lease) if lease.cancel_requested => Cancel::AlreadyRequested,
        State::Running(lease) => {
            lease.cancel_requested = true;
            job.record(note(now, What::CancelRequested));
            Cancel::Requested(Moved { what: What::CancelRequested, delete: false })
        }
        State::Completed { .. } | State::Failed { .. } | State::Canceled { .. } => Cancel::Final,
    }
}

/// Starts a new life of a final job: its steps stay, its attempts begin anew.
/// Refuses (with `None`) a job that is not final.
pub fn retry(job: &mut Job, now: Time) -> Option<Moved> {
    if !job.state.name().is_final() {
        return None;
    }
    job.attempt = 0;
    job.crashes = 0;
    job.retries += 1;
    job.progress = None;
    let what = requeue(job, now, What::Retried);
    job.record(note(now, what));
    Some(Moved { what, delete: false })
}

/// Why a job cannot be run again from a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRerun {
    /// It is not over.
    NotFinal,
    /// It has stored no step of that name.
    NoStep,
}

/// Starts a new life of a final job that keeps the steps before `from`, in the order in which they were stored: that one
/// and all behind it are run again.
pub fn rerun(job: &mut Job, from: &StepName, now: Time) -> Result<Moved, NoRerun> {
    let Some(kept) = job.steps.iter().position(|step| step.name == *from) else {
        return Err(if job.state.name().is_final() { NoRerun::NoStep } else { NoRerun::NotFinal });
    };
    let moved = retry(job, now).ok_or(NoRerun::NotFinal)?;
    job.steps.truncate(kept);
    Ok(moved)
}

/// What became of a wish to run a job now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunNow {
    /// It was for later, and is due now.
    Due(Moved),
    /// It was due already; nothing changed.
    AlreadyDue,
    /// It is running; nothing changed.
    Running,
    /// It is over; nothing changed.
    Final,
}

/// Makes a queued job due that waits for its time: delayed, parked, or on its ladder. It keeps its place in the order, and
/// whatever else holds it back (a key, a limit, a pause, a budget) still does.
pub fn run_now(job: &mut Job, now: Time) -> RunNow {
    match &job.state {
        State::Queued if job.run_at <= now => RunNow::AlreadyDue,
        State::Queued => {
            let what = requeue(job, now, What::MadeDue);
            job.record(note(now, what));
            RunNow::Due(Moved { what, delete: false })
        }
        State::Running(_) => RunNow::Running,
        State::Completed { .. } | State::Failed { .. } | State::Canceled { .. } => RunNow::Final,
    }
}

/// Takes a job out of the store that is queued or final. Refuses (with `None`) one that is running: its worker would go on.
pub fn delete(job: &mut Job, now: Time) -> Option<Moved> {
    match &job.state {
        State::Running(_) => return None,
        State::Queued => drop(end_canceled(job, now)),
        State::Completed { .. } | State::Failed { .. } | State::Canceled { .. } => {}
    }
    Some(Moved { what: What::Deleted, delete: true })
}

/// Ends what a program left unfinished, for queues that do not survive a restart.
pub fn end_by_restart(job: &mut Job, policy: &QueuePolicy, now: Time) -> Option<Moved> {
    if job.state.name().is_final() {
        return None;
    }
    let what = end_failed(job, FailureReason::WorkerRestart, now);
    job.record(note(now, what));
    Some(ended(policy, what))
}

fn held(job: &mut Job, fence: u64) -> Result<&mut Lease, Lost> {
    match &mut job.state {
        State::Running(lease) if lease.admits(fence) => Ok(lease),
        _ => Err(Lost),
    }
}

/// Whether `outcome` is what the attempt with this fence was settled with:
/// the answer was lost, and the worker asks again.
pub fn already_settled(job: &Job, fence: u64, outcome: &Outcome) -> bool {
    // 0 is no fence: a job that was never claimed was never settled either.
    if fence == 0 || job.fence != fence || job.lease().is_some() {
        return false;
    }
    let last = job.history.last().filter(|entry| entry.fence == fence);
    let what = last.map(|entry| entry.what);
    match outcome {
        Outcome::Completed { .. } => matches!(job.state, State::Completed { .. }),
        Outcome::Retry { .. } => matches!(what, Some(What::Retrying | What::Failed | What::Canceled)),
        Outcome::Failed { .. } => matches!(what, Some(What::Failed | What::Canceled)),
        Outcome::Parked { .. } => matches!(what, Some(What::Parked | What::Canceled)),
        Outcome::Released => matches!(what, Some(What::Released | What::Canceled)),
        Outcome::Canceled => matches!(what, Some(What::Canceled)),
    }
}

fn requeue(job: &mut Job, run_at: Time, what: What) -> What {
    job.state = State::Queued;
    job.run_at = run_at;
    what
}

fn end_failed(job: &mut Job, reason: FailureReason, now: Time) -> What {
    job.state = State::Failed { ended_at: now, reason };
    What::Failed
}

fn end_canceled(job: &mut Job, now: Time) -> What {
    job.state = State::Canceled { ended_at: now };
    What::Canceled
}

/// A queue may drop its finished jobs at once; failed ones stay for their
/// retention all the same, since somebody has to be able to look at them.
fn ended(policy: &QueuePolicy, what: What) -> Moved {
    let dropped = matches!(what, What::Completed | What::Canceled);
    Moved { what, delete: dropped && policy.delete_finished }
}

fn note(at: Time, what: What) -> Entry {
    Entry { at, what, attempt: 0, fence: 0, worker: None, started_at: None, error: None }
}
