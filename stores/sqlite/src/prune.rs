//! Retention: what has been kept long enough goes, in bounded bites.

use rusqlite::{OptionalExtension, params};
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::state::StateName;
use windlass_core::store::{CLAIM_MEMORY_MS, PRUNE_MAX};

use crate::fail::Done;
use crate::tx::Tx;
use crate::{events, row_write, tally, workers};

/// Deletes what its retention has outlived; answers how many jobs went.
pub fn prune(tx: &mut Tx<'_>) -> Done<u64> {
    let oldest = tx.now.plus_ms(-CLAIM_MEMORY_MS);
    tx.sql(include_str!("../sql/claim_sweep.sql"))?.execute(params![oldest.ms()])?;
    workers::sweep(tx)?;
    events::sweep(tx.conn, &tx.head)?;
    tally::sweep(tx.conn)?;
    let mut pruned = 0;
    let mut queue = next_queue(tx, "")?;
    while let Some(name) = queue {
        let room = u64::from(PRUNE_MAX) - pruned;
        if room == 0 {
            break;
        }
        pruned += prune_queue(tx, &name, room)?;
        queue = next_queue(tx, &name)?;
    }
    Ok(pruned)
}

/// The first queue with finished jobs whose name comes after this one.
fn next_queue(tx: &Tx<'_>, after: &str) -> Done<Option<String>> {
    let mut select = tx.sql(include_str!("../sql/ended_next_queue.sql"))?;
    Ok(select.query_row(params![after], |row| row.get(0)).optional()?)
}

struct Doomed {
    seq: i64,
    steps_count: u32,
}

fn prune_queue(tx: &mut Tx<'_>, name: &str, room: u64) -> Done<u64> {
    let queue = tx.queue(name)?;
    let doomed = doomed(tx, name, &queue.queue.policy, room)?;
    for Doomed { seq, steps_count } in &doomed {
        row_write::delete(tx, seq.unsigned_abs(), *steps_count)?;
        tx.changes.moved(&queue.name, &[], Some(StateName::Completed), None);
    }
    Ok(doomed.len() as u64)
}

/// The finished jobs of a queue that are too old, or too many; oldest first.
fn doomed(tx: &Tx<'_>, name: &str, policy: &QueuePolicy, room: u64) -> Done<Vec<Doomed>> {
    let finished = tally::of_queue(tx.conn, name)?.finished.unsigned_abs();
    let surplus = finished.saturating_sub(policy.finished_max);
    let oldest = tx.now.plus_ms(-policy.retention_ms()).ms();
    let mut select = tx.sql(include_str!("../sql/ended_oldest.sql"))?;
    let mut rows = select.query(params![name, i64::try_from(room).unwrap_or(i64::MAX)])?;
    let mut doomed = Vec::new();
    while let Some(row) = rows.next()? {
        let ended_ms: i64 = row.get(2)?;
        if doomed.len() as u64 >= surplus && ended_ms > oldest {
            break;
        }
        doomed.push(Doomed { seq: row.get(0)?, steps_count: row.get(1)? });
    }
    Ok(doomed)
}
