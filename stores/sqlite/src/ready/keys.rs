//! Keys that are taken. A claim takes the key of its job. When the job ends, the
//! key is passed on to the next in line, which becomes ready as its heir: the row
//! of the key stays as it is, until nobody is left to have it.
//!
//! The row is that of the job that took the key. Whoever has it now is found in
//! the line of the same gate, at that place or behind it, as long as nobody waits
//! before it or at another gate. When somebody comes who would, the row is
//! brought up to date and warned, or the key is taken back from its heir.

use std::collections::HashSet;

use rusqlite::vtab::array::Array;
use rusqlite::{Connection, OptionalExtension, params};

use crate::fail::{Done, Fail};
use crate::ready::emptied;
use crate::ready::lanes::{Place, hide, show};
use crate::ready::line::{self, Look, is_sweeper};
use crate::ready::upcoming::After;
use crate::run::many::numbers;
use crate::run::tx::Tx;

/// A key that is taken.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// The gate of the job that has it.
    pub gate: i64,
    /// Somebody may wait before it in line, or at another gate: it is not enough to look behind it when it ends.
    pub warned: bool,
    /// The job that took it; when it was warned, the one that runs.
    pub seq: i64,
}

/// The key of a slot, when it is taken.
pub fn find(conn: &Connection, slot: i64) -> Done<Option<Key>> {
    let mut select = conn.prepare_cached(sql!("key", "find"))?;
    let read = |row: &rusqlite::Row<'_>| Ok(Key { gate: row.get(0)?, warned: row.get(1)?, seq: row.get(2)? });
    Ok(select.query_row(params![slot], read).optional()?)
}

/// The number of the running job that has the key of a slot.
pub fn running(conn: &Connection, slot: i64) -> Done<Option<i64>> {
    match find(conn, slot)? {
        None => Ok(None),
        Some(Key { warned: true, seq, gate: _ }) => Ok(Some(seq)),
        Some(Key { gate, .. }) => Ok(Look::whole(conn, slot, gate)?.running.map(|place| place.seq)),
    }
}

/// Somebody comes who may stand before the one that has a key: at `place` in the same line, or at another
/// gate. Answers the key as it is afterwards.
pub fn heed(tx: &Tx<'_>, slot: i64, key: Key, look: &Look, place: Option<Place>) -> Done<Option<Key>> {
    let goes_before = |other: Place| place.is_none_or(|place| place.at() < other.at());
    match (look.running, look.first) {
        _ if key.warned => Ok(Some(key)),
        (Some(running), _) => {
            if goes_before(running) {
                let Place { gate, rank, seq, again: _ } = running;
                tx.sql(sql!("key", "warn"))?.execute(params![slot, seq, gate, rank])?;
            }
            Ok(Some(key))
        }
        (None, Some(heir)) if goes_before(heir) => {
            disinherit(tx, heir)?;
            delete(tx, &numbers([slot]), 1)?;
            Ok(None)
        }
        (None, Some(_)) => Ok(Some(key)),
        (None, None) => Err(Fail::damaged("a key that is taken, and nobody has it")),
    }
}

fn disinherit(tx: &Tx<'_>, Place { gate, rank, seq, again: _ }: Place) -> Done<()> {
    let mut update = tx.sql(sql!("shown", "disinherit"))?;
    if update.execute(params![gate, rank, seq])? != 1 {
        return Err(Fail::damaged("a key that is taken by a job that is not its heir"));
    }
    Ok(())
}

/// The keys of jobs that run from now on.
pub struct Take {
    /// How many gates have ready jobs: when it is one, there is nothing of the same key to hide.
    gates: u32,
    /// Of whose key nobody waits elsewhere.
    alone: Vec<i64>,
}

impl Take {
    /// For a claim that has seen ready jobs of so many gates.
    pub fn new(gates: u32) -> Self {
        Self { gates, alone: Vec::new() }
    }

