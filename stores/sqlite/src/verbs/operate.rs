//! What people ask for jobs: cancel, retry, run now, run again from a step, delete.

use rusqlite::params;
use windlass_core::id::JobId;
use windlass_core::state::StateName;
use windlass_core::store::{CancelAnswer, DeleteAnswer, Rerun, RerunAnswer, RetryAnswer, RunNowAnswer};
use windlass_core::transition::{self, Cancel, Moved, NoRerun, RunNow};

use crate::fail::Done;
use crate::ready::lanes;
use crate::rows::head::signed;
use crate::rows::row::{self, Stored};
use crate::rows::{dedupe, past, row_write};
use crate::run::tx::Tx;

/// Asks for a job to be canceled.
pub fn cancel(tx: &mut Tx<'_>, id: JobId) -> Done<CancelAnswer> {
    let Some(mut stored) = row::by_id(tx.conn, id)? else { return Ok(CancelAnswer::NotFound) };
    let queue = tx.queue(stored.job.spec.queue.as_str())?;
    match transition::cancel(&mut stored.job, &queue.queue.policy, tx.now) {
        Cancel::Canceled(moved) => {
            end_queued(tx, &stored, moved)?;
            Ok(CancelAnswer::Canceled)
        }
        Cancel::Requested(moved) => {
            let seq = signed(stored.job.seq)?;
            tx.sql(sql!("lease", "cancel"))?.execute(params![seq])?;
            row_write::update(tx, &stored.job)?;
            tx.moved(moved.what, &stored.job, Some(StateName::Running), Some(StateName::Running));
            tx.wake = true;
            Ok(CancelAnswer::Requested)
        }
        Cancel::AlreadyRequested => Ok(CancelAnswer::Requested),
        Cancel::Final => Ok(CancelAnswer::Final),
    }
}

/// Writes a job that was queued and is over now.
fn end_queued(tx: &mut Tx<'_>, stored: &Stored, moved: Moved) -> Done<()> {
    let job = &stored.job;
    lanes::leave(tx, stored)?;
    dedupe::free(tx, job.spec.dedupe_key.as_ref())?;
    let to = if moved.delete {
        row_write::delete(tx, signed(job.seq)?)?;
        None
    } else {
        row_write::update(tx, job)?;
        past::save(tx, job)?;
        Some(job.state.name())
    };
    tx.moved(moved.what, job, Some(StateName::Queued), to);
    Ok(())
}

/// Starts a new life of a final job.
pub fn retry(tx: &mut Tx<'_>, id: JobId) -> Done<RetryAnswer> {
    let Some(mut stored) = row::by_id(tx.conn, id)? else { return Ok(RetryAnswer::NotFound) };
    let from = stored.job.state.name();
    let Some(moved) = transition::retry(&mut stored.job, tx.now) else { return Ok(RetryAnswer::NotFinal) };
    Ok(match begin_life(tx, &stored, from, moved)? {
        Some(holder) => RetryAnswer::Taken(holder),
        None => RetryAnswer::Retried,
    })
}

/// Writes a job that was final and is queued now; answers with who has its dedupe key, and then changes nothing.
fn begin_life(tx: &mut Tx<'_>, stored: &Stored, from: StateName, moved: Moved) -> Done<Option<JobId>> {
    if let Some(key) = &stored.job.spec.dedupe_key
        && let Some(holder) = dedupe::holder(tx, key)?
    {
        return Ok(Some(holder));
    }
    dedupe::hold(tx, &stored.job)?;
    row_write::update(tx, &stored.job)?;
    past::save(tx, &stored.job)?;
    lanes::place(tx, stored)?;
    tx.moved(moved.what, &stored.job, Some(from), Some(StateName::Queued));
    Ok(None)
}

/// Starts a new life of a final job from a step of its on.
pub fn rerun(tx: &mut Tx<'_>, Rerun { job_id, from }: &Rerun) -> Done<RerunAnswer> {
    let Some(mut stored) = row::by_id(tx.conn, *job_id)? else { return Ok(RerunAnswer::NotFound) };
    stored.job.steps = row::load_steps(tx.conn, stored.job.seq)?;
    let was = stored.job.state.name();
    let moved = match transition::rerun(&mut stored.job, from, tx.now) {
        Ok(moved) => moved,
        Err(NoRerun::NotFinal) => return Ok(RerunAnswer::NotFinal),
        Err(NoRerun::NoStep) => return Ok(RerunAnswer::NoStep),
    };
    if let Some(holder) = begin_life(tx, &stored, was, moved)? {
        return Ok(RerunAnswer::Taken(holder));
    }
    let seq = signed(stored.job.seq)?;
    let kept = stored.job.steps.len().try_into().unwrap_or(i64::MAX);
    tx.sql(sql!("step", "cut"))?.execute(params![seq, kept])?;
    tx.sql(sql!("step", "recount"))?.execute(params![seq, kept])?;
    Ok(RerunAnswer::Retried)
}

/// Makes a queued job due that waits for its time.
pub fn run_now(tx: &mut Tx<'_>, id: JobId) -> Done<RunNowAnswer> {
    let Some(mut stored) = row::by_id(tx.conn, id)? else { return Ok(RunNowAnswer::NotFound) };
    let mut job = stored.job.clone();
    let moved = match transition::run_now(&mut job, tx.now) {
        RunNow::Due(moved) => moved,
        RunNow::AlreadyDue => return Ok(RunNowAnswer::AlreadyDue),
        RunNow::Running => return Ok(RunNowAnswer::Running),
        RunNow::Final => return Ok(RunNowAnswer::Final),
    };
    lanes::leave(tx, &stored)?;
    tx.due.add(&job.spec.queue, stored.job.run_at, -1);
    stored.job = job;
    row_write::update(tx, &stored.job)?;
    lanes::place(tx, &stored)?;
    tx.moved(moved.what, &stored.job, None, None);
    tx.due.add(&stored.job.spec.queue, stored.job.run_at, 1);
    Ok(RunNowAnswer::Due)
}

/// Takes a job out that is queued or final.
pub fn delete(tx: &mut Tx<'_>, id: JobId) -> Done<DeleteAnswer> {
    let Some(mut stored) = row::by_id(tx.conn, id)? else { return Ok(DeleteAnswer::NotFound) };
    let from = stored.job.state.name();
    let Some(moved) = transition::delete(&mut stored.job, tx.now) else { return Ok(DeleteAnswer::Running) };
    if from == StateName::Queued {
        end_queued(tx, &stored, moved)?;
        return Ok(DeleteAnswer::Deleted);
    }
    // The list of what has ended still has it: whoever reads that looks at the job.
    row_write::delete(tx, signed(stored.job.seq)?)?;
    tx.moved(moved.what, &stored.job, Some(from), None);
    Ok(DeleteAnswer::Deleted)
}
