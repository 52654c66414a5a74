//! Who comes next in the lines of keys. The lines of many keys lie on as many
//! pages, so whoever looks into one reads a few places at once, and the writer
//! remembers them for the jobs that end later.
//!
//! What is remembered is true as long as this process alone has written: that is
//! asked of the file once in each transaction. Its own changes are told by
//! `line.rs`; when writes are undone, all is forgotten.

use std::collections::{HashMap, VecDeque};

use rusqlite::{CachedStatement, Connection, params};

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
    lines: HashMap<(i64, i64), Stretch>,
    places: usize,
    /// Changes with the commits of others.
    version: Option<i64>,
    asked: bool,
}

/// Places of one line that follow each other.
#[derive(Debug)]
struct Stretch {
    /// Rank and number; none stands between here and the first.
    from: (i64, i64),
    next: VecDeque<Place>,
}

impl Upcoming {
    /// A transaction begins: others may have written before it.
    pub fn begin(&mut self) {
        self.asked = false;
    }

    /// Forgets everything.
    pub fn forget(&mut self) {
        self.lines.clear();
        self.places = 0;
    }

    /// Forgets the line of a slot and gate.
    pub fn forget_line(&mut self, slot: i64, gate: i64) {
        if let Some(stretch) = self.lines.remove(&(slot, gate)) {
            self.places -= stretch.next.len();
        }
    }

    /// A job comes into a line. One that stands behind all that are remembered changes nothing.
    pub fn came(&mut self, slot: i64, place: Place) {
        let Some(stretch) = self.lines.get(&(slot, place.gate)) else { return };
        if stretch.next.back().is_none_or(|last| place.at() <= last.at()) {
            self.forget_line(slot, place.gate);
        }
    }

    /// Asks whether others have written, once in a transaction.
    fn follow(&mut self, conn: &Connection) -> Done<()> {
        if self.asked {
            return Ok(());
        }
        let mut select = conn.prepare_cached(include_str!("../sql/data_version.sql"))?;
        let version: i64 = select.query_row([], |row| row.get(0))?;
        if self.version.replace(version) != Some(version) {
            self.forget();
        }
        self.asked = true;
        Ok(())
    }

    fn recall(&mut self, slot: i64, gate: i64, after: (i64, i64)) -> Option<Place> {
        let stretch = self.lines.get_mut(&(slot, gate)).filter(|stretch| stretch.from <= after)?;
        while stretch.next.pop_front_if(|place| place.at() <= after).is_some() {
            self.places -= 1;
        }
        stretch.from = after;
        stretch.next.front().copied()
    }

    fn remember(&mut self, slot: i64, gate: i64, stretch: Stretch) {
        self.forget_line(slot, gate);
        // The last of a line has nobody behind it to be remembered.
        if stretch.next.len() < 2 {
            return;
        }
        if self.places + stretch.next.len() > PLACES_REMEMBERED {
            self.forget();
        }
        self.places += stretch.next.len();
        self.lines.insert((slot, gate), stretch);
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
        let upcoming = &mut tx.memory.upcoming;
        upcoming.follow(tx.conn)?;
        if let Some(place) = upcoming.recall(slot, gate, after) {
            return Ok(Some(place));
        }
        let next = self.read(slot, gate, after, READ_MAX)?;
        let first = next.front().copied();
        upcoming.remember(slot, gate, Stretch { from: after, next });
        Ok(first)
    }

    fn read(&mut self, slot: i64, gate: i64, (rank, seq): (i64, i64), most: u32) -> Done<VecDeque<Place>> {
        let mut rows = self.0.query(params![slot, gate, rank, seq, most])?;
        let mut places = VecDeque::new();
        while let Some(row) = rows.next()? {
            places.push_back(Place::read(row)?);
        }
        Ok(places)
    }
}
