//! Lanes: how a claim finds ready jobs without looking at any that are not.
//!
//! A queued job is ready, delayed, or waiting behind its key. Of the due jobs
//! of a key, while none of them is running, each gate shows the first by
//! (rank, seq) in the lane "ready"; all others wait. While one is running, all
//! wait. So a million jobs behind a busy key cost a claim nothing.
//!
//! One per gate and not one per key: a job whose kind nobody asks for, or whose
//! budget is spent, must not hold back a job of its key that could run.

use rusqlite::{CachedStatement, OptionalExtension, params};
use windlass_core::id::{Key, QueueName};
use windlass_core::job::Job;
use windlass_core::store::PROMOTE_MAX;
use windlass_core::time::Time;

use crate::fail::Done;
use crate::many::{numbers, texts};
use crate::row::{Lane, opt_text, text};
use crate::tx::Tx;

/// The lane of a job that comes into the queue now. One of its key that has to
/// stand behind it is moved.
pub fn place(tx: &mut Tx<'_>, job: &Job, gate: i64) -> Done<Lane> {
    if job.run_at > tx.now {
        return Ok(Lane::Delayed);
    }
    let Some(key) = &job.spec.key else {
        tx.wake = true;
        return Ok(Lane::Ready);
    };
    place_due(tx, job.spec.queue.as_str(), key.as_str(), gate, (job.rank, job.seq))
}

fn place_due(tx: &mut Tx<'_>, queue: &str, key: &str, gate: i64, place: (i64, u64)) -> Done<Lane> {
    if tx.sql(include_str!("../sql/key_is_running.sql"))?.exists(params![queue, key])? {
        return Ok(Lane::Waiting);
    }
    let mut select = tx.sql(include_str!("../sql/key_ready.sql"))?;
    let shown: Option<(i64, i64)> =
        select.query_row(params![queue, key, gate], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    if let Some((rank, seq)) = shown {
        if (rank, seq.unsigned_abs()) < place {
            return Ok(Lane::Waiting);
        }
        set(tx, seq, Lane::Waiting)?;
    }
    tx.wake = true;
    Ok(Lane::Ready)
}

/// Keys have become free: the first of their waiting jobs in each gate are shown.
pub fn free_keys(tx: &mut Tx<'_>, queue: &QueueName, keys: &[Key]) -> Done<()> {
    let mut shown = Vec::new();
    let mut select = tx.sql(include_str!("../sql/key_first_waiting.sql"))?;
    for key in keys {
        let mut from = i64::MIN;
        while let Some((gate, seq)) = first_waiting(&mut select, queue, key, from, i64::MAX)? {
            shown.push(seq);
            match gate.checked_add(1) {
                Some(next) => from = next,
                None => break,
            }
        }
    }
    if !shown.is_empty() {
        tx.wake = true;
        tx.sql(include_str!("../sql/lane_show.sql"))?.execute(params![numbers(shown)])?;
    }
    Ok(())
}

/// A job that was shown has left: the next of its key and gate takes its place.
pub fn show_next(tx: &mut Tx<'_>, queue: &QueueName, key: &Key, gate: i64) -> Done<()> {
    let mut select = tx.sql(include_str!("../sql/key_first_waiting.sql"))?;
    if let Some((_, seq)) = first_waiting(&mut select, queue, key, gate, gate)? {
        set(tx, seq, Lane::Ready)?;
        tx.wake = true;
    }
    Ok(())
}

/// Jobs of these keys run now: all others of them wait.
pub fn hide_keys(tx: &Tx<'_>, queue: &QueueName, keys: &[Key]) -> Done<()> {
    tx.sql(include_str!("../sql/key_hide.sql"))?.execute(params![queue.as_str(), texts(keys)])?;
    Ok(())
}

fn first_waiting(
    select: &mut CachedStatement<'_>,
    queue: &QueueName,
    key: &Key,
    from: i64,
    to: i64,
) -> Done<Option<(i64, i64)>> {
    let first = select
        .query_row(params![queue.as_str(), key.as_str(), from, to], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(first.optional()?)
}

/// Moves delayed jobs whose time has come, those that were due first first.
/// Answers whether there may be more of them.
pub fn promote(tx: &mut Tx<'_>) -> Done<bool> {
    let due = select_due(tx)?;
    let more = due.len() >= PROMOTE_MAX as usize;
    for Due { seq, rank, queue, key, gate } in due {
        let lane = match key {
            None => Lane::Ready,
            Some(key) => place_due(tx, &queue, &key, gate, (rank, seq.unsigned_abs()))?,
        };
        set(tx, seq, lane)?;
    }
    Ok(more)
}

/// A delayed job whose time has come.
struct Due {
    seq: i64,
    rank: i64,
    queue: String,
    key: Option<String>,
    gate: i64,
}

fn select_due(tx: &Tx<'_>) -> Done<Vec<Due>> {
    let mut select = tx.sql(include_str!("../sql/delayed_due.sql"))?;
    let mut rows = select.query(params![tx.now.ms(), PROMOTE_MAX])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(Due {
            seq: row.get(0)?,
            rank: row.get(1)?,
            queue: text(row, 2)?.to_owned(),
            key: opt_text(row, 3)?.map(str::to_owned),
            gate: row.get(4)?,
        });
    }
    Ok(found)
}

/// When the next delayed job of a sort that is wanted is due. Looks at a
/// bounded number of them, so the answer may be early, and never late.
pub fn next_due(tx: &Tx<'_>, wanted: impl Fn(&str, &str) -> bool) -> Done<Option<Time>> {
    const LOOKS_MAX: u32 = 256;
    let mut select = tx.sql(include_str!("../sql/delayed_next.sql"))?;
    let mut rows = select.query(params![LOOKS_MAX])?;
    let mut looks = 0;
    while let Some(row) = rows.next()? {
        looks += 1;
        if looks == LOOKS_MAX || wanted(text(row, 1)?, text(row, 2)?) {
            return Ok(Some(Time::from_ms(row.get(0)?)));
        }
    }
    Ok(None)
}

fn set(tx: &Tx<'_>, seq: i64, lane: Lane) -> Done<()> {
    tx.sql(include_str!("../sql/lane_set.sql"))?.execute(params![seq, lane as i64])?;
    Ok(())
}

/// The lane of a queued job that has left its attempt. It stands with the
/// waiting ones of its key until the key is freed, which then shows the first.
pub fn after_attempt(tx: &Tx<'_>, job: &Job) -> Lane {
    if job.run_at > tx.now {
        Lane::Delayed
    } else if job.spec.key.is_some() {
        Lane::Waiting
    } else {
        Lane::Ready
    }
}
