//! The epoch of the store, as the file keeps it, and what it holds back. The rules are those of
//! `windlass_core::epoch`; when a new one begins is decided in `incarnation`.
//!
//! What an epoch holds back is found without a look at it: jobs that are accepted while one may hold back others,
//! and that nobody can hold, stand at gates of their own (`gate::of`), and a claim passes by all other gates.

use rusqlite::{Connection, OptionalExtension, Row, params};
use uuid::Uuid;
use windlass_core::epoch::{Epoch, FLOOR_STEP, PAUSE_MS_MAX};
use windlass_core::incarnation::FileId;
use windlass_core::job::Job;
use windlass_core::long_leases::{DAY_MS, SLACK_MS};
use windlass_core::policy::queue::LEASE_MS_DEFAULT;
use windlass_core::store::EpochStatus;
use windlass_core::time::Time;

use crate::fail::{Done, Fail};
use crate::rows::head::{Head, signed};
use crate::run::readers::View;
use crate::run::tx::Tx;
use crate::verbs::{budgets, queues};

/// The row of the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The epoch.
    pub epoch: Epoch,
    /// The longest that it holds back anything, as it was set when it began.
    pub pause_ms_max: u32,
    /// The file that it is the epoch of.
    pub file: FileId,
}

impl Kept {
    /// Reads the row; nothing when the store was never in an epoch.
    pub fn load(conn: &Connection) -> Done<Option<Self>> {
        let mut select = conn.prepare_cached(sql!("epoch", "load"))?;
        Ok(select.query_row([], Self::read).optional()?)
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let number = |at: usize| row.get::<_, i64>(at).map(i64::cast_unsigned);
        Ok(Self {
            epoch: Epoch {
                number: number(0)?,
                instance: Uuid::from_bytes(row.get(1)?),
                floor: number(2)?,
                began_at: Time::from_ms(row.get(3)?),
                first_seq: number(4)?,
                lossy: row.get(5)?,
            },
            pause_ms_max: row.get(6)?,
            file: FileId {
                dev: number(7)?,
                ino: number(8)?,
                born_ns: row.get(9)?,
                boot: Uuid::from_bytes(row.get(10)?),
            },
        })
    }

    /// Writes the row, and tells all that remember it.
    pub fn save(&self, conn: &Connection, head: &mut Head) -> Done<()> {
        let Self { epoch, pause_ms_max, file: FileId { dev, ino, born_ns, boot } } = self;
        let Epoch { number, instance, floor, began_at, first_seq, lossy } = epoch;
        conn.prepare_cached(sql!("epoch", "save"))?.execute(params![
            signed(*number)?,
            instance.as_bytes(),
            signed(*floor)?,
            began_at.ms(),
            signed(*first_seq)?,
            lossy,
            pause_ms_max,
            dev.cast_signed(),
            ino.cast_signed(),
            born_ns,
            boot.as_bytes(),
        ])?;
        head.epoch_rev += 1;
        Ok(())
    }
}

/// Begins a new epoch; mirrors `Book::enter`.
pub fn enter(conn: &Connection, head: &mut Head, kept: &Kept) -> Done<()> {
    let now = kept.epoch.began_at;
    head.next_rev += FLOOR_STEP;
    let mut renew = conn.prepare_cached(sql!("lease", "renew_all"))?;
    renew.execute(params![now.ms(), Time::MAX.ms()])?;
    budgets::fill(conn, kept.epoch.lossy, now)?;
    fix_pauses(conn, kept)?;
    kept.save(conn, head)
}

/// Fixes for how long the epoch that begins holds back jobs, by what is known of their queues now.
fn fix_pauses(conn: &Connection, kept: &Kept) -> Done<()> {
    conn.prepare_cached(sql!("pause", "clear"))?.execute([])?;
    if kept.epoch.lossy {
        let mut fix = conn.prepare_cached(sql!("pause", "fix"))?;
        fix.execute(params![kept.pause_ms_max, LEASE_MS_DEFAULT])?;
    }
    Ok(())
}

