//! Rows of `windlass.jobs_1` as jobs, and jobs as rows for `windlass.save_1`.

use serde::{Deserialize, Serialize};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;
use windlass_core::id::{BudgetName, JobId, StepName, WorkerName};
use windlass_core::job::{Entry, Job, JobSpec};
use windlass_core::json::Json;
use windlass_core::policy::ladder::RetryRule;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::state::{FailureReason, Lease, State, StateName};
use windlass_core::step::Step;
use windlass_core::time::Time;

use crate::error::Fault;

/// A stored job with its queue's policy, as text when the queue has one.
pub(crate) struct Stored {
    pub(crate) job: Job,
    pub(crate) policy: Option<String>,
}

impl Stored {
    pub(crate) fn policy(&self) -> Result<QueuePolicy, Fault> {
        read_policy(self.policy.as_deref())
    }
}

pub(crate) fn read_policy(text: Option<&str>) -> Result<QueuePolicy, Fault> {
    match text {
        None => Ok(QueuePolicy::default()),
        Some(text) => serde_json::from_str(text).map_err(|why| Fault::unreadable("a queue's policy", why)),
    }
}

/// Takes the columns of a row one after the other.
struct Columns<'r> {
    row: &'r Row,
    at: usize,
}

impl<'r> Columns<'r> {
    fn take<T: FromSql<'r>>(&mut self) -> Result<T, Fault> {
        let value = self.row.try_get(self.at)?;
        self.at += 1;
        Ok(value)
    }

    /// A name; the same as `like` where that is what it says.
    fn name<T: Name>(&mut self, like: Option<&T>) -> Result<T, Fault> {
        parse(self.take()?, like)
    }

    fn name_opt<T: Name>(&mut self, like: Option<&T>) -> Result<Option<T>, Fault> {
        self.take::<Option<&str>>()?.map(|text| parse(text, like)).transpose()
    }

    fn json(&mut self) -> Result<Option<Json>, Fault> {
        Ok(self.take::<Option<&str>>()?.map(Json::trusted))
    }

    fn time(&mut self) -> Result<Time, Fault> {
        Ok(Time::from_ms(self.take()?))
    }

    fn time_opt(&mut self) -> Result<Option<Time>, Fault> {
        Ok(self.take::<Option<i64>>()?.map(Time::from_ms))
    }
}

trait Name: std::str::FromStr<Err = windlass_core::error::Invalid> + AsRef<str> + Clone {}
impl<T: std::str::FromStr<Err = windlass_core::error::Invalid> + AsRef<str> + Clone> Name for T {}

fn parse<T: Name>(text: &str, like: Option<&T>) -> Result<T, Fault> {
    match like {
        Some(like) if like.as_ref() == text => Ok(like.clone()),
        _ => text.parse().map_err(|why| Fault::unreadable("a name", why)),
    }
}

/// Reads the columns of `windlass.jobs_1`, beginning with the `from`-th. Names that it has in common with
/// `like`, the job before it, are shared with that.
pub(crate) fn read_job(row: &Row, from: usize, like: Option<&Job>) -> Result<Stored, Fault> {
    let columns = &mut Columns { row, at: from };
    let seq = columns.take::<i64>()? as u64;
    let id = JobId(columns.take()?);
    let spec = read_spec(columns, like.map(|like| &like.spec))?;
    let rank = columns.take()?;
    let created_at = columns.time()?;
    let run_at = columns.time()?;
    let state: i16 = columns.take()?;
    let attempt = columns.take::<i32>()? as u32;
    let crashes = columns.take::<i32>()? as u32;
    let fence = columns.take::<i64>()? as u64;
    let retries = columns.take::<i32>()? as u32;
    let started_at = columns.time_opt()?;
    let worker = columns.name_opt(like.and_then(|like| like.worker.as_ref()))?;
    let state = read_state(state, fence, started_at, worker.as_ref(), columns)?;
    let progress = columns.json()?;
    let history = read_history(columns.take()?)?;
    let policy: Option<String> = columns.take()?;
    let steps = read_steps(columns.take()?)?;
    let job = Job {
        id,
        seq,
        spec,
        rank,
        created_at,
        run_at,
        state,
        attempt,
        crashes,
        fence,
        retries,
        started_at,
        worker,
        progress,
        steps,
        history,
    };
    Ok(Stored { job, policy })
}

fn read_spec(columns: &mut Columns<'_>, like: Option<&JobSpec>) -> Result<JobSpec, Fault> {
    let kind = columns.name(like.map(|like| &like.kind))?;
    let queue = columns.name(like.map(|like| &like.queue))?;
    let payload = Json::trusted(columns.take::<&str>()?);
    let priority = columns.take()?;
    let key = columns.name_opt(None)?;
    let dedupe_key = columns.name_opt(None)?;
    let budgets: Option<Vec<&str>> = columns.take()?;
    let budgets: Result<Vec<BudgetName>, _> =
        budgets.unwrap_or_default().iter().map(BudgetName::new).collect();
    let retry: Option<&str> = columns.take()?;
    let retry: Option<RetryRule> =
        retry.map(serde_json::from_str).transpose().map_err(|why| Fault::unreadable("a retry rule", why))?;
    let timeout_ms = columns.take::<Option<i64>>()?.map(|ms| ms as u64);
    let meta = columns.json()?;
    let budgets = budgets.map_err(|why| Fault::unreadable("a budget", why))?;
    Ok(JobSpec { kind, queue, payload, priority, key, dedupe_key, budgets, retry, timeout_ms, meta })
}

