//! Ends of attempts. Completions have a path of their own, since most ends are
//! completions; every other end goes through the core's function.

use rusqlite::{CachedStatement, params};
use windlass_core::event::What;
use windlass_core::id::{BudgetName, Key};
use windlass_core::json::Json;
use windlass_core::state::StateName;
use windlass_core::store::{LeaseRef, Settlement, Written};
use windlass_core::transition::{self, Lost, Moved, Outcome};

use crate::fail::Done;
use crate::row::{self, Stored, opt_text, parse, text};
use crate::tx::Tx;
use crate::{lanes, row_write};

/// Ends attempts, and answers in the order asked.
pub fn settle(tx: &mut Tx<'_>, settlements: &[Settlement]) -> Done<Vec<Written>> {
    let mut completer = Completer::new(tx)?;
    let mut answers = Vec::with_capacity(settlements.len());
    for Settlement { lease, outcome } in settlements {
        let done = match outcome {
            Outcome::Completed { result } => completer.complete(tx, *lease, result.as_ref())?,
            _ => false,
        };
        answers.push(if done { Written::Done } else { settle_slowly(tx, *lease, outcome)? });
    }
    Ok(answers)
}

struct Completer<'a> {
    find: CachedStatement<'a>,
    complete: CachedStatement<'a>,
}

impl<'a> Completer<'a> {
    fn new(tx: &Tx<'a>) -> Done<Self> {
        Ok(Self {
            find: tx.sql(include_str!("../sql/lease_find.sql"))?,
            complete: tx.sql(include_str!("../sql/complete.sql"))?,
        })
    }

    /// Completes a job that is held with this fence. Answers false when it is
    /// not: then it is settled already, or the lease is lost.
    fn complete(&mut self, tx: &mut Tx<'_>, lease: LeaseRef, result: Option<&Json>) -> Done<bool> {
        let mut rows =
            self.find.query(params![lease.job_id.0.as_bytes(), lease.fence.cast_signed(), tx.now.ms()])?;
        let Some(row) = rows.next()? else { return Ok(false) };
        let seq: i64 = row.get(0)?;
        let queue = tx.queue(text(row, 1)?)?;
        let key = opt_text(row, 2)?.map(Key::new).transpose()?;
        let budgets: Vec<BudgetName> = opt_text(row, 3)?.map(parse).transpose()?.unwrap_or_default();
        let steps_count: u32 = row.get(4)?;
        let policy = &queue.queue.policy;
        let to = if policy.delete_finished {
            row_write::delete(tx, seq.unsigned_abs(), steps_count)?;
            None
        } else {
            self.complete.execute(params![seq, tx.now.ms(), result.map(Json::as_str)])?;
            Some(StateName::Completed)
        };
        tx.moves.add_id(What::Completed, &queue.name, lease.job_id);
        tx.changes.moved(&queue.name, &budgets, Some(StateName::Running), to);
        if policy.limit.is_some() || !budgets.is_empty() {
            tx.wake = true;
        }
        if let Some(key) = key {
            lanes::free_key(tx, &queue.name, &key)?;
        }
        Ok(true)
    }
}

fn settle_slowly(tx: &mut Tx<'_>, lease: LeaseRef, outcome: &Outcome) -> Done<Written> {
    let Some(mut stored) = row::by_id(tx.conn, lease.job_id)? else { return Ok(Written::Lost) };
    let queue = tx.queue(stored.job.spec.queue.as_str())?;
    match transition::settle(&mut stored.job, &queue.queue.policy, lease.fence, outcome, tx.now) {
        Ok(Some(moved)) => {
            end_attempt(tx, &stored, moved)?;
            Ok(Written::Done)
        }
        Ok(None) => Ok(Written::Done),
        Err(Lost) => Ok(Written::Lost),
    }
}

/// Writes a job that was running and is not any more.
pub fn end_attempt(tx: &mut Tx<'_>, stored: &Stored, moved: Moved) -> Done<()> {
    let job = &stored.job;
    let state = job.state.name();
    let lane = (state == StateName::Queued).then(|| lanes::after_attempt(tx, job));
    let to = if moved.delete {
        row_write::delete(tx, job.seq, stored.steps_count)?;
        None
    } else {
        row_write::update(tx, job, lane)?;
        Some(state)
    };
    tx.moved(moved.what, job, Some(StateName::Running), to);
    // A slot of its queue or of a budget is free again, or the job itself can be claimed.
    tx.wake = true;
    if let Some(key) = &job.spec.key {
        lanes::free_key(tx, &job.spec.queue, key)?;
    }
    Ok(())
}
