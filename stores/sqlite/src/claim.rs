//! Claims: leases for ready jobs, and the same leases again for the same request.

use rusqlite::{OptionalExtension, params};
use windlass_core::book::claim::{check, leased};
use windlass_core::id::{Key, QueueName, WorkerName};
use windlass_core::job::Job;
use windlass_core::state::StateName;
use windlass_core::store::{ClaimAnswer, ClaimRequest, Leased};
use windlass_core::time::Time;
use windlass_core::transition;

use crate::claim_memory::{pack, unpack};
use crate::fail::{Done, Fail};
use crate::head::signed;
use crate::many::{Grouped, numbers};
use crate::pick::{Picked, is_wanted, pick};
use crate::row::{self, Stored};
use crate::tx::Tx;
use crate::{budgets, lanes};

/// Gives leases of jobs that may run now, in order.
pub fn claim(tx: &mut Tx<'_>, request: &ClaimRequest) -> Done<ClaimAnswer> {
    check(request)?;
    if let Some(answer) = claimed_before(tx, request)? {
        return Ok(answer);
    }
    let more_due = lanes::promote(tx)?;
    let Picked { jobs, more, next_free, spent } = pick(tx, request)?;
    let leases = lease_all(tx, request, jobs)?;
    for budget in &spent {
        budgets::save(tx.conn, budget)?;
    }
    remember(tx, request, &leases)?;
    let next_due = if more {
        None
    } else if more_due {
        Some(tx.now)
    } else {
        let delayed = lanes::next_due(tx, |queue, kind| is_wanted(request, queue, kind))?;
        delayed.into_iter().chain(next_free).min()
    };
    // Who claims is awake; what it left is for its next claim.
    tx.wake = false;
    Ok(ClaimAnswer { leases, next_due_in_ms: next_due.map(|at| at.ms_since(tx.now)) })
}

fn lease_all(tx: &mut Tx<'_>, request: &ClaimRequest, picked: Vec<Stored>) -> Done<Vec<Leased>> {
    let mut leases = Vec::with_capacity(picked.len());
    let mut by_length: Grouped<(u32, Time), i64> = Grouped::default();
    let mut keys: Grouped<QueueName, Key> = Grouped::default();
    for mut stored in picked {
        let queue = tx.queue(stored.job.spec.queue.as_str())?;
        let policy = &queue.queue.policy;
        let lease_ms = request.lease_ms.unwrap_or(policy.lease_ms);
        let moved = transition::claim(&mut stored.job, &request.worker, lease_ms, tx.now);
        by_length.add(&(lease_ms, expires_at(&stored.job)?), signed(stored.job.seq)?);
        if let Some(key) = &stored.job.spec.key {
            keys.add(&queue.name, key.clone());
        }
        tx.moved(moved.what, &stored.job, Some(StateName::Queued), Some(StateName::Running));
        leases.push(leased(stored.with_steps(tx.conn)?, policy));
    }
    for ((lease_ms, expires_at), seqs) in by_length.0 {
        write_leases(tx, &request.worker, lease_ms, expires_at, seqs)?;
    }
    for (queue, keys) in keys.0 {
        lanes::hide_keys(tx, &queue, &keys)?;
    }
    Ok(leases)
}

fn write_leases(
    tx: &Tx<'_>,
    worker: &WorkerName,
    lease_ms: u32,
    expires_at: Time,
    seqs: Vec<i64>,
) -> Done<()> {
    let count = seqs.len();
    let mut update = tx.sql(include_str!("../sql/claim.sql"))?;
    let written =
        update.execute(params![numbers(seqs), tx.now.ms(), worker.as_str(), lease_ms, expires_at.ms()])?;
    if written == count { Ok(()) } else { Err(Fail::damaged("a job that was read and cannot be written")) }
}

fn expires_at(job: &Job) -> Done<Time> {
    let lease = job.lease().ok_or_else(|| Fail::damaged("a claimed job that is not running"))?;
    Ok(lease.expires_at)
}

fn claimed_before(tx: &mut Tx<'_>, request: &ClaimRequest) -> Done<Option<ClaimAnswer>> {
    let mut select = tx.sql(include_str!("../sql/claim_recall.sql"))?;
    let packed: Option<Vec<u8>> =
        select.query_row(params![request.request_id.as_bytes()], |row| row.get(0)).optional()?;
    let Some(packed) = packed else { return Ok(None) };
    let mut leases = Vec::new();
    for (seq, fence) in unpack(&packed)? {
        let held = row::by_seq(tx.conn, seq)?.filter(|found| found.job.lease_for(fence, tx.now).is_some());
        if let Some(held) = held {
            let queue = tx.queue(held.job.spec.queue.as_str())?;
            leases.push(leased(held.with_steps(tx.conn)?, &queue.queue.policy));
        }
    }
    Ok(Some(ClaimAnswer { leases, next_due_in_ms: None }))
}

fn remember(tx: &Tx<'_>, request: &ClaimRequest, leases: &[Leased]) -> Done<()> {
    if leases.is_empty() {
        return Ok(());
    }
    let packed = pack(leases.iter().map(|lease| (lease.job.seq, lease.job.fence)));
    let mut insert = tx.sql(include_str!("../sql/claim_remember.sql"))?;
    insert.execute(params![request.request_id.as_bytes(), tx.now.ms(), packed])?;
    Ok(())
}