fn read_state(
    code: i16,
    fence: u64,
    started_at: Option<Time>,
    worker: Option<&WorkerName>,
    columns: &mut Columns<'_>,
) -> Result<State, Fault> {
    let lease_ms: Option<i64> = columns.take()?;
    let expires_at = columns.time_opt()?;
    let cancel_requested: bool = columns.take()?;
    let marked_at = columns.time_opt()?;
    let ended_at = columns.time_opt()?;
    let failure: Option<i16> = columns.take()?;
    let result = columns.json()?;
    let state = match (StateName::from_code(code), ended_at) {
        (Some(StateName::Queued), None) => Some(State::Queued),
        (Some(StateName::Completed), Some(ended_at)) => Some(State::Completed { ended_at, result }),
        (Some(StateName::Canceled), Some(ended_at)) => Some(State::Canceled { ended_at }),
        (Some(StateName::Failed), Some(ended_at)) => {
            failure.and_then(FailureReason::from_code).map(|reason| State::Failed { ended_at, reason })
        }
        (Some(StateName::Running), None) => match (worker, started_at, lease_ms, expires_at) {
            (Some(worker), Some(started_at), Some(lease_ms), Some(expires_at)) => {
                Some(State::Running(Lease {
                    worker: worker.clone(),
                    fence,
                    started_at,
                    lease_ms: lease_ms as u32,
                    expires_at,
                    cancel_requested,
                    marked_at,
                }))
            }
            _ => None,
        },
        _ => None,
    };
    state.ok_or_else(|| Fault::unreadable("a job's state", format!("it is {code} and contradicts itself")))
}

fn read_history(text: Option<&str>) -> Result<Vec<Entry>, Fault> {
    match text {
        None => Ok(Vec::new()),
        Some(text) => serde_json::from_str(text).map_err(|why| Fault::unreadable("a job's history", why)),
    }
}

#[derive(Deserialize)]
struct StepRow(StepName, String, u32, i64);

fn read_steps(text: Option<&str>) -> Result<Vec<Step>, Fault> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let rows: Vec<StepRow> =
        serde_json::from_str(text).map_err(|why| Fault::unreadable("a job's steps", why))?;
    let step = |StepRow(name, output, attempt, stored_ms)| Step {
        name,
        output: Json::trusted(output),
        attempt,
        stored_at: Time::from_ms(stored_ms),
    };
    Ok(rows.into_iter().map(step).collect())
}

/// What of a job can change, for `windlass.save_1`.
#[derive(Serialize)]
pub(crate) struct SavedRow {
    seq: u64,
    run_at_ms: i64,
    state: i16,
    attempt: u32,
    crashes: u32,
    fence: u64,
    retries: u32,
    started_ms: Option<i64>,
    worker: Option<String>,
    lease_ms: Option<u32>,
    expires_ms: Option<i64>,
    cancel_requested: bool,
    marked_ms: Option<i64>,
    ended_ms: Option<i64>,
    failure: Option<i16>,
    result: Option<String>,
    progress: Option<String>,
    history: Option<String>,
    doomed: bool,
}

impl SavedRow {
    /// The row of a job; `doomed` when its queue does not keep it.
    pub(crate) fn of(job: &Job, doomed: bool) -> Result<Self, Fault> {
        let Job {
            id: _,
            seq,
            spec: _,
            rank: _,
            created_at: _,
            run_at,
            state,
            attempt,
            crashes,
            fence,
            retries,
            started_at,
            worker,
            progress,
            steps: _,
            history,
        } = job;
        let lease = job.lease();
        let (failure, result) = match state {
            State::Failed { ended_at: _, reason } => (Some(reason.code()), None),
            State::Completed { ended_at: _, result } => (None, result.as_ref()),
            State::Queued | State::Running(_) | State::Canceled { .. } => (None, None),
        };
        let history = match history.as_slice() {
            [] => None,
            entries => Some(
                serde_json::to_string(entries).map_err(|why| Fault::unreadable("a job's history", why))?,
            ),
        };
        Ok(Self {
            seq: *seq,
            run_at_ms: run_at.ms(),
            state: state.name().code(),
            attempt: *attempt,
            crashes: *crashes,
            fence: *fence,
            retries: *retries,
            started_ms: started_at.map(Time::ms),
            worker: worker.as_ref().map(ToString::to_string),
            lease_ms: lease.map(|lease| lease.lease_ms),
            expires_ms: lease.map(|lease| lease.expires_at.ms()),
            cancel_requested: lease.is_some_and(|lease| lease.cancel_requested),
            marked_ms: lease.and_then(|lease| lease.marked_at).map(Time::ms),
            ended_ms: state.ended_at().map(Time::ms),
            failure,
            result: result.map(|json| json.as_str().to_owned()),
            progress: progress.as_ref().map(|json| json.as_str().to_owned()),
            history,
            doomed,
        })
    }
}
