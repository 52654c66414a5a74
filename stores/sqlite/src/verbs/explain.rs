//! Why a job is not running: the same rules that a claim goes by.

use rusqlite::{Connection, params};
use uuid::Uuid;
use windlass_core::book::find::AHEAD_MAX;
use windlass_core::eligible::{BudgetNow, Explanation, Hold, QueueNow, explain as explain_job, holds};
use windlass_core::id::JobId;
use windlass_core::job::Job;
use windlass_core::query::WORKER_ALIVE_MS;
use windlass_core::state::State;
use windlass_core::time::Time;

use crate::fail::Done;
use crate::ready::gate::{self, Awake};
use crate::ready::keys;
use crate::rows::epoch::EpochNow;
use crate::rows::head::signed;
use crate::rows::row;
use crate::rows::tally;
use crate::run::readers::View;
use crate::verbs::{budgets, queues, workers};

/// Why a job is not running; nothing when there is no such job.
pub fn explain(view: &View<'_>, id: JobId) -> Done<Option<Explanation>> {
    let View { conn, now, .. } = *view;
    let Some(stored) = row::by_id(conn, id)? else { return Ok(None) };
    let job = stored.job;
    let holds = match job.state {
        State::Queued => holds_of(view, &job, stored.slot)?,
        _ => Vec::new(),
    };
    let ready = matches!(job.state, State::Queued) && holds.is_empty();
    let (ahead, workers) =
        if ready { (ahead(conn, &job, now)?, workers_for(conn, &job, now)?) } else { (0, 0) };
    Ok(Some(explain_job(&job, holds, ahead, workers)))
}

fn holds_of(view: &View<'_>, job: &Job, slot: Option<i64>) -> Done<Vec<Hold>> {
    let View { conn, now, .. } = *view;
    let queue = queues::load(conn, job.spec.queue.as_str())?.unwrap_or_default();
    let running = tally::of_queue(conn, job.spec.queue.as_str())?.running;
    let epoch = EpochNow::load(conn, view.pause_ms_max)?;
    let until = epoch.pause_until(conn, job.spec.queue.as_str(), now)?;
    let queue_now = QueueNow {
        policy: &queue.policy,
        paused: queue.paused,
        running: u32::try_from(running).unwrap_or(u32::MAX),
        key_holder: key_holder(conn, slot)?,
        pause: until.map(|until| (&epoch.epoch, until)),
    };
    let mut named = Vec::new();
    for name in &job.spec.budgets {
        if let Some(budget) = budgets::load(conn, name)? {
            named.push((budget, tally::slots_used(conn, name.as_str())?));
        }
    }
    let budgets_now = named
        .iter()
        .map(|(budget, slots_used)| (budget.name.clone(), BudgetNow { budget, slots_used: *slots_used }));
    Ok(holds(job, &queue_now, &budgets_now.collect(), now))
}

/// The running job that has this key.
fn key_holder(conn: &Connection, slot: Option<i64>) -> Done<Option<JobId>> {
    let Some(slot) = slot else { return Ok(None) };
    let Some(seq) = keys::running(conn, slot)? else { return Ok(None) };
    let mut select = conn.prepare_cached(sql!("job", "id"))?;
    let id: [u8; 16] = select.query_row(params![seq], |row| row.get(0))?;
    Ok(Some(JobId(Uuid::from_bytes(id))))
}

/// How many due jobs of its queue go first, counted up to [`AHEAD_MAX`].
fn ahead(conn: &Connection, job: &Job, now: Time) -> Done<u32> {
    let queue = job.spec.queue.as_str();
    let (rank, seq) = (job.rank, signed(job.seq)?);
    let mut found = ready_ahead(conn, queue, rank, seq)?;
    for sql in [sql!("ahead", "waiting"), sql!("ahead", "delayed")] {
        if found < AHEAD_MAX {
            let mut count = conn.prepare_cached(sql)?;
            let more: u32 =
                count.query_row(params![queue, rank, seq, AHEAD_MAX, now.ms()], |row| row.get(0))?;
            found = found.saturating_add(more);
        }
    }
    Ok(found.min(AHEAD_MAX))
}

/// Of the ready jobs, those of its queue that go first: gate by gate, so that
/// other queues are not looked at.
fn ready_ahead(conn: &Connection, queue: &str, rank: i64, seq: i64) -> Done<u32> {
    let mut count = conn.prepare_cached(sql!("ahead", "shown"))?;
    let mut found = 0_u32;
    for Awake { number, .. } in gate::all_awake(conn, queue)? {
        if found >= AHEAD_MAX {
            break;
        }
        let more: u32 = count.query_row(params![number, rank, seq, AHEAD_MAX], |row| row.get(0))?;
        found = found.saturating_add(more);
    }
    Ok(found)
}

fn workers_for(conn: &Connection, job: &Job, now: Time) -> Done<u32> {
    let workers = workers::list(conn)?;
    let alive = workers.iter().filter(|worker| now.ms_since(worker.seen_at) <= WORKER_ALIVE_MS);
    Ok(u32::try_from(alive.filter(|worker| worker.claims(&job.spec)).count()).unwrap_or(u32::MAX))
}
