//! The codec of a job's row: reading. Every column is named here once.

use std::str::FromStr;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{CachedStatement, Connection, Row, params};
use serde::de::DeserializeOwned;
use uuid::Uuid;
use windlass_core::error::Invalid;
use windlass_core::id::{BudgetName, JobId, Kind, QueueName, StepName};
use windlass_core::job::{Job, JobSpec};
use windlass_core::json::Json;
use windlass_core::state::{FailureReason, Lease, State, StateName};
use windlass_core::step::Step;
use windlass_core::time::Time;

use crate::fail::{Done, Fail};

/// The statement that selects jobs with where they are in their life, with what follows `FROM jobs` in a file.
macro_rules! select_jobs {
    ($tail:literal) => {
        concat!(
            "SELECT ",
            include_str!("../../sql/jobs/columns.sql"),
            ", ",
            include_str!("../../sql/jobs/course_columns.sql"),
            " FROM jobs ",
            include_str!("../../sql/jobs/course_joins.sql"),
            include_str!($tail)
        )
    };
}
pub(crate) use select_jobs;

/// The statement that selects queued jobs, with what follows their columns in a file.
macro_rules! select_queued {
    ($tail:literal) => {
        concat!("SELECT ", include_str!("../../sql/jobs/columns.sql"), include_str!($tail))
    };
}
pub(crate) use select_queued;

/// The columns that a filter looks at before a row is read as a job.
pub mod at {
    pub const ID: usize = 1;
    pub const CREATED_MS: usize = 5;
    pub const KIND: usize = 12;
    pub const QUEUE: usize = 13;
    pub const KEY: usize = 14;
    pub const PAYLOAD: usize = 21;
    /// The first column after those of the job itself.
    pub const AFTER: usize = 22;
    /// The fence of a lease; nothing when the job is not running.
    pub const LEASE: usize = AFTER;
    /// The state of a job with a past.
    pub const PAST: usize = LEASE + 8;
}

/// A job, without its steps, and where it stands.
#[derive(Debug)]
pub struct Stored {
    /// The job; its steps are not loaded.
    pub job: Job,
    /// Its gate.
    pub gate: i64,
    /// The slot of its key.
    pub slot: Option<i64>,
    /// It is ready, and its key was passed on to it.
    pub heir: bool,
    /// How many steps it has stored.
    pub steps_count: u32,
}

/// The names of the row that was read before: rows that follow each other often have the same.
#[derive(Debug, Default)]
pub struct Names {
    kind: Option<Kind>,
    queue: Option<QueueName>,
    /// As they are written, and as they are read.
    budgets: Option<(String, Vec<BudgetName>)>,
}

impl Names {
    fn budgets(&mut self, text: Option<&str>) -> Done<Vec<BudgetName>> {
        let Some(text) = text else { return Ok(Vec::new()) };
        if let Some((_, budgets)) = self.budgets.as_ref().filter(|(before, _)| before == text) {
            return Ok(budgets.clone());
        }
        let budgets: Vec<BudgetName> = parse(text)?;
        self.budgets = Some((text.to_owned(), budgets.clone()));
        Ok(budgets)
    }
}

impl Stored {
    /// Reads a row of `select_jobs`.
    pub fn read(row: &Row<'_>) -> Done<Self> {
        let mut stored = Self::read_queued(row, &mut Names::default())?;
        read_course(row, &mut stored.job)?;
        Ok(stored)
    }

    /// Reads a row of many queued jobs as one that was never claimed. Shares the names that it has in
    /// common with the row before.
    pub fn read_queued(row: &Row<'_>, names: &mut Names) -> Done<Self> {
        let seq = number(row, 0)?;
        let spec = JobSpec {
            kind: shared(&mut names.kind, text(row, at::KIND)?)?,
            queue: shared(&mut names.queue, text(row, at::QUEUE)?)?,
            payload: json(row, at::PAYLOAD)?
                .ok_or_else(|| Fail::damaged(format!("job {seq} without a payload")))?,
            priority: row.get(6)?,
            key: opt_name(row, at::KEY)?,
            dedupe_key: opt_name(row, 15)?,
            budgets: names.budgets(opt_text(row, 16)?)?,
            retry: parsed(row, 17)?,
            timeout_ms: row.get::<_, Option<i64>>(7)?.map(i64::cast_unsigned),
            meta: json(row, 18)?,
        };
        let job = Job {
            id: job_id(row, at::ID)?,
            seq,
            spec,
            rank: row.get(3)?,
            created_at: Time::from_ms(row.get(at::CREATED_MS)?),
            run_at: Time::from_ms(row.get(4)?),
            state: State::Queued,
            attempt: 0,
            crashes: row.get(9)?,
            fence: 0,
            retries: row.get(10)?,
            started_at: None,
            worker: None,
            progress: json(row, 19)?,
            steps: Vec::new(),
            history: parsed(row, 20)?.unwrap_or_default(),
        };
        Ok(Self { job, gate: row.get(2)?, slot: row.get(11)?, heir: false, steps_count: row.get(8)? })
    }

