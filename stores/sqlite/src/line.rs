//! The lines of keys. While a key is free, the first job of its line in each
//! gate is ready: it is shown. While a job of the key is running, none is. So a
//! million jobs behind a busy key cost a claim nothing.
//!
//! One per gate and not one per key: a job whose kind nobody asks for, or whose
//! budget is spent, must not hold back a job of its key that could run.
//!
//! Whoever runs leaves its row in the line behind: many keys lie on many pages,
//! and each of them would be written for one job. Rows that were left behind
//! stand before all that wait, so the next is found without a look at them. They
//! go when the line has run empty, when a job comes that does not stand last,
//! and when the turn of `is_sweeper` comes.

use std::collections::HashSet;

use rusqlite::vtab::array::Array;
use rusqlite::{CachedStatement, OptionalExtension, params};

use crate::fail::{Done, Fail};
use crate::lanes::{Place, hide, show};
use crate::many::numbers;
use crate::tx::Tx;

/// One of so many jobs sweeps what was left behind in its line.
const SWEEPERS: u64 = 64;

/// A job comes into the line of its key. Answers whether it is to be shown; the
/// one that was shown before it is then hidden.
pub fn join(tx: &Tx<'_>, slot: i64, place: Place) -> Done<bool> {
    let Place { gate, rank, seq, again: _ } = place;
    let mut after = After::new(tx)?;
    let mut second = after.find(slot, gate, (rank, seq))?;
    if second.is_some() {
        tx.sql(include_str!("../sql/line_clean.sql"))?.execute(params![slot, gate])?;
        second = after.find(slot, gate, (rank, seq))?;
    }
    let mut find = tx.sql(include_str!("../sql/holder_find.sql"))?;
    let holder: Option<(i64, i64, i64)> =
        find.query_row(params![slot], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
    let comes_first = match holder {
        Some(holder) => {
            if gate != holder.0 || (gate, rank, seq) < holder {
                tx.sql(include_str!("../sql/holder_warn.sql"))?.execute(params![slot])?;
            }
            false
        }
        None => {
            let mut before = tx.sql(include_str!("../sql/line_has_before.sql"))?;
            !before.exists(params![slot, gate, rank, seq])?
        }
    };
    if let (true, Some(second)) = (comes_first, second) {
        hide(tx, second)?;
    }
    stand(tx, slot, place)?;
    Ok(comes_first)
}

/// A job stands in line.
pub fn stand(tx: &Tx<'_>, slot: i64, Place { gate, rank, seq, again }: Place) -> Done<()> {
    tx.sql(include_str!("../sql/line_insert.sql"))?.execute(params![slot, gate, rank, seq, again])?;
    Ok(())
}

/// Takes a job out of its line; answers whether it was there.
pub fn leave(tx: &Tx<'_>, slot: i64, Place { gate, rank, seq, again: _ }: Place) -> Done<bool> {
    Ok(tx.sql(include_str!("../sql/line_delete.sql"))?.execute(params![slot, gate, rank, seq])? > 0)
}

/// The next in line behind a place, when nobody waits before it.
pub struct After<'a>(CachedStatement<'a>);

impl<'a> After<'a> {
    /// The statement that finds it.
    pub fn new(tx: &Tx<'a>) -> Done<Self> {
        Ok(Self(tx.sql(include_str!("../sql/line_after.sql"))?))
    }

    /// Finds it.
    pub fn find(&mut self, slot: i64, gate: i64, (rank, seq): (i64, i64)) -> Done<Option<Place>> {
        Ok(self.0.query_row(params![slot, gate, rank, seq], Place::read).optional()?)
    }
}

/// Jobs of keys that run from now on, with the statement that says so.
pub struct Holders<'a> {
    insert: CachedStatement<'a>,
    /// How many gates have ready jobs: when it is one, there is nothing of the same key to hide.
    gates: usize,
}

impl<'a> Holders<'a> {
    /// For a claim that has seen ready jobs of so many gates.
    pub fn new(tx: &Tx<'a>, gates: usize) -> Done<Self> {
        Ok(Self { insert: tx.sql(include_str!("../sql/holder_insert.sql"))?, gates })
    }

