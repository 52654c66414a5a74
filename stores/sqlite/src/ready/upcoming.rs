//! Who comes next in the lines of keys. The lines of many keys lie on as many
//! pages, so whoever looks into one reads a few places at once, and the writer
//! remembers them for the jobs that end later.
//!
//! What is remembered is true as long as this process alone has written
//! (`others.rs`). Its own changes are told by `line.rs`.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use rusqlite::{CachedStatement, OptionalExtension, params};

use crate::fail::Done;
use crate::ready::lanes::Place;
use crate::run::tx::Tx;

/// So many places of a line are read at first; more, when all of them were needed.
const READ_MIN: u32 = 4;
/// So many at most.
const READ_MAX: u32 = 64;
/// More than so many places are not remembered.
const PLACES_REMEMBERED: usize = 262_144;

/// The next places of lines, as far as they are remembered; by slot.
#[derive(Debug, Default)]
pub struct Upcoming {
    lines: HashMap<i64, Stretch, BySlot>,
    places: usize,
}

/// Places of one line that follow each other: jobs of one rank that were never claimed.
#[derive(Debug)]
struct Stretch {
    /// The gate of the line; those of other gates of the same slot are not remembered beside it.
    gate: i64,
    rank: i64,
    /// None of this rank stands between this number and the first of the next.
    from: i64,
    next: VecDeque<i64>,
    /// How many were read.
    read: u32,
}

/// How maps find what they know of a slot.
pub type BySlot = BuildHasherDefault<SlotHasher>;

/// A slot is a hash that nobody can aim at another, so it is its own.
#[derive(Debug, Default)]
pub struct SlotHasher(u64);

impl Hasher for SlotHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_i64(&mut self, slot: i64) {
        self.0 = slot.cast_unsigned();
    }
}

impl Upcoming {
    /// Forgets everything.
    pub fn forget(&mut self) {
        self.lines.clear();
        self.places = 0;
    }

    /// Forgets the line of a slot.
    pub fn forget_line(&mut self, slot: i64) {
        if let Some(stretch) = self.lines.remove(&slot) {
            self.places -= stretch.next.len() + 1;
        }
    }

    /// A job comes into a line. One that stands behind all that are remembered changes nothing.
    pub fn came(&mut self, slot: i64, place: Place) {
        let Some(stretch) = self.lines.get(&slot) else { return };
        if stretch.next.back().is_some_and(|last| place.at() <= (stretch.rank, *last)) {
            self.forget_line(slot);
        }
    }

    fn recall(&mut self, slot: i64, gate: i64, (rank, seq): (i64, i64)) -> Option<Place> {
        let stretch = self.lines.get_mut(&slot)?;
        if (stretch.gate, stretch.rank) != (gate, rank) || seq < stretch.from {
            return None;
        }
        while stretch.next.pop_front_if(|next| *next <= seq).is_some() {
            self.places -= 1;
        }
        stretch.from = seq;
        stretch.next.front().map(|next| Place { gate, rank, seq: *next, again: false })
    }

    /// How many places to read of a line: more of one in which all that were remembered were needed.
    fn most(&self, slot: i64) -> u32 {
        let needed = self.lines.get(&slot).filter(|stretch| stretch.next.is_empty());
        needed.map_or(READ_MIN, |stretch| (stretch.read * 4).min(READ_MAX))
    }

    fn remember(&mut self, slot: i64, stretch: Stretch) {
        self.forget_line(slot);
        if self.places + stretch.next.len() >= PLACES_REMEMBERED {
            self.forget();
        }
        self.places += stretch.next.len() + 1;
        self.lines.insert(slot, stretch);
    }
}

/// The statement that looks into a line.
pub struct After<'a>(CachedStatement<'a>);

impl<'a> After<'a> {
    /// Prepares it.
    pub fn new(tx: &Tx<'a>) -> Done<Self> {
        Ok(Self(tx.sql(sql!("line", "after"))?))
    }

    /// The one that stands next behind a place.
    pub fn find(&mut self, slot: i64, gate: i64, (rank, seq): (i64, i64)) -> Done<Option<Place>> {
        let read = |row: &rusqlite::Row<'_>| Place::read(gate, row);
        Ok(self.0.query_row(params![slot, gate, rank, seq, 1], read).optional()?)
    }

    /// The same, from memory where it is remembered.
    pub fn next(&mut self, tx: &mut Tx<'_>, slot: i64, gate: i64, after: (i64, i64)) -> Done<Option<Place>> {
        tx.memory.heed_others(tx.conn)?;
        let upcoming = &mut tx.memory.upcoming;
        if let Some(place) = upcoming.recall(slot, gate, after) {
            return Ok(Some(place));
        }
        let read = upcoming.most(slot);
        let mut rows = self.0.query(params![slot, gate, after.0, after.1, read])?;
        let Some(row) = rows.next()? else {
            upcoming.forget_line(slot);
            return Ok(None);
        };
        let first = Place::read(gate, row)?;
        let mut next = VecDeque::with_capacity(read as usize);
        let mut place = first;
        while place.rank == first.rank && !place.again {
            next.push_back(place.seq);
            let Some(row) = rows.next()? else { break };
            place = Place::read(gate, row)?;
        }
        upcoming.remember(slot, Stretch { gate, rank: first.rank, from: first.seq - 1, next, read });
        Ok(Some(first))
    }
}
