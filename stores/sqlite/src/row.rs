//! The codec of a job's row: reading. Every column is named here once.

use std::str::FromStr;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, Row, params};
use serde::de::DeserializeOwned;
use uuid::Uuid;
use windlass_core::error::Invalid;
use windlass_core::id::{JobId, Kind, QueueName, StepName, WorkerName};
use windlass_core::job::{Job, JobSpec};
use windlass_core::json::Json;
use windlass_core::state::{FailureReason, Lease, State, StateName};
use windlass_core::step::Step;
use windlass_core::time::Time;

use crate::fail::{Done, Fail};

/// The statement that selects whole jobs, with what follows `FROM jobs` in a file.
macro_rules! select_jobs {
    ($tail:literal) => {
        concat!("SELECT ", include_str!("../sql/job_columns.sql"), " FROM jobs ", include_str!($tail))
    };
}
pub(crate) use select_jobs;

/// A job, without its steps, and where it stands.
#[derive(Debug)]
pub struct Stored {
    /// The job; its steps are not loaded.
    pub job: Job,
    /// Its lane, when it is queued.
    pub lane: Option<Lane>,
    /// Its gate.
    pub gate: i64,
    /// How many steps it has stored.
    pub steps_count: u32,
}

/// Where a queued job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// It may be claimed, if its gate is open.
    Ready = 1,
    /// Its time has not come.
    Delayed = 2,
    /// Its time has come; another job of its key goes first.
    Waiting = 3,
}

/// The names of the row that was read before: rows that follow each other often have the same.
#[derive(Debug, Default)]
pub struct Names {
    kind: Option<Kind>,
    queue: Option<QueueName>,
    worker: Option<WorkerName>,
}

impl Stored {
    /// Reads a row of `job_columns.sql`.
    pub fn read(row: &Row<'_>) -> Done<Self> {
        Self::read_next(row, &mut Names::default())
    }

    /// Reads a row of many, and shares the names that it has in common with the one before.
    pub fn read_next(row: &Row<'_>, names: &mut Names) -> Done<Self> {
        let seq = number(row, 0)?;
        let fence = number(row, 7)?;
        let started_at = opt_time(row, 18)?;
        let worker = opt_text(row, 25)?.map(|name| shared(&mut names.worker, name)).transpose()?;
        let spec = JobSpec {
            kind: shared(&mut names.kind, text(row, 21)?)?,
            queue: shared(&mut names.queue, text(row, 22)?)?,
            payload: json(row, 28)?.ok_or_else(|| Fail::damaged(format!("job {seq} without a payload")))?,
            priority: row.get(19)?,
            key: opt_name(row, 23)?,
            dedupe_key: opt_name(row, 24)?,
            budgets: parsed(row, 26)?.unwrap_or_default(),
            retry: parsed(row, 27)?,
            timeout_ms: row.get::<_, Option<i64>>(20)?.map(i64::cast_unsigned),
            meta: json(row, 29)?,
        };
        let state = read_state(row, seq, fence, started_at, worker.as_ref())?;
        let job = Job {
            id: job_id(row, 1)?,
            seq,
            spec,
            rank: row.get(5)?,
            created_at: Time::from_ms(row.get(17)?),
            run_at: Time::from_ms(row.get(6)?),
            state,
            attempt: row.get(8)?,
            crashes: row.get(14)?,
            fence,
            retries: row.get(15)?,
            started_at,
            worker,
            progress: json(row, 30)?,
            steps: Vec::new(),
            history: parsed(row, 32)?.unwrap_or_default(),
        };
        Ok(Self { job, lane: read_lane(row, seq)?, gate: row.get(4)?, steps_count: row.get(16)? })
    }

    /// Reads the first row that a statement gives.
    pub fn first(select: &mut CachedStatement<'_>, params: impl rusqlite::Params) -> Done<Option<Self>> {
        let mut rows = select.query(params)?;
        rows.next()?.map(Self::read).transpose()
    }

    /// The job with its steps.
    pub fn with_steps(self, conn: &Connection) -> Done<Job> {
        let Self { mut job, lane: _, gate: _, steps_count } = self;
        if steps_count > 0 {
            job.steps = load_steps(conn, job.seq)?;
        }
        Ok(job)
    }
}

/// The job with this id.
pub fn by_id(conn: &Connection, id: JobId) -> Done<Option<Stored>> {
    let mut select = conn.prepare_cached(select_jobs!("../sql/job_by_id.sql"))?;
    Stored::first(&mut select, params![id.0.as_bytes()])
}

/// The job at this place in the order of acceptance.
pub fn by_seq(conn: &Connection, seq: u64) -> Done<Option<Stored>> {
    let mut select = conn.prepare_cached(select_jobs!("../sql/job_by_seq.sql"))?;
    Stored::first(&mut select, params![crate::head::signed(seq)?])
}

