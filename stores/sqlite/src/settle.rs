//! Ends of attempts. Completions have a path of their own, since most ends are
//! completions: they are found and written together. Every other end goes
//! through the core's function.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::{Row, params};
use windlass_core::event::What;
use windlass_core::id::{BudgetName, JobId, Key, QueueName};
use windlass_core::state::StateName;
use windlass_core::store::{LeaseRef, Settlement, Written};
use windlass_core::transition::{self, Lost, Moved, Outcome};

use crate::fail::Done;
use crate::many::{Grouped, blobs, numbers};
use crate::row::{self, Stored, opt_text, parse, text};
use crate::tx::{NamedQueue, Tx};
use crate::{lanes, row_write};

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
    let mut held = find_held(tx, run)?.into_iter().peekable();
    let mut done = Completed::default();
    for Settlement { lease, outcome } in run {
        let found = held.next_if(|held| held.id == lease.job_id);
        match found.filter(|held| held.fence == lease.fence.cast_signed() && done.seqs.insert(held.seq)) {
            Some(held) => {
                done.note(tx, &held, outcome)?;
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

/// What completing a job needs to know of it.
struct Held {
    seq: i64,
    id: JobId,
    fence: i64,
    queue: Arc<NamedQueue>,
    key: Option<Key>,
    budgets: Vec<BudgetName>,
    steps_count: u32,
}

impl Held {
    fn read(tx: &mut Tx<'_>, row: &Row<'_>) -> Done<Self> {
        Ok(Self {
            seq: row.get(0)?,
            id: row::job_id(row, 1)?,
            fence: row.get(2)?,
            queue: tx.queue(text(row, 3)?)?,
            key: opt_text(row, 4)?.map(Key::new).transpose()?,
            budgets: opt_text(row, 5)?.map(parse).transpose()?.unwrap_or_default(),
            steps_count: row.get(6)?,
        })
    }
}

/// The running jobs of these settlements, in their order; of one that is asked for twice, both.
fn find_held(tx: &mut Tx<'_>, run: &[Settlement]) -> Done<Vec<Held>> {
    let ids = blobs(run.iter().map(|settlement| settlement.lease.job_id.0.into_bytes()));
    let mut select = tx.sql(include_str!("../sql/lease_find.sql"))?;
    let mut rows = select.query(params![ids, tx.now.ms()])?;
    let mut found = Vec::with_capacity(run.len());
    while let Some(row) = rows.next()? {
        found.push(Held::read(tx, row)?);
    }
    Ok(found)
}

/// Jobs that are completed, to be written together.
#[derive(Default)]
struct Completed {
    seqs: HashSet<i64>,
    plain: Vec<i64>,
    keys: Grouped<QueueName, Key>,
}

impl Completed {
    /// Takes a job; one that has a result, or is not kept, is written at once.
    fn note(&mut self, tx: &mut Tx<'_>, held: &Held, outcome: &Outcome) -> Done<()> {
        let Held { seq, id, fence: _, queue, key, budgets, steps_count } = held;
        let policy = &queue.queue.policy;
        let mut to = Some(StateName::Completed);
        if policy.delete_finished {
            row_write::delete(tx, seq.unsigned_abs(), *steps_count)?;
            to = None;
        } else if let Outcome::Completed { result: Some(result) } = outcome {
            let mut update = tx.sql(include_str!("../sql/complete_with.sql"))?;
            update.execute(params![seq, tx.now.ms(), result.as_str()])?;
        } else {
            self.plain.push(*seq);
        }
        tx.moves.add_id(What::Completed, &queue.name, *id);
        tx.changes.moved(&queue.name, budgets, Some(StateName::Running), to);
        if policy.limit.is_some() || !budgets.is_empty() {
            tx.wake = true;
        }
        if let Some(key) = key {
            self.keys.add(&queue.name, key.clone());
        }
        Ok(())
    }

    fn write(self, tx: &mut Tx<'_>) -> Done<()> {
        let Self { seqs: _, plain, keys } = self;
        if !plain.is_empty() {
            let mut update = tx.sql(include_str!("../sql/complete.sql"))?;
            update.execute(params![numbers(plain), tx.now.ms()])?;
        }
        for (queue, keys) in keys.0 {
            lanes::free_keys(tx, &queue, &keys)?;
        }
        Ok(())
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
        lanes::free_keys(tx, &job.spec.queue, std::slice::from_ref(key))?;
    }
    Ok(())
}