    /// A job of this key runs from now on: none of its line is shown.
    pub fn hold(&mut self, tx: &Tx<'_>, slot: i64, taken: Place) -> Done<()> {
        let mut warned = false;
        if self.gates > 1 {
            for gate in gates(tx, slot)?.into_iter().filter(|gate| *gate != taken.gate) {
                warned = true;
                if let Some(first) = first(tx, slot, gate)? {
                    hide(tx, first)?;
                }
            }
        }
        self.insert.execute(params![slot, taken.seq, taken.gate, taken.rank, warned])?;
        Ok(())
    }
}

/// A job that has held its key.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// The slot of its key.
    pub slot: i64,
    /// Where it stood in line.
    pub gate: i64,
    /// Where it stood in line.
    pub rank: i64,
    /// Its number.
    pub seq: i64,
}

/// Keys have become free: the first jobs of their lines, one of each gate, are shown. `waits` says
/// that those who held them stand in line again.
pub fn free(tx: &mut Tx<'_>, held: &[Held], waits: bool) -> Done<()> {
    let slots = numbers(held.iter().map(|held| held.slot));
    let warned = find_warned(tx, &slots)?;
    if tx.sql(include_str!("../sql/holders_delete.sql"))?.execute(params![slots])? != held.len() {
        return Err(Fail::damaged("a running job that does not hold its key"));
    }
    let mut show_after = tx.sql(include_str!("../sql/line_show_after.sql"))?;
    for Held { slot, gate, rank, seq } in held.iter().copied() {
        if warned.contains(&slot) {
            free_warned(tx, slot)?;
            continue;
        }
        let before = seq - i64::from(waits);
        if show_after.execute(params![slot, gate, rank, before])? == 0 {
            sweep(tx, slot, gate, (i64::MAX, i64::MAX))?;
            continue;
        }
        tx.wake = true;
        if is_sweeper(seq) {
            sweep(tx, slot, gate, (rank, before))?;
        }
    }
    Ok(())
}

fn find_warned(tx: &Tx<'_>, slots: &Array) -> Done<HashSet<i64>> {
    // Most often there is none at all.
    if !tx.sql(include_str!("../sql/holders_any_warned.sql"))?.exists([])? {
        return Ok(HashSet::new());
    }
    let mut select = tx.sql(include_str!("../sql/holders_warned.sql"))?;
    let warned = select.query_map(params![slots], |row| row.get(0))?;
    Ok(warned.collect::<rusqlite::Result<_>>()?)
}

/// Looks at the whole line; what was left behind goes, so that nobody has to pass it again.
fn free_warned(tx: &mut Tx<'_>, slot: i64) -> Done<()> {
    for gate in gates(tx, slot)? {
        match first(tx, slot, gate)? {
            None => sweep(tx, slot, gate, (i64::MAX, i64::MAX))?,
            Some(next) => {
                show(tx, next)?;
                tx.wake = true;
                sweep(tx, slot, gate, (next.rank, next.seq - 1))?;
            }
        }
    }
    Ok(())
}

/// Whether a job that frees its key is one of those that sweep the rows before it. By chance, so to speak:
/// jobs of one key often have numbers with something in common.
fn is_sweeper(seq: i64) -> bool {
    (seq.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).is_multiple_of(SWEEPERS)
}

fn sweep(tx: &Tx<'_>, slot: i64, gate: i64, (rank, seq): (i64, i64)) -> Done<()> {
    tx.sql(include_str!("../sql/line_sweep.sql"))?.execute(params![slot, gate, rank, seq])?;
    Ok(())
}

/// The first that waits, behind whatever was left behind.
fn first(tx: &Tx<'_>, slot: i64, gate: i64) -> Done<Option<Place>> {
    let mut select = tx.sql(include_str!("../sql/line_first.sql"))?;
    Ok(select.query_row(params![slot, gate], Place::read).optional()?)
}

/// The gates of a line.
fn gates(tx: &Tx<'_>, slot: i64) -> Done<Vec<i64>> {
    let mut select = tx.sql(include_str!("../sql/line_next_gate.sql"))?;
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
