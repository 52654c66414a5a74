//! The codec of a job's row: writing. Structs are taken apart whole, so that a
//! new field demands a decision here.

use rusqlite::{CachedStatement, params};
use serde::Serialize;
use windlass_core::job::{Job, JobSpec};
use windlass_core::json::Json;
use windlass_core::state::{Lease, State};

use crate::fail::{Done, Fail};
use crate::head::signed;
use crate::row::Lane;
use crate::tx::Tx;

/// Inserts a new job; answers whether it could be: its id and its dedupe key were free.
pub fn insert(statement: &mut CachedStatement<'_>, job: &Job, lane: Lane, gate: i64) -> Done<bool> {
    let Job {
        id,
        seq,
        spec,
        rank,
        created_at,
        run_at,
        // What follows is empty in a new job, and the columns' defaults say so.
        state: _,
        attempt: _,
        crashes: _,
        fence: _,
        retries: _,
        started_at: _,
        worker: _,
        progress: _,
        steps: _,
        history: _,
    } = job;
    let JobSpec { kind, queue, payload, priority, key, dedupe_key, budgets, retry, timeout_ms, meta } = spec;
    let budgets = if budgets.is_empty() { None } else { Some(to_text(budgets)?) };
    let retry = retry.as_ref().map(to_text).transpose()?;
    let inserted = statement.execute(params![
        signed(*seq)?,
        id.0.as_bytes(),
        lane as i64,
        gate,
        rank,
        run_at.ms(),
        created_at.ms(),
        priority,
        timeout_ms.map(u64::cast_signed),
        kind.as_str(),
        queue.as_str(),
        key.as_ref().map(AsRef::<str>::as_ref),
        dedupe_key.as_ref().map(AsRef::<str>::as_ref),
        budgets,
        retry,
        payload.as_str(),
        meta.as_ref().map(Json::as_str),
    ])?;
    Ok(inserted == 1)
}

/// What a state means for the columns of a row.
#[derive(Default)]
struct StateColumns<'a> {
    lease_ms: Option<u32>,
    expires_ms: Option<i64>,
    cancel_requested: bool,
    ended_ms: Option<i64>,
    reason: Option<i16>,
    result: Option<&'a str>,
}

impl<'a> StateColumns<'a> {
    fn of(state: &'a State) -> Self {
        match state {
            State::Queued => Self::default(),
            State::Running(Lease {
                // These three are columns of the job, and the same there.
                worker: _,
                fence: _,
                started_at: _,
                lease_ms,
                expires_at,
                cancel_requested,
            }) => Self {
                lease_ms: Some(*lease_ms),
                expires_ms: Some(expires_at.ms()),
                cancel_requested: *cancel_requested,
                ..Self::default()
            },
            State::Completed { ended_at, result } => Self {
                ended_ms: Some(ended_at.ms()),
                result: result.as_ref().map(Json::as_str),
                ..Self::default()
            },
            State::Failed { ended_at, reason } => {
                Self { ended_ms: Some(ended_at.ms()), reason: Some(reason.code()), ..Self::default() }
            }
            State::Canceled { ended_at } => Self { ended_ms: Some(ended_at.ms()), ..Self::default() },
        }
    }
}

/// Writes all that can change of a job. Its steps are written elsewhere.
pub fn update(tx: &Tx<'_>, job: &Job, lane: Option<Lane>) -> Done<()> {
    let Job {
        // The content of a job and its place never change.
        id: _,
        spec: _,
        rank: _,
        created_at: _,
        steps: _,
        seq,
        run_at,
        state,
        attempt,
        crashes,
        fence,
        retries,
        started_at,
        worker,
        progress,
        history,
    } = job;
    let StateColumns { lease_ms, expires_ms, cancel_requested, ended_ms, reason, result } =
        StateColumns::of(state);
    let history = if history.is_empty() { None } else { Some(to_text(history)?) };
    tx.sql(include_str!("../sql/job_update.sql"))?.execute(params![
        signed(*seq)?,
        state.name().code(),
        lane.map(|lane| lane as i64),
        run_at.ms(),
        signed(*fence)?,
        attempt,
        lease_ms,
        expires_ms,
        cancel_requested,
        ended_ms,
        reason,
        crashes,
        retries,
        started_at.map(|at| at.ms()),
        worker.as_ref().map(AsRef::<str>::as_ref),
        progress.as_ref().map(Json::as_str),
        result,
        history,
    ])?;
    Ok(())
}

/// Deletes a job with its steps.
pub fn delete(tx: &Tx<'_>, seq: u64, steps_count: u32) -> Done<()> {
    if steps_count > 0 {
        tx.sql(include_str!("../sql/steps_delete.sql"))?.execute(params![signed(seq)?])?;
    }
    tx.sql(include_str!("../sql/job_delete.sql"))?.execute(params![signed(seq)?])?;
    Ok(())
}

/// A value as JSON text.
pub fn to_text<T: Serialize + ?Sized>(value: &T) -> Done<String> {
    serde_json::to_string(value).map_err(|_| Fail::damaged("a value that cannot be written as JSON"))
}
