//! Ends of attempts. Completions have a path of their own, since most ends are
//! completions: they are found and written together. Every other end goes
//! through the core's function.

use rusqlite::{Rows, params};
use windlass_core::event::What;
use windlass_core::id::{JobId, QueueName};
use windlass_core::state::StateName;
use windlass_core::store::{LeaseRef, Settlement, Written};
use windlass_core::transition::{self, Lost, Moved, Outcome};

use crate::fail::Done;
use crate::ready::keys::{self, Held};
use crate::ready::lanes;
use crate::rows::head::signed;
use crate::rows::known::{self, Known};
use crate::rows::row::{self, Stored};
use crate::rows::stretch::stretches;
use crate::rows::{dedupe, past, row_write, tally};
use crate::run::many::numbers;
use crate::run::tx::{NamedQueue, Tx};

/// Ends attempts, and answers in the order asked.
pub fn settle(tx: &mut Tx<'_>, settlements: &[Settlement]) -> Done<Vec<Written>> {
    let completes = |settlement: &Settlement| matches!(settlement.outcome, Outcome::Completed { .. });
    let mut answers = Vec::with_capacity(settlements.len());
    // Ends of one sort together, and the sorts in the order asked.
    for run in settlements.chunk_by(|one, next| completes(one) == completes(next)) {
        if completes(&run[0]) {
            complete_all(tx, run, &mut answers)?;
        } else {
            for Settlement { lease, outcome } in run {
                answers.push(settle_slowly(tx, *lease, outcome)?);
            }
        }
    }
    Ok(answers)
}

/// Completes the jobs that are held as their settlements say. One that is not
/// is settled already, or its lease is lost.
fn complete_all(tx: &mut Tx<'_>, run: &[Settlement], answers: &mut Vec<Written>) -> Done<()> {
    let jobs: Vec<Option<Known>> =
        run.iter().map(|settlement| known::take(tx, settlement.lease.job_id)).collect::<Done<_>>()?;
    let mut held = find_held(tx, jobs.iter().flatten())?;
    let mut done = Completed::default();
    for (Settlement { lease, outcome }, job) in run.iter().zip(jobs) {
        let found =
            job.and_then(|job| Some((held.binary_search_by_key(&job.seq, |held| held.seq).ok()?, job)));
        match found.filter(|(at, _)| held[*at].fence == Some(lease.fence.cast_signed())) {
            Some((at, job)) => {
                // Whoever settles it once more, with whatever fence, finds it ended.
                held[at].fence = None;
                done.note(tx, job, lease.job_id, outcome)?;
                answers.push(Written::Done);
            }
            None => {
                // It may have been completed a moment ago, by this very call.
                std::mem::take(&mut done).write(tx)?;
                answers.push(settle_slowly(tx, *lease, outcome)?);
            }
        }
    }
    done.write(tx)
}

/// A lease that is held, until this call ends it.
struct HeldLease {
    seq: i64,
    fence: Option<i64>,
}

/// The leases that are held, by number.
fn find_held<'a>(tx: &Tx<'_>, jobs: impl Iterator<Item = &'a Known>) -> Done<Vec<HeldLease>> {
    let mut seqs: Vec<i64> = jobs.map(|job| job.seq).collect();
    seqs.sort_unstable();
    seqs.dedup();
    let mut found = Vec::with_capacity(seqs.len());
    let mut take = |mut rows: Rows<'_>| -> Done<()> {
        while let Some(row) = rows.next()? {
            found.push(HeldLease { seq: row.get(0)?, fence: row.get(1)? });
        }
        Ok(())
    };
    if let Some(stretches) = stretches(&seqs) {
        let mut select = tx.sql(sql!("lease", "held_range"))?;
        for (from, to) in stretches {
            take(select.query(params![from, to])?)?;
        }
    } else {
        let mut select = tx.sql(sql!("lease", "held_many"))?;
        take(select.query(params![numbers(seqs)])?)?;
    }
    Ok(found)
}

/// Jobs that are completed, to be written together.
#[derive(Default)]
struct Completed {
    ended: Vec<i64>,
    plain: Vec<i64>,
    held: Vec<Held>,
    /// The queue that was last found to have had room.
    asked: Option<QueueName>,
}

