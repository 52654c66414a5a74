//! What a worker writes while it runs: renewals, steps, progress.

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::id::JobId;
use windlass_core::json::Json;
use windlass_core::step::STEPS_MAX;
use windlass_core::store::{LeaseRef, ProgressWrite, RenewAnswer, StepWrite, Written};

use crate::fail::Done;
use crate::rows::epoch::EpochNow;
use crate::run::tx::Tx;

/// Moves the expiry of leases.
pub fn renew(tx: &mut Tx<'_>, leases: &[LeaseRef]) -> Done<RenewAnswer> {
    let epoch = tx.epoch()?;
    let mut answer = RenewAnswer { instance: Some(epoch.epoch.instance), ..RenewAnswer::default() };
    let mut update = tx.sql(sql!("lease", "renew"))?;
    for lease in leases {
        let Some(held) = held(tx.conn, *lease)? else {
            answer.lost.push(lease.job_id);
            continue;
        };
        update.execute(params![held.seq, tx.now.plus_ms(held.lease_ms).ms()])?;
        answer.renewed.push(lease.job_id);
        if epoch.may_pause(tx.now)
            && let Some(ms) = still_ms(tx, &epoch, held.seq)?
        {
            answer.still.push((lease.job_id, ms));
        }
        if held.cancel_requested {
            answer.cancel_requested.push(lease.job_id);
        }
    }
    Ok(answer)
}

/// For how long an attempt stands still that stood still before it was renewed; mirrors `Book::still_ms`.
fn still_ms(tx: &mut Tx<'_>, epoch: &EpochNow, seq: i64) -> Done<Option<u64>> {
    let mut select = tx.sql(sql!("lease", "queue"))?;
    let queue: String = select.query_row(params![seq], |row| row.get(0))?;
    let queue = tx.queue(&queue)?;
    let until = epoch.pause_until(tx.conn, queue.name.as_str(), tx.now)?;
    Ok(until.map(|until| until.ms_since(tx.now)))
}

/// Of these leases, the jobs that are asked to cancel.
pub fn cancels(conn: &Connection, leases: &[LeaseRef]) -> Done<Vec<JobId>> {
    let mut asked = Vec::new();
    for lease in leases {
        if held(conn, *lease)?.is_some_and(|held| held.cancel_requested) {
            asked.push(lease.job_id);
        }
    }
    Ok(asked)
}

/// Stores outputs of steps. The first output of a name stays.
pub fn store_steps(tx: &mut Tx<'_>, steps: &[StepWrite]) -> Done<Vec<Written>> {
    steps.iter().map(|step| store_step(tx, step)).collect()
}

fn store_step(tx: &Tx<'_>, StepWrite { lease, name, output }: &StepWrite) -> Done<Written> {
    let Some(held) = held(tx.conn, *lease)? else { return Ok(Written::Lost) };
    let mut there = tx.sql(sql!("step", "is_there"))?;
    if held.steps_count > 0 && there.exists(params![held.seq, name.as_str()])? {
        return Ok(Written::Done);
    }
    if held.steps_count as usize >= STEPS_MAX {
        return Ok(Written::TooManySteps);
    }
    tx.sql(sql!("step", "insert"))?.execute(params![
        held.seq,
        held.steps_count,
        name.as_str(),
        output.as_str(),
        held.attempt,
        tx.now.ms(),
    ])?;
    tx.sql(sql!("step", "count"))?.execute(params![held.seq])?;
    Ok(Written::Done)
}

/// Notes progress.
pub fn progress(tx: &mut Tx<'_>, reports: &[ProgressWrite]) -> Done<Vec<Written>> {
    reports.iter().map(|ProgressWrite { lease, progress }| note(tx, *lease, progress)).collect()
}

fn note(tx: &Tx<'_>, lease: LeaseRef, progress: &Json) -> Done<Written> {
    let Some(held) = held(tx.conn, lease)? else { return Ok(Written::Lost) };
    tx.sql(sql!("job", "progress"))?.execute(params![held.seq, progress.as_str()])?;
    Ok(Written::Done)
}

/// What a write of a worker needs to know of the job that it holds.
struct Held {
    seq: i64,
    lease_ms: i64,
    cancel_requested: bool,
    steps_count: u32,
    attempt: u32,
}

/// Whether a job is held with this fence.
pub fn is_held(conn: &Connection, lease: LeaseRef) -> Done<bool> {
    Ok(held(conn, lease)?.is_some())
}

/// The job that is held with this fence.
fn held(conn: &Connection, lease: LeaseRef) -> Done<Option<Held>> {
    let mut select = conn.prepare_cached(sql!("lease", "held"))?;
    let held = select.query_row(params![lease.job_id.0.as_bytes(), lease.fence.cast_signed()], |row| {
        Ok(Held {
            seq: row.get(0)?,
            lease_ms: row.get(1)?,
            cancel_requested: row.get(2)?,
            steps_count: row.get(3)?,
            attempt: row.get(4)?,
        })
    });
    Ok(held.optional()?)
}
