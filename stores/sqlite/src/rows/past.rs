//! What a job that is not running has behind it: its newest attempt, and how it ended.

use rusqlite::params;
use windlass_core::job::Job;
use windlass_core::json::Json;
use windlass_core::state::State;

use crate::fail::{Done, Fail};
use crate::rows::head::signed;
use crate::rows::row::opt_name;
use crate::run::tx::Tx;

/// Whether a job that is not running has anything behind it.
pub fn is_there(job: &Job) -> bool {
    job.fence > 0 || job.state.name().is_final()
}

/// Writes what a job that is not running has behind it.
pub fn save(tx: &Tx<'_>, job: &Job) -> Done<()> {
    let seq = signed(job.seq)?;
    if !is_there(job) {
        tx.sql(sql!("past", "delete"))?.execute(params![seq])?;
        return Ok(());
    }
    let (reason, result) = match &job.state {
        State::Failed { ended_at: _, reason } => (Some(reason.code()), None),
        State::Completed { ended_at: _, result } => (None, result.as_ref().map(Json::as_str)),
        State::Queued | State::Canceled { ended_at: _ } => (None, None),
        State::Running(_) => return Err(Fail::damaged("a running job with a past")),
    };
    tx.sql(sql!("past", "save"))?.execute(params![
        seq,
        job.state.name().code(),
        signed(job.fence)?,
        job.attempt,
        job.started_at.map(|at| at.ms()),
        job.state.ended_at().map(|at| at.ms()),
        reason,
        job.worker.as_ref().map(AsRef::<str>::as_ref),
        result,
    ])?;
    Ok(())
}

/// Reads what a queued job has behind it.
pub fn load(tx: &Tx<'_>, job: &mut Job) -> Done<()> {
    let mut select = tx.sql(sql!("past", "load"))?;
    let mut rows = select.query(params![signed(job.seq)?])?;
    let row = rows.next()?.ok_or_else(|| Fail::damaged(format!("job {} without its past", job.seq)))?;
    job.fence = row.get::<_, i64>(0)?.unsigned_abs();
    job.attempt = row.get(1)?;
    job.started_at = row.get::<_, Option<i64>>(2)?.map(windlass_core::time::Time::from_ms);
    job.worker = opt_name(row, 3)?;
    Ok(())
}

/// Forgets it, when the job is claimed again: what it was is in its lease.
pub fn forget(tx: &Tx<'_>, seq: i64) -> Done<()> {
    tx.sql(sql!("past", "delete"))?.execute(params![seq])?;
    Ok(())
}
