//! Who comes next in the lines of keys. The lines of many keys lie on as many
//! pages, so whoever looks into one reads a few places at once, and the writer
//! remembers them for the jobs that end later.
//!
//! What is remembered is true as long as this process alone has written
//! (`others.rs`). Its own changes are told by `line.rs`.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use rusqlite::{CachedStatement, params};

use crate::fail::Done;
use crate::lanes::Place;
use crate::tx::Tx;

/// So many places are read at once.
const READ_MAX: u32 = 16;
/// More than so many places are not remembered.
const PLACES_REMEMBERED: usize = 65_536;

/// The next places of lines, as far as they are remembered.
#[derive(Debug, Default)]
pub struct Upcoming {
    /// By slot.
    lines: HashMap<i64, Stretch, BySlot>,
    places: usize,
}

/// Places of one line that follow each other.
#[derive(Debug)]
struct Stretch {
    /// The gate of the line; those of other gates of the same slot are not remembered beside it.
    gate: i64,
    /// Rank and number; none stands between here and the first.
    from: (i64, i64),
    next: VecDeque<Place>,
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

    /// Forgets the line of a slot and gate.
    pub fn forget_line(&mut self, slot: i64, gate: i64) {
        if let Entry::Occupied(line) = self.lines.entry(slot)
            && line.get().gate == gate
        {
            self.places -= line.remove().next.len();
        }
    }

    /// A job comes into a line. One that stands behind all that are remembered changes nothing.
    pub fn came(&mut self, slot: i64, place: Place) {
        let Some(stretch) = self.lines.get(&slot) else { return };
        if stretch.next.back().is_none_or(|last| place.at() <= last.at()) {
            self.forget_line(slot, place.gate);
        }
    }

    fn recall(&mut self, slot: i64, gate: i64, after: (i64, i64)) -> Option<Place> {
        let stretch = self.lines.get_mut(&slot).filter(|line| line.gate == gate && line.from <= after)?;
        while stretch.next.pop_front_if(|place| place.at() <= after).is_some() {
            self.places -= 1;
        }
        stretch.from = after;
        stretch.next.front().copied()
    }

    fn remember(&mut self, slot: i64, stretch: Stretch) {
        if let Some(before) = self.lines.remove(&slot) {
            self.places -= before.next.len();
        }
        // The last of a line has nobody behind it to be remembered.
        if stretch.next.len() < 2 {
            return;
        }
        if self.places + stretch.next.len() > PLACES_REMEMBERED {
            self.forget();
        }
        self.places += stretch.next.len();
        self.lines.insert(slot, stretch);
    }
}

/// The statement that looks into a line.
pub struct After<'a>(CachedStatement<'a>);

impl<'a> After<'a> {
    /// Prepares it.
    pub fn new(tx: &Tx<'a>) -> Done<Self> {
        Ok(Self(tx.sql(include_str!("../sql/line_after.sql"))?))
    }

    /// The one that stands next behind a place.
    pub fn find(&mut self, slot: i64, gate: i64, after: (i64, i64)) -> Done<Option<Place>> {
        Ok(self.read(slot, gate, after, 1)?.pop_front())
    }

    /// The same, from memory where it is remembered.
    pub fn next(&mut self, tx: &mut Tx<'_>, slot: i64, gate: i64, after: (i64, i64)) -> Done<Option<Place>> {
        tx.memory.heed_others(tx.conn)?;
        let upcoming = &mut tx.memory.upcoming;
        if let Some(place) = upcoming.recall(slot, gate, after) {
            return Ok(Some(place));
        }
        let next = self.read(slot, gate, after, READ_MAX)?;
        let first = next.front().copied();
        upcoming.remember(slot, Stretch { gate, from: after, next });
        Ok(first)
    }

    fn read(&mut self, slot: i64, gate: i64, (rank, seq): (i64, i64), most: u32) -> Done<VecDeque<Place>> {
        let mut rows = self.0.query(params![slot, gate, rank, seq, most])?;
        let mut places = VecDeque::new();
        while let Some(row) = rows.next()? {
            places.push_back(Place::read(gate, row)?);
        }
        Ok(places)
    }
}
