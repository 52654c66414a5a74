//! The one row that every write reads first: the counters and the clock.

use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;
use windlass_core::time::{Clock, Time};
use windlass_core::timekeeper::Timekeeper;

use crate::fail::{Done, Fail};

/// The counters and the clock, as they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// How the store's time is counted.
    pub timekeeper: Timekeeper,
    /// The newest moment that was written: after a restart of the machine the
    /// store's time goes on from there, whatever the wall clock says.
    pub seen: Time,
    /// The next job's place in the order of acceptance.
    pub next_seq: u64,
    /// The newest event's position.
    pub next_event: u64,
    /// Rises when a queue changes: what was remembered of queues is then stale.
    pub queues_rev: i64,
    /// The newest revision of a record.
    pub next_rev: u64,
    /// The number of the newest commit.
    pub commits: u64,
    /// Rises when the epoch changes: what was remembered of it is then stale.
    pub epoch_rev: i64,
}

impl Head {
    /// Reads the row, and begins it when there is none.
    pub fn load(conn: &Connection, clock: &dyn Clock) -> Done<Self> {
        let mut select = conn.prepare_cached(sql!("head", "load"))?;
        let mut head = match select.query_row([], Self::read).optional()? {
            Some(head) => head,
            None => Self {
                timekeeper: Timekeeper::begin(clock),
                seen: Time::MIN,
                next_seq: 0,
                next_event: 0,
                queues_rev: 0,
                next_rev: 0,
                commits: 0,
                epoch_rev: 0,
            },
        };
        head.timekeeper = Timekeeper::resume(head.timekeeper, head.seen, clock);
        Ok(head)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            timekeeper: Timekeeper { boot_id: Uuid::from_bytes(row.get(0)?), offset_ms: row.get(1)? },
            seen: Time::from_ms(row.get(2)?),
            next_seq: row.get::<_, i64>(3)?.unsigned_abs(),
            next_event: row.get::<_, i64>(4)?.unsigned_abs(),
            queues_rev: row.get(5)?,
            next_rev: row.get::<_, i64>(6)?.unsigned_abs(),
            commits: row.get::<_, i64>(7)?.unsigned_abs(),
            epoch_rev: row.get(8)?,
        })
    }

    /// Writes the row, as that of the commit after the newest.
    pub fn save(&mut self, conn: &Connection) -> Done<()> {
        self.commits += 1;
        let Self {
            timekeeper: Timekeeper { boot_id, offset_ms },
            seen,
            next_seq,
            next_event,
            queues_rev,
            next_rev,
            commits,
            epoch_rev,
        } = &*self;
        conn.prepare_cached(sql!("head", "save"))?.execute(params![
            boot_id.as_bytes(),
            offset_ms,
            seen.ms(),
            signed(*next_seq)?,
            signed(*next_event)?,
            queues_rev,
            signed(*next_rev)?,
            signed(*commits)?,
            epoch_rev,
        ])?;
        Ok(())
    }
}

/// SQLite's integers have a sign.
pub fn signed(number: u64) -> Result<i64, Fail> {
    i64::try_from(number).map_err(|_| Fail::damaged("a counter beyond 2^63"))
}