fn load_steps(conn: &Connection, seq: u64) -> Done<Vec<Step>> {
    let mut select = conn.prepare_cached(include_str!("../sql/steps_load.sql"))?;
    let mut rows = select.query(params![crate::head::signed(seq)?])?;
    let mut steps = Vec::new();
    while let Some(row) = rows.next()? {
        steps.push(Step {
            name: StepName::new(text(row, 0)?)?,
            output: Json::trusted(text(row, 1)?),
            attempt: row.get(2)?,
            stored_at: Time::from_ms(row.get(3)?),
        });
    }
    Ok(steps)
}

fn read_lane(row: &Row<'_>, seq: u64) -> Done<Option<Lane>> {
    Ok(match row.get::<_, Option<i64>>(3)? {
        None => None,
        Some(1) => Some(Lane::Ready),
        Some(2) => Some(Lane::Delayed),
        Some(3) => Some(Lane::Waiting),
        Some(lane) => return Err(Fail::damaged(format!("job {seq} in lane {lane}"))),
    })
}

fn read_state(
    row: &Row<'_>,
    seq: u64,
    fence: u64,
    started_at: Option<Time>,
    worker: Option<&WorkerName>,
) -> Done<State> {
    let lacks = |what: &str| Fail::damaged(format!("job {seq} without {what}"));
    let ended_at = || opt_time(row, 12)?.ok_or_else(|| lacks("its end"));
    let code: i16 = row.get(2)?;
    let name = StateName::from_code(code).ok_or_else(|| lacks("a known state"))?;
    Ok(match name {
        StateName::Queued => State::Queued,
        StateName::Running => State::Running(Lease {
            worker: worker.cloned().ok_or_else(|| lacks("its worker"))?,
            fence,
            started_at: started_at.ok_or_else(|| lacks("its start"))?,
            lease_ms: row.get(9)?,
            expires_at: opt_time(row, 10)?.ok_or_else(|| lacks("its expiry"))?,
            cancel_requested: row.get(11)?,
        }),
        StateName::Completed => State::Completed { ended_at: ended_at()?, result: json(row, 31)? },
        StateName::Failed => State::Failed {
            ended_at: ended_at()?,
            reason: FailureReason::from_code(row.get(13)?).ok_or_else(|| lacks("a known reason"))?,
        },
        StateName::Canceled => State::Canceled { ended_at: ended_at()? },
    })
}

/// The id of a job.
pub fn job_id(row: &Row<'_>, at: usize) -> Done<JobId> {
    Ok(JobId(Uuid::from_bytes(row.get(at)?)))
}

fn number(row: &Row<'_>, at: usize) -> Done<u64> {
    Ok(row.get::<_, i64>(at)?.unsigned_abs())
}

fn opt_time(row: &Row<'_>, at: usize) -> Done<Option<Time>> {
    Ok(row.get::<_, Option<i64>>(at)?.map(Time::from_ms))
}

/// A text of a row, without a copy.
pub fn text<'r>(row: &'r Row<'_>, at: usize) -> Done<&'r str> {
    opt_text(row, at)?.ok_or_else(|| Fail::damaged("an empty column that must not be"))
}

/// A text of a row that may be missing, without a copy.
pub fn opt_text<'r>(row: &'r Row<'_>, at: usize) -> Done<Option<&'r str>> {
    match row.get_ref(at)? {
        ValueRef::Null => Ok(None),
        ValueRef::Text(bytes) => {
            std::str::from_utf8(bytes).map(Some).map_err(|_| Fail::damaged("text that is not UTF-8"))
        }
        _ => Err(Fail::damaged("a column of a wrong type")),
    }
}

/// The name that was read before, when it is the same.
fn shared<T: FromStr<Err = Invalid> + AsRef<str> + Clone>(before: &mut Option<T>, name: &str) -> Done<T> {
    if let Some(before) = before.as_ref().filter(|before| before.as_ref() == name) {
        return Ok(before.clone());
    }
    Ok(before.insert(name.parse()?).clone())
}

fn opt_name<T: FromStr<Err = Invalid>>(row: &Row<'_>, at: usize) -> Done<Option<T>> {
    Ok(opt_text(row, at)?.map(str::parse).transpose()?)
}

fn json(row: &Row<'_>, at: usize) -> Done<Option<Json>> {
    Ok(opt_text(row, at)?.map(|text| Json::trusted(Arc::<str>::from(text))))
}

fn parsed<T: DeserializeOwned>(row: &Row<'_>, at: usize) -> Done<Option<T>> {
    opt_text(row, at)?.map(parse).transpose()
}

/// Reads JSON that we wrote.
pub fn parse<T: DeserializeOwned>(text: &str) -> Done<T> {
    serde_json::from_str(text).map_err(|error| {
        Fail::damaged(format!(
            "JSON of ours that cannot be read (line {}, column {})",
            error.line(),
            error.column()
        ))
    })
}
