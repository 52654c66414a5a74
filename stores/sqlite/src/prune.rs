//! Retention: what has been kept long enough goes, in bounded bites.

use rusqlite::params;
use windlass_core::state::StateName;
use windlass_core::store::{CLAIM_MEMORY_MS, PRUNE_MAX};

use crate::ended::{self, Ended};
use crate::fail::Done;
use crate::tx::Tx;
use crate::{emptied, events, row_write, tally, workers};

/// Deletes what its retention has outlived; answers how many jobs went.
pub fn prune(tx: &mut Tx<'_>) -> Done<u64> {
    let oldest = tx.now.plus_ms(-CLAIM_MEMORY_MS);
    tx.sql(include_str!("../sql/claim_sweep.sql"))?.execute(params![oldest.ms()])?;
    workers::sweep(tx)?;
    events::sweep(tx.conn, &tx.head)?;
    tally::sweep(tx.conn)?;
    emptied::sweep(tx)?;
    let mut pruned = 0;
    let mut queue = ended::next_queue(tx, "")?;
    while let Some(name) = queue {
        let room = u64::from(PRUNE_MAX) - pruned;
        if room == 0 {
            break;
        }
        pruned += prune_queue(tx, &name, room)?;
        queue = ended::next_queue(tx, &name)?;
    }
    Ok(pruned)
}

/// Deletes the finished jobs of a queue that are too old, or too many; oldest first.
fn prune_queue(tx: &mut Tx<'_>, name: &str, room: u64) -> Done<u64> {
    let queue = tx.queue(name)?;
    let policy = &queue.queue.policy;
    let finished = tally::of_queue(tx.conn, name)?.finished.unsigned_abs();
    let mut surplus = finished.saturating_sub(policy.finished_max);
    let oldest = tx.now.plus_ms(-policy.retention_ms());
    let mut pruned = 0;
    while pruned < room
        && let Some(ended) = ended::oldest(tx, name, room - pruned)?
    {
        let most = if ended.at <= oldest { room - pruned } else { surplus.min(room - pruned) };
        if most == 0 {
            break;
        }
        let gone = delete_up_to(tx, name, &ended, most)?;
        surplus = surplus.saturating_sub(gone);
        pruned += gone;
    }
    for _ in 0..pruned {
        tx.changes.moved(&queue.name, &[], Some(StateName::Completed), None);
    }
    Ok(pruned)
}

/// Deletes jobs that ended together, `most` at most. What has left that end behind is only taken off the list.
fn delete_up_to(tx: &Tx<'_>, queue: &str, ended: &Ended, most: u64) -> Done<u64> {
    let mut is_final = tx.sql(include_str!("../sql/ended_is_final.sql"))?;
    let mut gone = 0;
    let mut looked = 0;
    for seq in &ended.seqs {
        if gone == most {
            break;
        }
        looked += 1;
        if is_final.exists(params![seq, ended.at.ms()])? {
            row_write::delete(tx, *seq)?;
            gone += 1;
        }
    }
    ended::take(tx, queue, ended, &ended.seqs[looked..])?;
    Ok(gone)
}
