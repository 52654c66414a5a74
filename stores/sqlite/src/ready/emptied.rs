//! Lines that have run empty. What was left behind in them is swept for many at
//! once, line by line in the order of the file: one by one, each would write a
//! page of its own.
//!
//! What is remembered is true as long as this process alone has written
//! (`others.rs`). A line that is forgotten keeps its rows until its next sweeper,
//! or until their jobs are pruned.

use std::collections::HashMap;

use crate::fail::Done;
use crate::ready::line;
use crate::ready::upcoming::BySlot;
use crate::run::tx::Tx;

/// With so many of them it is time to sweep.
const LINES_MAX: usize = 4_096;

/// The lines, with the gate, rank and number of the last that has left each.
#[derive(Debug, Default)]
pub struct Emptied(HashMap<i64, (i64, i64, i64), BySlot>);

impl Emptied {
    /// A job comes into the line of a slot: it may stand before those that have left.
    pub fn came(&mut self, slot: i64) {
        self.0.remove(&slot);
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// Nobody waits in this line any more; the last that has left it stood here.
pub fn add(tx: &mut Tx<'_>, slot: i64, gate: i64, (rank, seq): (i64, i64)) -> Done<()> {
    tx.memory.emptied.0.insert(slot, (gate, rank, seq));
    if tx.memory.emptied.0.len() >= LINES_MAX {
        sweep(tx, LINES_MAX)?;
    }
    Ok(())
}

/// Sweeps lines that have run empty, `most` at most; answers how many.
pub fn sweep(tx: &mut Tx<'_>, most: usize) -> Done<usize> {
    tx.memory.heed_others(tx.conn)?;
    let emptied = &mut tx.memory.emptied.0;
    let mut lines: Vec<_> = emptied.drain().collect();
    lines.sort_unstable();
    let later = lines.split_off(most.min(lines.len()));
    emptied.extend(later);
    for (slot, (gate, rank, seq)) in &lines {
        line::sweep(tx, *slot, *gate, (*rank, *seq))?;
    }
    Ok(lines.len())
}