    /// A job that is no heir runs from now on: none of its line is shown.
    pub fn add(&mut self, tx: &Tx<'_>, slot: i64, taken: Place) -> Done<()> {
        let mut warned = false;
        if self.gates > 1 {
            for gate in line::gates(tx, slot)?.into_iter().filter(|gate| *gate != taken.gate) {
                warned = true;
                if let Some(first) = Look::whole(tx.conn, slot, gate)?.first {
                    hide(tx, first)?;
                }
            }
        }
        if warned {
            let mut insert = tx.sql(sql!("key", "take_warned"))?;
            insert.execute(params![slot, taken.seq, taken.gate, taken.rank])?;
        } else {
            self.alone.push(taken.seq);
        }
        Ok(())
    }

    /// Writes what was gathered.
    pub fn write(self, tx: &Tx<'_>) -> Done<()> {
        if !self.alone.is_empty() {
            tx.sql(sql!("key", "take"))?.execute(params![numbers(self.alone)])?;
        }
        Ok(())
    }
}

/// A job that has had its key.
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

/// Jobs have ended: each passes its key on to the next in line. `waits` says that they stand in line again.
pub fn pass_on(tx: &mut Tx<'_>, held: &[Held], waits: bool) -> Done<()> {
    let warned = find_warned(tx, &numbers(held.iter().map(|held| held.slot)))?;
    let mut after = After::new(tx)?;
    let (mut heirs, mut free) = (Vec::with_capacity(held.len()), Vec::new());
    for Held { slot, gate, rank, seq } in held.iter().copied() {
        if warned.contains(&slot) {
            free.push(slot);
            continue;
        }
        let before = seq - i64::from(waits);
        match after.next(tx, slot, gate, (rank, before))? {
            Some(heir) => {
                heirs.push(heir);
                if is_sweeper(seq) {
                    line::sweep(tx, slot, gate, (rank, before))?;
                }
            }
            None => {
                free.push(slot);
                emptied::add(tx, slot, gate, (rank, seq))?;
            }
        }
    }
    if !free.is_empty() {
        delete(tx, &numbers(free.iter().copied()), free.len())?;
    }
    for slot in warned {
        show_firsts(tx, slot)?;
    }
    show_heirs(tx, heirs)
}

fn find_warned(tx: &Tx<'_>, slots: &Array) -> Done<HashSet<i64>> {
    // Most often there is none at all.
    if !tx.sql(sql!("key", "any_warned"))?.exists([])? {
        return Ok(HashSet::new());
    }
    let mut select = tx.sql(sql!("key", "warned"))?;
    let warned = select.query_map(params![slots], |row| row.get(0))?;
    Ok(warned.collect::<rusqlite::Result<_>>()?)
}

/// Nobody has these keys any more.
pub fn delete(tx: &Tx<'_>, slots: &Array, count: usize) -> Done<()> {
    if tx.sql(sql!("key", "delete"))?.execute(params![slots])? != count {
        return Err(Fail::damaged("a job whose key is not taken"));
    }
    Ok(())
}

/// The key of a slot is free: the first of each gate is shown. What was left behind before them goes, so that
/// nobody has to pass it again.
fn show_firsts(tx: &mut Tx<'_>, slot: i64) -> Done<()> {
    for gate in line::gates(tx, slot)? {
        match Look::whole(tx.conn, slot, gate)?.first {
            None => line::sweep_all(tx, slot, gate)?,
            Some(next) => {
                show(tx, next, false)?;
                tx.wake = true;
                line::sweep(tx, slot, gate, (next.rank, next.seq - 1))?;
            }
        }
    }
    Ok(())
}

/// Heirs are shown, those of one gate and rank at once.
fn show_heirs(tx: &mut Tx<'_>, mut heirs: Vec<Place>) -> Done<()> {
    heirs.sort_unstable_by_key(|heir| (heir.gate, heir.rank, heir.again, heir.seq));
    for alike in
        heirs.chunk_by(|one, next| (one.gate, one.rank, one.again) == (next.gate, next.rank, next.again))
    {
        let Place { gate, rank, again, seq: _ } = alike[0];
        tx.wake_gate(gate)?;
        let seqs = numbers(alike.iter().map(|heir| heir.seq));
        tx.sql(sql!("shown", "heirs"))?.execute(params![seqs, gate, rank, again])?;
        tx.wake = true;
    }
    Ok(())
}
