//! What comes over jobs from outside: cancel and retry.

use rusqlite::params;
use windlass_core::id::JobId;
use windlass_core::state::StateName;
use windlass_core::store::{CancelAnswer, RetryAnswer};
use windlass_core::transition::{self, Cancel, Moved};

use crate::fail::Done;
use crate::head::signed;
use crate::row::{self, Stored};
use crate::tx::Tx;
use crate::{dedupe, lanes, past, row_write};

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
            tx.sql(include_str!("../sql/lease_cancel.sql"))?.execute(params![seq])?;
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
    if let Some(key) = &stored.job.spec.dedupe_key
        && let Some(holder) = dedupe::holder(tx, key)?
    {
        return Ok(RetryAnswer::Taken(holder));
    }
    dedupe::hold(tx, &stored.job)?;
    row_write::update(tx, &stored.job)?;
    past::save(tx, &stored.job)?;
    lanes::place(tx, &stored)?;
    tx.moved(moved.what, &stored.job, Some(from), Some(StateName::Queued));
    Ok(RetryAnswer::Retried)
}
