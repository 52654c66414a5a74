//! What never changes of the jobs that this process has leased, so that their
//! settlements need not look it up. Whether a lease is still held is always
//! asked of the file. A number of a job is never given twice, so what is
//! remembered under it stays true; when writes are undone, all is forgotten.

use std::collections::HashMap;

use rusqlite::params;
use windlass_core::id::{BudgetName, DedupeKey, JobId, QueueName};

use crate::fail::Done;
use crate::ready::keys::Held;
use crate::rows::head::signed;
use crate::rows::row::{Stored, opt_name, opt_text, parse, text};
use crate::run::tx::Tx;

/// More than so many leases are not remembered: they may be lost and never settled.
const LEASES_REMEMBERED: usize = 20_000;

/// What a settlement needs to know of a job.
#[derive(Debug, Clone)]
pub struct Known {
    /// Its number.
    pub seq: i64,
    /// Its queue.
    pub queue: QueueName,
    /// Its place among those of its key, if it has one.
    pub held: Option<Held>,
    /// Its budgets.
    pub budgets: Vec<BudgetName>,
    /// Its dedupe key.
    pub dedupe_key: Option<DedupeKey>,
}

/// The jobs that are leased, by id.
#[derive(Debug, Default)]
pub struct KnownJobs(HashMap<JobId, Known>);

impl KnownJobs {
    /// Remembers a job that is leased.
    pub fn add(&mut self, stored: &Stored) -> Done<()> {
        let Stored { job, gate, slot, heir: _, steps_count: _ } = stored;
        let seq = signed(job.seq)?;
        if self.0.len() >= LEASES_REMEMBERED {
            self.0.clear();
        }
        let known = Known {
            seq,
            queue: job.spec.queue.clone(),
            held: slot.map(|slot| Held { slot, gate: *gate, rank: job.rank, seq }),
            budgets: job.spec.budgets.clone(),
            dedupe_key: job.spec.dedupe_key.clone(),
        };
        self.0.insert(job.id, known);
        Ok(())
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// A job that is about to be settled; nothing when there is none. It is remembered no longer.
pub fn take(tx: &mut Tx<'_>, id: JobId) -> Done<Option<Known>> {
    match tx.memory.leased.0.remove(&id) {
        Some(known) => Ok(Some(known)),
        None => look_up(tx, id),
    }
}

fn look_up(tx: &Tx<'_>, id: JobId) -> Done<Option<Known>> {
    let mut select = tx.sql(sql!("job", "known"))?;
    let mut rows = select.query(params![id.0.as_bytes()])?;
    let Some(row) = rows.next()? else { return Ok(None) };
    let (seq, gate, rank) = (row.get(0)?, row.get(5)?, row.get(6)?);
    let slot: Option<i64> = row.get(2)?;
    Ok(Some(Known {
        seq,
        queue: QueueName::new(text(row, 1)?)?,
        held: slot.map(|slot| Held { slot, gate, rank, seq }),
        budgets: opt_text(row, 3)?.map(parse).transpose()?.unwrap_or_default(),
        dedupe_key: opt_name(row, 4)?,
    }))
}
