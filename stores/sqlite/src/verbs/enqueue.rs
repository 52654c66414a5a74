//! Accepting jobs.

use rusqlite::CachedStatement;
use windlass_core::error::StoreError;
use windlass_core::event::What;
use windlass_core::id::{BudgetName, JobId, Kind, QueueName};
use windlass_core::job::{JobSpec, NewJob};
use windlass_core::state::StateName;
use windlass_core::store::{Enqueued, check_jobs};
use windlass_core::transition;

use crate::fail::{Done, Fail};
use crate::ready::{gate, lanes, slot};
use crate::rows::row::{self, Stored};
use crate::rows::{dedupe, row_write};
use crate::run::tx::Tx;

/// Accepts jobs, all or none.
pub fn enqueue(tx: &mut Tx<'_>, new: &[NewJob]) -> Done<Vec<Enqueued>> {
    check_jobs(new)?;
    let mut accept = Accept::new(tx)?;
    new.iter().map(|new| accept.one(tx, new, SameId::MustBeSame)).collect()
}

/// What it means that an id is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SameId {
    /// Its content must be the same, or nothing of the batch is taken.
    MustBeSame,
    /// It is the job: a schedule may have changed since.
    IsTheJob,
}

/// What a gate stands for, and its number.
struct Newest {
    queue: QueueName,
    kind: Kind,
    budgets: Vec<BudgetName>,
    epoch: u64,
    gate: i64,
}

/// The statements that accept jobs, prepared once for a batch.
pub struct Accept<'a> {
    insert: CachedStatement<'a>,
    /// The gate of the job before: jobs of one batch are often alike.
    newest: Option<Newest>,
}

impl<'a> Accept<'a> {
    /// Prepares them.
    pub fn new(tx: &Tx<'a>) -> Done<Self> {
        Ok(Self { insert: tx.sql(sql!("job", "insert"))?, newest: None })
    }

    fn gate(&mut self, tx: &Tx<'_>, spec: &JobSpec, epoch: u64) -> Done<i64> {
        let JobSpec { queue, kind, budgets, .. } = spec;
        let is_same = |newest: &&Newest| {
            (&newest.queue, &newest.kind, &newest.budgets, newest.epoch) == (queue, kind, budgets, epoch)
        };
        if let Some(newest) = self.newest.as_ref().filter(is_same) {
            return Ok(newest.gate);
        }
        let gate = gate::of(tx, spec, epoch)?;
        let (queue, kind, budgets) = (queue.clone(), kind.clone(), budgets.clone());
        self.newest = Some(Newest { queue, kind, budgets, epoch, gate });
        Ok(gate)
    }

    /// Accepts one job, or answers with the one that is there.
    pub fn one(&mut self, tx: &mut Tx<'_>, new: &NewJob, same_id: SameId) -> Done<Enqueued> {
        // The job of an id is found by its insert; that of a dedupe key stands in another table.
        if new.spec.dedupe_key.is_some()
            && let Some(id) = there(tx, new, same_id)?
        {
            return Ok(Enqueued { id, deduplicated: true });
        }
        let queue = tx.queue(new.spec.queue.as_str())?;
        let job = transition::accept(new.clone(), tx.head.next_seq, &queue.queue.policy, tx.now);
        let epoch = tx.epoch()?.gate_of(&job, tx.now);
        let gate = self.gate(tx, &job.spec, epoch)?;
        let slot = job.spec.key.as_ref().map(|key| slot::of(job.spec.queue.as_str(), key.as_str()));
        if !row_write::insert(&mut self.insert, &job, gate, slot)? {
            let id = there(tx, new, same_id)?
                .ok_or_else(|| Fail::damaged("a job that can be neither inserted nor found"))?;
            return Ok(Enqueued { id, deduplicated: true });
        }
        tx.head.next_seq += 1;
        dedupe::hold(tx, &job)?;
        let stored = Stored { job, gate, slot, heir: false, steps_count: 0 };
        lanes::place(tx, &stored)?;
        tx.moved(What::Enqueued, &stored.job, None, Some(StateName::Queued));
        Ok(Enqueued { id: stored.job.id, deduplicated: false })
    }
}

/// The job that is there: by its id, or by its dedupe key.
fn there(tx: &Tx<'_>, new: &NewJob, same_id: SameId) -> Done<Option<JobId>> {
    if let Some(found) = row::by_id(tx.conn, new.id)? {
        if same_id == SameId::MustBeSame && !found.job.same_content(&new.spec) {
            return Err(StoreError::Conflict(new.id).into());
        }
        return Ok(Some(new.id));
    }
    match &new.spec.dedupe_key {
        None => Ok(None),
        Some(key) => dedupe::holder(tx, key),
    }
}
