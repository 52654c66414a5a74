//! The lines of keys. While a key is free, the first job of its line in each
//! gate is ready: it is shown. While the key is taken (`keys.rs`), at most its
//! heir is. So a million jobs behind a busy key cost a claim nothing.
//!
//! One per gate and not one per key: a job whose kind nobody asks for, or whose
//! budget is spent, must not hold back a job of its key that could run.
//!
//! Whoever runs leaves its row in the line behind: many keys lie on many pages,
//! and each of them would be written for one job. Rows that were left behind
//! stand before all that wait, so the next is found without a look at them. They
//! go some time after the line has run empty (`emptied.rs`), when a job comes that
//! stands before one of them, and when the turn of `is_sweeper` comes.

use rusqlite::{Connection, OptionalExtension, params};

use crate::fail::Done;
use crate::ready::keys;
use crate::ready::lanes::{Place, hide};
use crate::ready::upcoming::After;
use crate::run::tx::Tx;

/// One of so many jobs sweeps what was left behind in its line.
const SWEEPERS: u64 = 256;

/// A job comes into the line of its key. Answers whether it is to be shown; the
/// one that was shown before it is then hidden.
pub fn join(tx: &mut Tx<'_>, slot: i64, place: Place) -> Done<bool> {
    let mut behind = After::new(tx)?.find(slot, place.gate, place.at())?;
    let mut taken = keys::find(tx.conn, slot)?;
    // Who stands last in line stands behind whoever has the key, if that is one of the same line.
    if let Some(key) = taken.filter(|key| key.gate != place.gate) {
        let look = Look::at(tx.conn, slot, key.gate, place.seq)?;
        taken = keys::heed(tx, slot, key, &look, None)?;
    }
    if behind.is_some() {
        let look = Look::at(tx.conn, slot, place.gate, place.seq)?;
        if let Some(key) = taken.filter(|key| key.gate == place.gate) {
            taken = keys::heed(tx, slot, key, &look, Some(place))?;
        }
        if let Some(left) = look.left.filter(|left| place.at() < left.at()) {
            sweep(tx, slot, left.gate, left.at())?;
            behind = look.first;
        }
    }
    let comes_first = taken.is_none() && !has_before(tx, slot, place)?;
    if let (true, Some(second)) = (comes_first, behind) {
        hide(tx, second)?;
    }
    stand(tx, slot, place)?;
    Ok(comes_first)
}

fn has_before(tx: &Tx<'_>, slot: i64, Place { gate, rank, seq, again: _ }: Place) -> Done<bool> {
    let mut select = tx.sql(sql!("line", "has_before"))?;
    let waits = select.query_row(params![slot, gate, rank, seq], |row| row.get(0)).optional()?;
    Ok(waits.unwrap_or(false))
}

/// A job stands in line.
pub fn stand(tx: &mut Tx<'_>, slot: i64, place: Place) -> Done<()> {
    tx.memory.upcoming.came(slot, place);
    tx.memory.emptied.came(slot);
    let Place { gate, rank, seq, again } = place;
    tx.sql(sql!("line", "insert"))?.execute(params![slot, gate, rank, seq, again])?;
    Ok(())
}

/// Takes a job out of its line; answers whether it was there.
pub fn leave(tx: &mut Tx<'_>, slot: i64, Place { gate, rank, seq, again: _ }: Place) -> Done<bool> {
    tx.memory.upcoming.forget_line(slot);
    Ok(tx.sql(sql!("line", "delete"))?.execute(params![slot, gate, rank, seq])? > 0)
}

/// What is at the beginning of a line.
#[derive(Debug, Default)]
pub struct Look {
    /// The last of those that have left it.
    pub left: Option<Place>,
    /// The one of those that is running.
    pub running: Option<Place>,
    /// The first that waits.
    pub first: Option<Place>,
}

impl Look {
    /// Looks at a line, but for the job `but`, which is about to come into it.
    pub fn at(conn: &Connection, slot: i64, gate: i64, but: i64) -> Done<Self> {
        let mut select = conn.prepare_cached(sql!("line", "look"))?;
        let mut rows = select.query(params![slot, gate])?;
        let mut look = Self::default();
        while let Some(row) = rows.next()? {
            let place = Place::read(gate, row)?;
            if place.seq == but {
                continue;
            }
            let (runs, ended): (bool, bool) = (row.get(3)?, row.get(4)?);
            if !runs && !ended {
                look.first = Some(place);
                break;
            }
            look.left = Some(place);
            if runs {
                look.running = Some(place);
            }
        }
        Ok(look)
    }

    /// Looks at a whole line.
    pub fn whole(conn: &Connection, slot: i64, gate: i64) -> Done<Self> {
        // No job has this number.
        Self::at(conn, slot, gate, -1)
    }
}

/// Whether a job that frees its key is one of those that sweep the rows before it. By chance, so to speak:
/// jobs of one key often have numbers with something in common.
pub fn is_sweeper(seq: i64) -> bool {
    (seq.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(SWEEPERS)
}

/// Takes out what was left behind, up to this rank and number.
pub fn sweep(tx: &Tx<'_>, slot: i64, gate: i64, (rank, seq): (i64, i64)) -> Done<()> {
    tx.sql(sql!("line", "sweep"))?.execute(params![slot, gate, rank, seq])?;
    Ok(())
}

/// Takes out all that was left behind in a line in which nobody waits.
pub fn sweep_all(tx: &Tx<'_>, slot: i64, gate: i64) -> Done<()> {
    sweep(tx, slot, gate, (i64::MAX, i64::MAX))
}

/// The gates of a line.
pub fn gates(tx: &Tx<'_>, slot: i64) -> Done<Vec<i64>> {
    let mut select = tx.sql(sql!("line", "next_gate"))?;
    let mut gates: Vec<i64> = Vec::new();
    let mut from = i64::MIN;
    while let Some(gate) = select.query_row(params![slot, from], |row| row.get(0)).optional()? {
        gates.push(gate);
        match gate.checked_add(1) {
            Some(next) => from = next,
            None => break,
        }
    }
    Ok(gates)
}
