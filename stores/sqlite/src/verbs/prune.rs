//! Retention: what has been kept long enough goes, in bites that are short in time, each a commit of its own.
//! Whoever wants to write meanwhile comes between two of them.

use std::time::Duration;

use rusqlite::params;
use windlass_core::state::StateName;
use windlass_core::store::CLAIM_MEMORY_MS;
use windlass_core::time::Clock;

use crate::fail::Done;
use crate::ready::{emptied, gate};
use crate::rows::ended::{self, Ended};
use crate::rows::{epoch, row_write, tally};
use crate::run::tx::Tx;
use crate::verbs::{batches, events, records, workers};

/// How long a bite may take, but for its commit. Between two bites the file is left to others for as long.
const BITE_MS: u64 = 10;
/// How many jobs a bite deletes at most: what is deleted in no time is written by the commit.
const BITE_JOBS_MAX: u64 = 500;
/// How many rows one statement of a sweep deletes.
const SWEEP_ROWS_MAX: usize = 100;

/// Of gates more at once, since it steps over the names of all queues.
const SWEEP_GATES_MAX: usize = 1_000;

/// How far a pruning has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cursor {
    /// What is not a job has been swept.
    swept: bool,
    /// The queues up to this name are done.
    after: String,
}

/// What a bite did.
#[derive(Debug)]
pub struct Bite {
    /// So many jobs went.
    pub jobs: u64,
    /// Where the next one goes on; nothing when all is done.
    pub next: Option<Cursor>,
}

/// Until when a bite goes on, by the clock of the store.
struct End<'a> {
    clock: &'a dyn Clock,
    boot_ms: u64,
}

impl End<'_> {
    fn has_come(&self) -> bool {
        self.clock.boot_ms() >= self.boot_ms
    }
}

/// Deletes what its retention has outlived, for a short while and `jobs_max` jobs at most. Each bite gets on,
/// however slow it is.
pub fn bite(tx: &mut Tx<'_>, clock: &dyn Clock, from: &Cursor, jobs_max: u64) -> Done<Bite> {
    let end = End { clock, boot_ms: clock.boot_ms().saturating_add(BITE_MS) };
    if !from.swept && !sweep(tx, &end)? {
        return Ok(Bite { jobs: 0, next: Some(from.clone()) });
    }
    let mut after = from.after.clone();
    let room = jobs_max.min(BITE_JOBS_MAX);
    let mut jobs = 0;
    while let Some(queue) = ended::next_queue(tx, &after)? {
        let part = prune_queue(tx, &queue, room - jobs, &end)?;
        jobs += part.jobs;
        if part.is_whole {
            after = queue;
        }
        if !part.is_whole || jobs == room || end.has_come() {
            return Ok(Bite { jobs, next: Some(Cursor { swept: true, after }) });
        }
    }
    Ok(Bite { jobs, next: None })
}

/// The time between two bites: another process that waits for the file only looks from time to time whether it
/// is free, and would hardly find it so otherwise.
pub async fn rest() {
    let _ = tokio::time::timeout(Duration::from_millis(BITE_MS), std::future::pending::<()>()).await;
}

/// Forgets claims, batches, events, workers, lines and records that are over; answers whether that is all of them.
fn sweep(tx: &mut Tx<'_>, end: &End<'_>) -> Done<bool> {
    workers::sweep(tx)?;
    tally::sweep(tx.conn)?;
    epoch::sweep(tx)?;
    while gate::sweep(tx, SWEEP_GATES_MAX)? == SWEEP_GATES_MAX {
        if end.has_come() {
            return Ok(false);
        }
    }
    for sweep in [sweep_claims, batches::sweep, events::sweep, emptied::sweep, records::sweep] {
        while sweep(tx, SWEEP_ROWS_MAX)? == SWEEP_ROWS_MAX {
            if end.has_come() {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

fn sweep_claims(tx: &mut Tx<'_>, most: usize) -> Done<usize> {
    let oldest = tx.now.plus_ms(-CLAIM_MEMORY_MS);
    Ok(tx.sql(sql!("claim", "sweep"))?.execute(params![oldest.ms(), most.cast_signed()])?)
}

/// What was pruned of a queue.
struct Part {
    jobs: u64,
    /// Nothing of it is left to prune.
    is_whole: bool,
}

/// Deletes the finished jobs of a queue that are too old, or too many; oldest first.
fn prune_queue(tx: &mut Tx<'_>, name: &str, room: u64, end: &End<'_>) -> Done<Part> {
    let queue = tx.queue(name)?;
    let policy = &queue.queue.policy;
    let finished = tally::of_queue(tx.conn, name)?.finished.unsigned_abs();
    let mut surplus = finished.saturating_sub(policy.finished_max);
    let oldest = tx.now.plus_ms(-policy.retention_ms());
    let mut part = Part { jobs: 0, is_whole: false };
    loop {
        let ended = ended::oldest(tx, name)?;
        let Some(ended) = ended.filter(|ended| ended.at <= oldest || surplus > 0) else {
            part.is_whole = true;
            break;
        };
        let left = room - part.jobs;
        let most = if ended.at <= oldest { left } else { surplus.min(left) };
        let gone = delete_up_to(tx, name, &ended, most, end)?;
        surplus = surplus.saturating_sub(gone);
        part.jobs += gone;
        if part.jobs == room || end.has_come() {
            break;
        }
    }
    for _ in 0..part.jobs {
        tx.changes.moved(&queue.name, &[], Some(StateName::Completed), None);
    }
    Ok(part)
}

/// Deletes jobs that ended together, one at least and `most` at most. What has left that end behind is only
/// taken off the list.
fn delete_up_to(tx: &Tx<'_>, queue: &str, ended: &Ended, most: u64, end: &End<'_>) -> Done<u64> {
    let mut is_final = tx.sql(sql!("ended", "is_final"))?;
    let mut gone = 0;
    let mut looked = 0;
    for seq in &ended.seqs {
        if gone == most || (looked > 0 && end.has_come()) {
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
