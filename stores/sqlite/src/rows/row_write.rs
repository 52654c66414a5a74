//! The codec of a job's row: writing. Structs are taken apart whole, so that a
//! new field demands a decision here.

use rusqlite::{CachedStatement, params};
use serde::Serialize;
use windlass_core::id::BudgetName;
use windlass_core::job::{Job, JobSpec};
use windlass_core::json::Json;

use crate::fail::{Done, Fail};
use crate::rows::head::signed;
use crate::run::tx::Tx;

/// Inserts a new job; answers whether it could be: its id was free.
pub fn insert(statement: &mut CachedStatement<'_>, job: &Job, gate: i64, slot: Option<i64>) -> Done<bool> {
    let Job {
        id,
        seq,
        spec,
        rank,
        created_at,
        run_at,
        // What follows is empty in a new job.
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
    let budgets = opt_budgets(budgets)?;
    let retry = retry.as_ref().map(to_text).transpose()?;
    let inserted = statement.execute(params![
        signed(*seq)?,
        id.0.as_bytes(),
        gate,
        rank,
        run_at.ms(),
        created_at.ms(),
        priority,
        timeout_ms.map(u64::cast_signed),
        slot,
        kind.as_str(),
        queue.as_str(),
        key.as_ref().map(AsRef::<str>::as_ref),
        dedupe_key.as_ref().map(AsRef::<str>::as_ref),
        budgets,
        retry,
        meta.as_ref().map(Json::as_str),
        payload.as_str(),
    ])?;
    Ok(inserted == 1)
}

/// Writes what can change of a job, but for its state and its steps: those stand beside it.
pub fn update(tx: &Tx<'_>, job: &Job) -> Done<()> {
    let Job {
        // The content of a job and its place never change.
        id: _,
        spec: _,
        rank: _,
        created_at: _,
        // These are in its lease, or in its past.
        state: _,
        attempt: _,
        fence: _,
        started_at: _,
        worker: _,
        steps: _,
        seq,
        run_at,
        crashes,
        retries,
        progress,
        history,
    } = job;
    let history = if history.is_empty() { None } else { Some(to_text(history)?) };
    tx.sql(sql!("job", "update"))?.execute(params![
        signed(*seq)?,
        run_at.ms(),
        crashes,
        retries,
        progress.as_ref().map(Json::as_str),
        history,
    ])?;
    Ok(())
}

/// Deletes a final job with all that stands beside it.
pub fn delete(tx: &Tx<'_>, seq: i64) -> Done<()> {
    for sql in [
        sql!("step", "delete"),
        sql!("past", "delete"),
        sql!("job", "delete_from_line"),
        sql!("job", "delete"),
    ] {
        tx.sql(sql)?.execute(params![seq])?;
    }
    Ok(())
}

/// Budgets as they are stored: nothing for none.
pub fn opt_budgets(budgets: &[BudgetName]) -> Done<Option<String>> {
    if budgets.is_empty() { Ok(None) } else { to_text(budgets).map(Some) }
}

/// A value as JSON text.
pub fn to_text<T: Serialize + ?Sized>(value: &T) -> Done<String> {
    serde_json::to_string(value).map_err(|_| Fail::damaged("a value that cannot be written as JSON"))
}
