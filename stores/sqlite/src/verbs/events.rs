//! Events: one row for all jobs of a queue that a call moved the same way.

use rusqlite::{Connection, params};
use uuid::Uuid;
use windlass_core::event::{Action, Event, Position, What};
use windlass_core::id::{JobId, QueueName};
use windlass_core::store::{EVENTS_BYTES_MAX, EVENTS_KEPT, EVENTS_MAX};
use windlass_core::time::Time;

use crate::fail::{Done, Fail};
use crate::rows::epoch::EpochNow;
use crate::rows::head::{Head, signed};
use crate::rows::row::{opt_text, parse};
use crate::rows::row_write::to_text;
use crate::run::tx::Tx;

/// Writes what happened to jobs as the next event.
pub fn insert(tx: &mut Tx<'_>, what: What, queue: &QueueName, jobs: &[JobId]) -> Done<()> {
    let mut packed = Vec::with_capacity(jobs.len() * 16);
    for job in jobs {
        packed.extend_from_slice(job.0.as_bytes());
    }
    write(tx, what, queue, &packed, None)
}

/// Writes what an operator did as the next event.
pub fn act(tx: &mut Tx<'_>, action: &Action) -> Done<()> {
    write(tx, What::Acted, &QueueName::default(), &[], Some(to_text(action)?))
}

fn write(tx: &mut Tx<'_>, what: What, queue: &QueueName, jobs: &[u8], action: Option<String>) -> Done<()> {
    tx.head.next_event += 1;
    let mut insert = tx.sql(sql!("event", "insert"))?;
    let position = signed(tx.head.next_event)?;
    insert.execute(params![position, tx.now.ms(), what.code(), queue.as_str(), jobs, action])?;
    Ok(())
}

/// What happened after `since`, of what is kept.
pub fn list(conn: &Connection, head: &Head, since: Option<Position>, limit: u32) -> Done<Vec<Event>> {
    let epoch = tag(conn)?;
    let oldest = head.next_event.saturating_sub(EVENTS_KEPT);
    let since = Position::read(since, epoch, oldest, head.next_event)?;
    let from = i64::try_from(since.max(oldest)).unwrap_or(i64::MAX);
    let mut select = conn.prepare_cached(sql!("event", "list"))?;
    let mut rows = select.query(params![from, limit.min(EVENTS_MAX)])?;
    let mut events = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let code: i16 = row.get(2)?;
        let packed = row.get_ref(4)?.as_blob().map_err(|_| Fail::damaged("an event without jobs"))?;
        let (ids, _) = packed.as_chunks::<16>();
        let action: Option<&str> = opt_text(row, 5)?;
        let event = Event {
            position: Position { epoch, place: row.get::<_, i64>(0)?.unsigned_abs() },
            at: Time::from_ms(row.get(1)?),
            what: What::from_code(code).ok_or_else(|| Fail::damaged(format!("an event of code {code}")))?,
            queue: QueueName::new(row.get::<_, String>(3)?)?,
            jobs: ids.iter().map(|id| JobId(Uuid::from_bytes(*id))).collect(),
            action: action.map(parse).transpose()?,
        };
        bytes += event.bytes();
        if bytes > EVENTS_BYTES_MAX && !events.is_empty() {
            break;
        }
        events.push(event);
    }
    Ok(events)
}

/// The newest position.
pub fn end(conn: &Connection, head: &Head) -> Done<Position> {
    Ok(Position { epoch: tag(conn)?, place: head.next_event })
}

fn tag(conn: &Connection) -> Done<u32> {
    Ok(EpochNow::load(conn, None)?.epoch.tag())
}

/// Deletes events that are not kept any more, the oldest first and `most` at most; answers how many.
pub fn sweep(tx: &mut Tx<'_>, most: usize) -> Done<usize> {
    let oldest = signed(tx.head.next_event.saturating_sub(EVENTS_KEPT))?;
    Ok(tx.sql(sql!("event", "sweep"))?.execute(params![oldest, most.cast_signed()])?)
}
