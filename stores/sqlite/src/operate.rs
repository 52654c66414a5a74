//! What comes over jobs from outside: cancel and retry.

use windlass_core::id::JobId;
use windlass_core::state::StateName;
use windlass_core::store::{CancelAnswer, RetryAnswer};
use windlass_core::transition::{self, Cancel, Moved};

use crate::enqueue::dedupe_holder;
use crate::fail::Done;
use crate::row::{self, Lane, Stored};
use crate::tx::Tx;
use crate::{lanes, row_write};

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
            row_write::update(tx, &stored.job, None)?;
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
    let Stored { job, lane, gate, steps_count } = stored;
    let to = if moved.delete {
        row_write::delete(tx, job.seq, *steps_count)?;
        None
    } else {
        row_write::update(tx, job, None)?;
        Some(job.state.name())
    };
    tx.moved(moved.what, job, Some(StateName::Queued), to);
    if let (Some(Lane::Ready), Some(key)) = (lane, &job.spec.key) {
        lanes::show_next(tx, &job.spec.queue, key, *gate)?;
    }
    Ok(())
}

/// Starts a new life of a final job.
pub fn retry(tx: &mut Tx<'_>, id: JobId) -> Done<RetryAnswer> {
    let Some(mut stored) = row::by_id(tx.conn, id)? else { return Ok(RetryAnswer::NotFound) };
    let from = stored.job.state.name();
    let Some(moved) = transition::retry(&mut stored.job, tx.now) else { return Ok(RetryAnswer::NotFinal) };
    if let Some(key) = &stored.job.spec.dedupe_key
        && let Some(holder) = dedupe_holder(tx, key.as_str())?
    {
        return Ok(RetryAnswer::Taken(holder));
    }
    let lane = lanes::place(tx, &stored.job, stored.gate)?;
    row_write::update(tx, &stored.job, Some(lane))?;
    tx.moved(moved.what, &stored.job, Some(from), Some(StateName::Queued));
    Ok(RetryAnswer::Retried)
}
