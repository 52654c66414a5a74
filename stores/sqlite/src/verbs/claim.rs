//! Claims: leases for ready jobs, and the same leases again for the same request.

use rusqlite::{OptionalExtension, params};
use windlass_core::book::claim::{check, leased};
use windlass_core::epoch::next_fence;
use windlass_core::error::StoreError;
use windlass_core::id::QueueName;
use windlass_core::job::Job;
use windlass_core::state::{Lease, StateName};
use windlass_core::store::{ClaimAnswer, ClaimRequest, Leased};
use windlass_core::transition;

use crate::fail::{Done, Fail};
use crate::ready::keys;
use crate::ready::lanes::Place;
use crate::ready::pick::{Picked, Taken, is_wanted, pick};
use crate::ready::{gate, lanes};
use crate::rows::claim_memory::{pack, unpack};
use crate::rows::head::signed;
use crate::rows::row::{self, Stored};
use crate::rows::{epoch, past};
use crate::run::many::{Grouped, numbers};
use crate::run::tx::Tx;
use crate::verbs::budgets;

/// Gives leases of jobs that may run now, in order; to a request that was answered before, the same.
pub fn claim(tx: &mut Tx<'_>, request: &ClaimRequest) -> Done<ClaimAnswer> {
    check(request)?;
    match claimed_before(tx, request)? {
        Some(answer) => Ok(answer),
        None => claim_anew(tx, request),
    }
}

/// The same, for a request that was never made before.
pub fn claim_anew(tx: &mut Tx<'_>, request: &ClaimRequest) -> Done<ClaimAnswer> {
    let delayed = lanes::has_delayed(tx)?;
    let more_due = delayed && lanes::promote(tx)?;
    let Picked { jobs, taken, gates, empty, more, next_free, spent } = pick(tx, request)?;
    gate::sleep(tx, empty)?;
    take_out(tx, &jobs, &taken)?;
    let leases = lease_all(tx, request, jobs, gates)?;
    for budget in &spent {
        budgets::save(tx.conn, budget)?;
    }
    remember(tx, request, &leases)?;
    let next_due = if more {
        None
    } else if !delayed {
        next_free
    } else if more_due {
        Some(tx.now)
    } else {
        let delayed = lanes::next_due(tx, |queue, kind| is_wanted(request, queue, kind))?;
        delayed.into_iter().chain(next_free).min()
    };
    // Who claims is awake; what it left is for its next claim.
    tx.wake = false;
    let instance = Some(tx.epoch()?.epoch.instance);
    Ok(ClaimAnswer { leases, next_due_in_ms: next_due.map(|at| at.ms_since(tx.now)), instance })
}

/// Takes the jobs of a claim out of the ready ones: at once those of a gate of which none was left out.
fn take_out(tx: &Tx<'_>, jobs: &[Stored], taken: &[Taken]) -> Done<()> {
    for Taken { last, count, whole } in taken {
        if *whole {
            let hidden = lanes::hide_up_to(tx, *last)?;
            if hidden != *count {
                return Err(Fail::damaged(format!("{hidden} ready jobs where {count} were read")));
            }
            continue;
        }
        for stored in jobs.iter().filter(|stored| stored.gate == last.gate) {
            lanes::hide(tx, Place::of(stored)?)?;
        }
    }
    Ok(())
}

fn lease_all(tx: &mut Tx<'_>, request: &ClaimRequest, picked: Vec<Stored>, gates: u32) -> Done<Vec<Leased>> {
    let mut leases = Vec::with_capacity(picked.len());
    let mut by_length: Grouped<u32, i64> = Grouped::default();
    let mut noted: Option<QueueName> = None;
    let mut keys = keys::Take::new(gates);
    let floor = tx.epoch()?.epoch.floor;
    for mut stored in picked {
        let place = Place::of(&stored)?;
        let queue = tx.queue(stored.job.spec.queue.as_str())?;
        let policy = &queue.queue.policy;
        if let Some(longer) =
            request.lease_ms.filter(|ms| *ms > policy.lease_ms && noted.as_ref() != Some(&queue.name))
        {
            epoch::note_lease(tx, queue.name.as_str(), longer)?;
            noted = Some(queue.name.clone());
        }
        let lease_ms = request.lease_ms.unwrap_or(policy.lease_ms);
        let moved = transition::claim(&mut stored.job, &request.worker, lease_ms, floor, tx.now);
        if place.again {
            lease_again(tx, &stored.job)?;
        } else {
            by_length.add(&lease_ms, place.seq);
        }
        if let Some(slot) = stored.slot.filter(|_| !stored.heir) {
            keys.add(tx, slot, place)?;
        }
        tx.moved(moved.what, &stored.job, Some(StateName::Queued), Some(StateName::Running));
        tx.memory.leased.add(&stored)?;
        leases.push(leased(stored.with_steps(tx.conn)?, policy));
    }
    keys.write(tx)?;
    // As transition::claim counts: none of these was claimed before.
    let fence = signed(next_fence(0, floor))?;
    for (lease_ms, seqs) in by_length.0 {
        let expires_at = tx.now.plus_ms(i64::from(lease_ms));
        let mut insert = tx.sql(sql!("lease", "claim"))?;
        let worker = request.worker.as_str();
        insert.execute(params![numbers(seqs), tx.now.ms(), lease_ms, expires_at.ms(), worker, fence])?;
    }
    Ok(leases)
}

/// Writes the lease of a job that was claimed before, or has had another life.
fn lease_again(tx: &Tx<'_>, job: &Job) -> Done<()> {
    let lease = job.lease().ok_or_else(|| Fail::damaged("a claimed job that is not running"))?;
    let Lease { worker, fence, started_at, lease_ms, expires_at, cancel_requested: _, marked_at: _ } = lease;
    let seq = signed(job.seq)?;
    past::forget(tx, seq)?;
    tx.sql(sql!("lease", "claim_again"))?.execute(params![
        seq,
        signed(*fence)?,
        job.attempt,
        started_at.ms(),
        lease_ms,
        expires_at.ms(),
        worker.as_str(),
    ])?;
    Ok(())
}

fn claimed_before(tx: &mut Tx<'_>, request: &ClaimRequest) -> Done<Option<ClaimAnswer>> {
    let mut select = tx.sql(sql!("claim", "recall"))?;
    let found: Option<(Vec<u8>, Option<String>)> = select
        .query_row(params![request.request_id.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((packed, asked)) = found else { return Ok(None) };
    if asked != Some(request.asked()) {
        return Err(StoreError::RequestTaken(request.request_id).into());
    }
    let mut leases = Vec::new();
    for (seq, fence) in unpack(&packed)? {
        let held = row::by_seq(tx.conn, seq)?.filter(|found| found.job.lease_for(fence).is_some());
        if let Some(held) = held {
            let queue = tx.queue(held.job.spec.queue.as_str())?;
            leases.push(leased(held.with_steps(tx.conn)?, &queue.queue.policy));
        }
    }
    let instance = Some(tx.epoch()?.epoch.instance);
    Ok(Some(ClaimAnswer { leases, next_due_in_ms: None, instance }))
}

fn remember(tx: &Tx<'_>, request: &ClaimRequest, leases: &[Leased]) -> Done<()> {
    if leases.is_empty() {
        return Ok(());
    }
    let packed = pack(leases.iter().map(|lease| (lease.job.seq, lease.job.fence)));
    let mut insert = tx.sql(sql!("claim", "remember"))?;
    insert.execute(params![request.request_id.as_bytes(), tx.now.ms(), packed, request.asked()])?;
    Ok(())
}