/// The epoch as a program sees it.
#[derive(Debug, Clone, Copy)]
pub struct EpochNow {
    /// The epoch.
    pub epoch: Epoch,
    /// The longest that it holds back anything, by whatever setting.
    began_with_ms_max: u32,
    /// The same, by the settings of this program.
    pause_ms_max: u32,
}

impl EpochNow {
    /// Reads it, for a program that holds back nothing for longer than `pause_ms_max`.
    pub fn load(conn: &Connection, pause_ms_max: Option<u32>) -> Done<Self> {
        let kept = Kept::load(conn)?.ok_or_else(|| Fail::damaged("no epoch"))?;
        Ok(Self {
            epoch: kept.epoch,
            began_with_ms_max: kept.pause_ms_max,
            pause_ms_max: pause_ms_max.map_or(kept.pause_ms_max, |ms| ms.min(kept.pause_ms_max)),
        })
    }

    /// Whether it may hold back anything, of whatever queue.
    pub fn may_pause(&self, now: Time) -> bool {
        self.epoch.pause_until(u32::MAX, self.began_with_ms_max).is_some_and(|until| now < until)
    }

    /// The number of the epoch, when a job that comes now stands at a gate that it does not hold back; else 0.
    pub fn gate_of(&self, job: &Job, now: Time) -> u64 {
        let is_free = self.may_pause(now) && !self.epoch.may_be_held(job, false);
        if is_free { self.epoch.number } else { 0 }
    }

    /// Until when jobs of a queue are held back that somebody else may hold, when they are. Mirrors
    /// `Book::pause_until`.
    pub fn pause_until(&self, conn: &Connection, queue: &str, now: Time) -> Done<Option<Time>> {
        if !self.may_pause(now) {
            return Ok(None);
        }
        let mut select = conn.prepare_cached(sql!("pause", "load"))?;
        let fixed_ms = select.query_row(params![queue], |row| row.get(0)).optional()?;
        let until = self.epoch.pause_until(fixed_ms.unwrap_or(LEASE_MS_DEFAULT), self.pause_ms_max);
        Ok(until.filter(|until| now < *until))
    }
}

/// The longest that an epoch which begins now holds back anything.
pub fn pause_ms_max(setting: Option<u32>) -> u32 {
    setting.unwrap_or(PAUSE_MS_MAX)
}

/// The epoch, and until when it holds something back.
pub fn status(view: &View<'_>) -> Done<EpochStatus> {
    let now = EpochNow::load(view.conn, view.pause_ms_max)?;
    let mut paused_until = None;
    if now.may_pause(view.now) {
        for queue in queues::list(view.conn, view.now)? {
            if queue.queued + queue.running > 0 {
                let until = now.pause_until(view.conn, queue.name.as_str(), view.now)?;
                paused_until = paused_until.max(until);
            }
        }
    }
    Ok(EpochStatus { epoch: now.epoch, paused_until })
}

/// Remembers that a lease was claimed that is longer than its queue says, or will say; mirrors `LongLeases::note`.
pub fn note_lease(tx: &Tx<'_>, queue: &str, lease_ms: u32) -> Done<()> {
    let day = tx.now.plus_ms(DAY_MS);
    let mut note = tx.sql(sql!("long_lease", "note"))?;
    if note.execute(params![queue, lease_ms, day.plus_ms(SLACK_MS).ms(), day.ms()])? > 0 {
        tx.sql(sql!("long_lease", "shorter"))?.execute(params![queue, lease_ms])?;
    }
    Ok(())
}

/// Forgets leases that nobody holds any more.
pub fn sweep(tx: &Tx<'_>) -> Done<()> {
    tx.sql(sql!("long_lease", "sweep"))?.execute(params![tx.now.ms()])?;
    Ok(())
}

/// Follows a step of the store's clock.
pub fn shift(tx: &mut Tx<'_>, ms: i64) -> Done<()> {
    if let Some(mut kept) = Kept::load(tx.conn)? {
        kept.epoch.shift(ms);
        kept.save(tx.conn, &mut tx.head)?;
    }
    let mut shift = tx.sql(sql!("long_lease", "shift"))?;
    shift.execute(params![ms, Time::MIN.ms(), Time::MAX.ms()])?;
    Ok(())
}
