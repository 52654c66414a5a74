//! Queues: their policies, and how they stand.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::book::Queue;
use windlass_core::id::QueueName;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::query::QueueStatus;
use windlass_core::store::QueueDeletion;
use windlass_core::time::Time;

use crate::fail::Done;
use crate::rows::row::{parse, text};
use crate::rows::row_write::to_text;
use crate::rows::tally::{self, Tally};
use crate::rows::{due, epoch};
use crate::run::tx::Tx;

/// A queue that was configured or paused.
pub fn load(conn: &Connection, name: &str) -> Done<Option<Queue>> {
    let mut select = conn.prepare_cached(sql!("queue", "load"))?;
    let found: Option<(String, bool)> =
        select.query_row(params![name], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    found.map(|(policy, paused)| Ok(Queue { policy: parse(&policy)?, paused })).transpose()
}

/// Sets the policy of a queue; mirrors `Book::put_queue`.
pub fn put(tx: &mut Tx<'_>, name: &QueueName, policy: &QueuePolicy) -> Done<()> {
    let policy = policy.clone().checked()?;
    let lease_ms = load(tx.conn, name.as_str())?.map_or(0, |queue| queue.policy.lease_ms);
    if policy.lease_ms < lease_ms {
        epoch::note_lease(tx, name.as_str(), lease_ms)?;
    }
    change(tx, name, |queue| queue.policy = policy)
}

/// Pauses a queue, or lets it go on.
pub fn pause(tx: &mut Tx<'_>, name: &QueueName, paused: bool) -> Done<()> {
    change(tx, name, |queue| queue.paused = paused)
}

/// Takes a queue's policy and its pause away, when it has no jobs that are not final.
pub fn delete(tx: &mut Tx<'_>, name: &QueueName) -> Done<QueueDeletion> {
    if load(tx.conn, name.as_str())?.is_none() {
        return Ok(QueueDeletion::NotFound);
    }
    let Tally { queued, running, finished: _ } = tally::of_queue(tx.conn, name.as_str())?;
    if queued + running > 0 {
        return Ok(QueueDeletion::InUse { queued: queued.unsigned_abs(), running: running.unsigned_abs() });
    }
    tx.sql(sql!("queue", "delete"))?.execute(params![name.as_str()])?;
    tx.queue_changed();
    tx.wake = true;
    Ok(QueueDeletion::Deleted)
}

fn change(tx: &mut Tx<'_>, name: &QueueName, change: impl FnOnce(&mut Queue)) -> Done<()> {
    let mut queue = load(tx.conn, name.as_str())?.unwrap_or_default();
    change(&mut queue);
    let Queue { policy, paused } = queue;
    let mut save = tx.sql(sql!("queue", "save"))?;
    save.execute(params![name.as_str(), to_text(&policy)?, paused])?;
    tx.queue_changed();
    tx.wake = true;
    Ok(())
}

/// The queues that were configured or have jobs that are not final, by name.
pub fn list(conn: &Connection, now: Time) -> Done<Vec<QueueStatus>> {
    let mut found = configured(conn)?;
    for (name, Tally { queued, running, finished: _ }) in tally::all_queues(conn)? {
        if queued + running > 0 {
            let name = QueueName::new(name)?;
            let status = found.entry(name.clone()).or_insert_with(|| blank(name, Queue::default()));
            status.queued = queued.unsigned_abs();
            status.running = running.unsigned_abs();
        }
    }
    for status in found.values_mut().filter(|status| status.queued > 0) {
        status.oldest_due = due::oldest(conn, status.name.as_str(), now)?;
    }
    Ok(found.into_values().collect())
}

fn blank(name: QueueName, Queue { policy, paused }: Queue) -> QueueStatus {
    QueueStatus { name, policy, paused, queued: 0, running: 0, oldest_due: None }
}

fn configured(conn: &Connection) -> Done<BTreeMap<QueueName, QueueStatus>> {
    let mut select = conn.prepare_cached(sql!("queue", "all"))?;
    let mut rows = select.query([])?;
    let mut found = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let name = QueueName::new(text(row, 0)?)?;
        let queue = Queue { policy: parse(text(row, 1)?)?, paused: row.get(2)? };
        found.insert(name.clone(), blank(name, queue));
    }
    Ok(found)
}