    /// Reads the first row that a statement gives.
    pub fn first(select: &mut CachedStatement<'_>, params: impl rusqlite::Params) -> Done<Option<Self>> {
        let mut rows = select.query(params)?;
        rows.next()?.map(Self::read).transpose()
    }

    /// The job with its steps.
    pub fn with_steps(self, conn: &Connection) -> Done<Job> {
        let Self { mut job, gate: _, slot: _, heir: _, steps_count } = self;
        if steps_count > 0 {
            job.steps = load_steps(conn, job.seq)?;
        }
        Ok(job)
    }
}

/// The job with this id.
pub fn by_id(conn: &Connection, id: JobId) -> Done<Option<Stored>> {
    let mut select = conn.prepare_cached(select_jobs!("../../sql/jobs/by_id.sql"))?;
    Stored::first(&mut select, params![id.0.as_bytes()])
}

/// The job at this place in the order of acceptance.
pub fn by_seq(conn: &Connection, seq: u64) -> Done<Option<Stored>> {
    let mut select = conn.prepare_cached(select_jobs!("../../sql/jobs/by_seq.sql"))?;
    Stored::first(&mut select, params![crate::rows::head::signed(seq)?])
}

/// The steps of a job, in the order in which they were stored.
pub fn load_steps(conn: &Connection, seq: u64) -> Done<Vec<Step>> {
    let mut select = conn.prepare_cached(sql!("step", "load"))?;
    let mut rows = select.query(params![crate::rows::head::signed(seq)?])?;
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

/// Where a job is in its life: it is running, or has something behind it, or was never claimed.
fn read_course(row: &Row<'_>, job: &mut Job) -> Done<()> {
    let seq = job.seq;
    let lacks = |what: &str| Fail::damaged(format!("job {seq} without {what}"));
    let Some(state) = state(row)? else { return Err(lacks("a known state")) };
    let from = if state == StateName::Running { at::LEASE } else { at::PAST + 1 };
    if state == StateName::Queued && row.get::<_, Option<i64>>(from)?.is_none() {
        return Ok(());
    }
    job.fence = number(row, from)?;
    job.attempt = row.get(from + 1)?;
    job.started_at = opt_time(row, from + 2)?;
    let ended_at = || opt_time(row, at::PAST + 4)?.ok_or_else(|| lacks("its end"));
    job.worker = opt_name(row, if state == StateName::Running { at::LEASE + 6 } else { at::PAST + 6 })?;
    job.state = match state {
        StateName::Queued => State::Queued,
        StateName::Running => State::Running(Lease {
            worker: job.worker.clone().ok_or_else(|| lacks("its worker"))?,
            fence: job.fence,
            started_at: job.started_at.ok_or_else(|| lacks("its start"))?,
            lease_ms: row.get(at::LEASE + 3)?,
            expires_at: opt_time(row, at::LEASE + 4)?.ok_or_else(|| lacks("its expiry"))?,
            cancel_requested: row.get(at::LEASE + 5)?,
            marked_at: opt_time(row, at::LEASE + 7)?,
        }),
        StateName::Completed => State::Completed { ended_at: ended_at()?, result: json(row, at::PAST + 7)? },
        StateName::Failed => State::Failed {
            ended_at: ended_at()?,
            reason: FailureReason::from_code(row.get(at::PAST + 5)?)
                .ok_or_else(|| lacks("a known reason"))?,
        },
        StateName::Canceled => State::Canceled { ended_at: ended_at()? },
    };
    Ok(())
}

/// The state of a row of `select_jobs`.
pub fn state(row: &Row<'_>) -> Done<Option<StateName>> {
    if row.get::<_, Option<i64>>(at::LEASE)?.is_some() {
        return Ok(Some(StateName::Running));
    }
    Ok(match row.get(at::PAST)? {
        Some(code) => StateName::from_code(code),
        None => Some(StateName::Queued),
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

/// A name of a row that may be missing.
pub fn opt_name<T: FromStr<Err = Invalid>>(row: &Row<'_>, at: usize) -> Done<Option<T>> {
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
