//! Lanes: how a claim finds ready jobs without looking at any that are not.
//!
//! A queued job is delayed, or ready, or stands in the line of its key
//! (`line.rs`), of which the first may be ready as well.

use rusqlite::{OptionalExtension, Row, params};
use windlass_core::store::PROMOTE_MAX;
use windlass_core::time::Time;

use crate::fail::{Done, Fail};
use crate::ready::upcoming::After;
use crate::ready::{keys, line};
use crate::rows::head::signed;
use crate::rows::past;
use crate::rows::row::{Stored, text};
use crate::run::many::numbers;
use crate::run::tx::Tx;

/// Where a job stands that may be claimed, or will be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its gate.
    pub gate: i64,
    /// Lower first.
    pub rank: i64,
    /// Then lower first.
    pub seq: i64,
    /// It has a past.
    pub again: bool,
}

impl Place {
    /// The place of a queued job.
    pub fn of(stored: &Stored) -> Done<Self> {
        let Stored { job, gate, slot: _, heir: _, steps_count: _ } = stored;
        Ok(Self { gate: *gate, rank: job.rank, seq: signed(job.seq)?, again: past::is_there(job) })
    }

    /// Its place among those of its gate.
    pub fn at(self) -> (i64, i64) {
        (self.rank, self.seq)
    }

    /// Reads a row of rank, seq, and whether it has a past.
    pub fn read(gate: i64, row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self { gate, rank: row.get(0)?, seq: row.get(1)?, again: row.get(2)? })
    }
}

/// Places a job that comes into the queue now.
pub fn place(tx: &mut Tx<'_>, stored: &Stored) -> Done<()> {
    let place = Place::of(stored)?;
    if stored.job.run_at > tx.now {
        return delay(tx, stored.job.run_at, place.seq);
    }
    place_due(tx, place, stored.slot)
}

fn place_due(tx: &mut Tx<'_>, place: Place, slot: Option<i64>) -> Done<()> {
    let comes_first = match slot {
        Some(slot) => line::join(tx, slot, place)?,
        None => true,
    };
    if comes_first {
        tx.wake = true;
        show(tx, place, false)?;
    }
    Ok(())
}

/// Places a job again whose attempt is over. In the line of its key it stands
/// until the key is passed on, which then shows the first.
pub fn place_again(tx: &mut Tx<'_>, stored: &Stored) -> Done<()> {
    let place = Place::of(stored)?;
    match stored.slot {
        _ if stored.job.run_at > tx.now => {
            if let Some(slot) = stored.slot {
                line::leave(tx, slot, place)?;
            }
            delay(tx, stored.job.run_at, place.seq)
        }
        Some(slot) => line::stand(tx, slot, place),
        None => show(tx, place, false),
    }
}

/// Takes a queued job out of wherever it stands; the next of its key takes its place.
pub fn leave(tx: &mut Tx<'_>, stored: &Stored) -> Done<()> {
    let place = Place::of(stored)?;
    let mut undelay = tx.sql(sql!("delayed", "delete"))?;
    if undelay.execute(params![stored.job.run_at.ms(), place.seq])? > 0 {
        return Ok(());
    }
    let heir = is_heir(tx, place)?;
    let shown = hide(tx, place)?;
    let was_there = match stored.slot {
        Some(slot) => line::leave(tx, slot, place)?,
        None => shown,
    };
    if !was_there {
        return Err(Fail::damaged(format!("job {} at no place", place.seq)));
    }
    if shown && let Some(slot) = stored.slot {
        match After::new(tx)?.find(slot, place.gate, place.at())? {
            Some(next) => {
                show(tx, next, heir)?;
                tx.wake = true;
            }
            None if heir => keys::delete(tx, &numbers([slot]), 1)?,
            None => {}
        }
    }
    Ok(())
}

/// Whether a job is ready as the heir of its key.
fn is_heir(tx: &Tx<'_>, Place { gate, rank, seq, again: _ }: Place) -> Done<bool> {
    let mut select = tx.sql(sql!("shown", "is_heir"))?;
    Ok(select.query_row(params![gate, rank, seq], |row| row.get(0)).optional()?.unwrap_or(false))
}

/// A job may be claimed from now on; an heir has its key already.
pub fn show(tx: &mut Tx<'_>, Place { gate, rank, seq, again }: Place, heir: bool) -> Done<()> {
    tx.wake_gate(gate)?;
    tx.sql(sql!("shown", "insert"))?.execute(params![gate, rank, seq, again, heir])?;
    Ok(())
}

/// Takes a job out of the ready ones; answers whether it was one of them.
pub fn hide(tx: &Tx<'_>, Place { gate, rank, seq, again: _ }: Place) -> Done<bool> {
    Ok(tx.sql(sql!("shown", "delete"))?.execute(params![gate, rank, seq])? > 0)
}

/// Takes the ready jobs of a gate up to this one; answers how many they were.
pub fn hide_up_to(tx: &Tx<'_>, Place { gate, rank, seq, again: _ }: Place) -> Done<usize> {
    Ok(tx.sql(sql!("shown", "take"))?.execute(params![gate, rank, seq])?)
}

fn delay(tx: &Tx<'_>, run_at: Time, seq: i64) -> Done<()> {
    tx.sql(sql!("delayed", "insert"))?.execute(params![run_at.ms(), seq])?;
    Ok(())
}

/// Whether there are delayed jobs at all.
pub fn has_delayed(tx: &Tx<'_>) -> Done<bool> {
    Ok(tx.sql(sql!("delayed", "any"))?.exists([])?)
}

/// Moves delayed jobs whose time has come, those that were due first first.
/// Answers whether there may be more of them.
pub fn promote(tx: &mut Tx<'_>) -> Done<bool> {
    let due = select_due(tx)?;
    let more = due.len() >= PROMOTE_MAX as usize;
    for Due { run_at_ms, place, slot } in due {
        tx.sql(sql!("delayed", "delete"))?.execute(params![run_at_ms, place.seq])?;
        place_due(tx, place, slot)?;
    }
    Ok(more)
}

/// A delayed job whose time has come.
struct Due {
    run_at_ms: i64,
    place: Place,
    slot: Option<i64>,
}

fn select_due(tx: &Tx<'_>) -> Done<Vec<Due>> {
    let mut select = tx.sql(sql!("delayed", "due"))?;
    let mut rows = select.query(params![tx.now.ms(), PROMOTE_MAX])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let place = Place { seq: row.get(1)?, gate: row.get(2)?, rank: row.get(3)?, again: row.get(5)? };
        found.push(Due { run_at_ms: row.get(0)?, place, slot: row.get(4)? });
    }
    Ok(found)
}

/// When the next delayed job of a sort that is wanted is due. Looks at a
/// bounded number of them, so the answer may be early, and never late.
pub fn next_due(tx: &Tx<'_>, wanted: impl Fn(&str, &str) -> bool) -> Done<Option<Time>> {
    const LOOKS_MAX: u32 = 256;
    let mut select = tx.sql(sql!("delayed", "next"))?;
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