impl Completed {
    /// Takes a job; one that has a result, or is not kept, is written at once.
    fn note(&mut self, tx: &mut Tx<'_>, job: Known, id: JobId, outcome: &Outcome) -> Done<()> {
        let Known { seq, queue, held, budgets, dedupe_key } = job;
        let queue = tx.queue(queue.as_str())?;
        let policy = &queue.queue.policy;
        let mut to = Some(StateName::Completed);
        if policy.delete_finished {
            row_write::delete(tx, seq)?;
            to = None;
        } else {
            tx.ended.add(&queue.name, seq);
            if let Outcome::Completed { result: Some(result) } = outcome {
                let mut insert = tx.sql(sql!("lease", "complete_with"))?;
                insert.execute(params![seq, tx.now.ms(), result.as_str()])?;
            } else {
                self.plain.push(seq);
            }
        }
        self.ended.push(seq);
        dedupe::free(tx, dedupe_key.as_ref())?;
        tx.moves.add_id(What::Completed, &queue.name, id);
        tx.changes.moved(&queue.name, &budgets, Some(StateName::Running), to);
        if !tx.wake {
            tx.wake = !budgets.is_empty() || self.was_full(tx, &queue)?;
        }
        self.held.extend(held);
        Ok(())
    }

    /// Whether jobs of a queue may have waited for its limit.
    fn was_full(&mut self, tx: &Tx<'_>, queue: &NamedQueue) -> Done<bool> {
        let Some(limit) = queue.queue.policy.limit else { return Ok(false) };
        if self.asked.as_ref() == Some(&queue.name) {
            return Ok(false);
        }
        self.asked = Some(queue.name.clone());
        // As many as before this call: it writes what it changes at its end.
        Ok(tally::of_queue(tx.conn, queue.name.as_str())?.running >= i64::from(limit))
    }

    fn write(self, tx: &mut Tx<'_>) -> Done<()> {
        let Self { mut ended, mut plain, held, asked: _ } = self;
        ended.sort_unstable();
        plain.sort_unstable();
        write_past(tx, plain)?;
        end_leases(tx, ended)?;
        if !held.is_empty() {
            keys::pass_on(tx, &held, false)?;
        }
        Ok(())
    }
}

/// Notes that running jobs are completed without a result.
fn write_past(tx: &Tx<'_>, seqs: Vec<i64>) -> Done<()> {
    let Some(stretches) = stretches(&seqs) else {
        tx.sql(sql!("lease", "complete"))?.execute(params![numbers(seqs), tx.now.ms()])?;
        return Ok(());
    };
    let mut insert = tx.sql(sql!("lease", "complete_range"))?;
    for (from, to) in stretches {
        insert.execute(params![from, to, tx.now.ms()])?;
    }
    Ok(())
}

fn end_leases(tx: &Tx<'_>, seqs: Vec<i64>) -> Done<()> {
    let Some(stretches) = stretches(&seqs) else {
        tx.sql(sql!("lease", "delete_many"))?.execute(params![numbers(seqs)])?;
        return Ok(());
    };
    let mut delete = tx.sql(sql!("lease", "delete_range"))?;
    for (from, to) in stretches {
        delete.execute(params![from, to])?;
    }
    Ok(())
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
    let (seq, state) = (signed(job.seq)?, job.state.name());
    tx.sql(sql!("lease", "delete"))?.execute(params![seq])?;
    let to = if moved.delete {
        row_write::delete(tx, seq)?;
        None
    } else {
        row_write::update(tx, job)?;
        past::save(tx, job)?;
        Some(state)
    };
    if state == StateName::Queued {
        lanes::place_again(tx, stored)?;
    } else {
        dedupe::free(tx, job.spec.dedupe_key.as_ref())?;
    }
    tx.moved(moved.what, job, Some(StateName::Running), to);
    // A slot of its queue or of a budget is free again, or the job itself can be claimed.
    tx.wake = true;
    if let Some(slot) = stored.slot {
        let waits = state == StateName::Queued && job.run_at <= tx.now;
        keys::pass_on(tx, &[Held { slot, gate: stored.gate, rank: job.rank, seq }], waits)?;
    }
    Ok(())
}
