//! Fences over epochs: stores that are promoted, restored and copied in every order, some of them in one second and without
//! knowing of each other. Whatever happens, no fence is given twice; and it rises where one can know of the other.
//!
//! One job, as the floor is that of all jobs. Clones and restores are those of `core::incarnation`: a file has a mark beside
//! it that knows the highest floor, a standby has none.

use std::collections::{HashSet, VecDeque};

use uuid::Uuid;
use windlass_core::epoch::{Epoch, FLOOR_STEP, next_fence};
use windlass_core::time::Time;

/// How many things happen.
const EVENTS_MAX: u8 = 7;
/// How many stores there are at once, and how many backups.
const STORES_MAX: usize = 3;
const BACKUPS_MAX: usize = 2;
/// Two draws of chance differ by more than a store claims in between.
const DRAW: u64 = 1_000;

/// What can happen, beside claims and backups.
#[derive(Clone, Copy)]
struct Setting {
    /// Standbys are promoted.
    promotes: bool,
    /// A store is copied, and both go on.
    clones: bool,
    /// By how many seconds the clock may be behind after a restore.
    back: i64,
    /// A file has a mark beside it that knows the floor.
    mark: bool,
    /// A second passes with each epoch: none begins in one with another.
    apart: bool,
    /// Whether fences must rise over all stores.
    rises: bool,
}

const ALL: Setting =
    Setting { promotes: true, clones: true, back: 2, mark: false, apart: false, rises: false };
const APART: Setting =
    Setting { promotes: true, clones: false, back: 0, mark: false, apart: true, rises: true };
const FILE: Setting =
    Setting { promotes: false, clones: false, back: 2, mark: true, apart: false, rises: true };

/// What is wrong with a floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    None,
    NotLifted,
    WithoutSeconds,
    WithoutStep,
    WithoutChance,
    MarkWithoutFloor,
}

/// One store, or a backup of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Store {
    floor: u64,
    last: u64,
    back: i64,
    mark: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    second: i64,
    stores: Vec<Store>,
    backups: Vec<Store>,
    given: Vec<u64>,
    left: u8,
    draws: u64,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Second,
    Grant { store: usize },
    Backup { store: usize },
    Promote { store: usize, to: usize },
    Restore { store: usize, from: usize, back: i64 },
    Clone { store: usize },
}

impl World {
    fn new() -> Self {
        let first = Store { floor: 0, last: 0, back: 0, mark: 0 };
        Self { second: 3, stores: vec![first], backups: vec![], given: vec![], left: EVENTS_MAX, draws: 0 }
    }

    fn events(&self, setting: &Setting) -> Vec<Event> {
        let mut events = vec![Event::Second];
        for store in 0..self.stores.len() {
            events.push(Event::Grant { store });
            events.extend((self.backups.len() < BACKUPS_MAX).then_some(Event::Backup { store }));
            for to in 0..self.backups.len() {
                events.extend(setting.promotes.then_some(Event::Promote { store, to }));
                events.extend((0..=setting.back).map(|back| Event::Restore { store, from: to, back }));
            }
            let room = setting.clones && self.stores.len() < STORES_MAX;
            events.extend(room.then_some(Event::Clone { store }));
        }
        events
    }

    /// Lets something happen; says what is broken by it.
    fn act(&mut self, event: Event, setting: &Setting, flaw: Flaw) -> Result<(), String> {
        self.left -= 1;
        match event {
            Event::Second => self.second += 1,
            Event::Grant { store } => return self.grant(store, setting),
            Event::Backup { store } => self.backups.push(self.stores[store].clone()),
            Event::Promote { store, to } => {
                let old = Store { back: self.stores[store].back, mark: 0, ..self.backups[to].clone() };
                self.stores[store] = self.begun(old, setting, flaw);
            }
            Event::Restore { store, from, back } => {
                let old = Store { back, mark: self.stores[store].mark, ..self.backups[from].clone() };
                self.stores[store] = self.begun(old, setting, flaw);
            }
            Event::Clone { store } => {
                let copy = Store { mark: 0, ..self.stores[store].clone() };
                let copy = self.begun(copy, setting, flaw);
                self.stores.push(copy);
            }
        }
        Ok(())
    }

    fn grant(&mut self, store: usize, setting: &Setting) -> Result<(), String> {
        let store = &mut self.stores[store];
        let fence = next_fence(store.last, store.floor);
        store.last = fence;
        if self.given.contains(&fence) {
            return Err(format!("twice: {fence}"));
        }
        if setting.rises && self.given.last().is_some_and(|newest| *newest > fence) {
            return Err(format!("fell: {fence} after {:?}", self.given));
        }
        self.given.push(fence);
        self.given.sort_unstable();
        Ok(())
    }

    /// The store in its next epoch, as core has it but for the flaw.
    fn begun(&mut self, mut store: Store, setting: &Setting, flaw: Flaw) -> Store {
        self.draws += 1;
        let chance = if flaw == Flaw::WithoutChance { 0 } else { self.draws * DRAW };
        let knows = setting.mark && flaw != Flaw::MarkWithoutFloor;
        let floor = if knows { store.floor.max(store.mark) } else { store.floor };
        let seconds = if flaw == Flaw::WithoutSeconds { 0 } else { self.second - store.back };
        // Seconds are counted from 2020.
        let now = Time::from_ms(1_577_836_800_000 + seconds * 1_000);
        let before = Epoch { floor, ..Epoch::first(Uuid::nil()) };
        let lifted = before.next(Uuid::nil(), chance, 0, true, now).floor;
        store.floor = match flaw {
            Flaw::NotLifted => floor,
            Flaw::WithoutStep => floor.max(lifted.min(seconds.unsigned_abs() * FLOOR_STEP)),
            _ => lifted,
        };
        store.mark = store.mark.max(store.floor);
        self.second += i64::from(setting.apart);
        store
    }
}

/// The first thing that is broken, and after what; or how many states there are.
fn search(setting: Setting, flaw: Flaw) -> Result<usize, String> {
    let mut seen = HashSet::from([World::new()]);
    let mut waiting = VecDeque::from([(World::new(), Vec::new())]);
    while let Some((before, path)) = waiting.pop_front() {
        for event in before.events(&setting) {
            let mut after = before.clone();
            let mut path = path.clone();
            path.push(event);
            after.act(event, &setting, flaw).map_err(|broken| format!("{broken}\nafter {path:?}"))?;
            if after.left > 0 && seen.insert(after.clone()) {
                waiting.push_back((after, path));
            }
        }
    }
    Ok(seen.len())
}

fn holds(setting: Setting) {
    match search(setting, Flaw::None) {
        Ok(states) => assert!(states > 500, "only {states} states were reached"),
        Err(broken) => panic!("{broken}"),
    }
}

fn falls(setting: Setting, flaw: Flaw, how: &str) {
    let Err(broken) = search(setting, flaw) else { panic!("{flaw:?} was not found") };
    assert!(broken.starts_with(how), "{flaw:?}: {broken}");
}

#[test]
fn none_is_given_twice_whatever_is_promoted_restored_and_copied() {
    holds(ALL);
}

#[test]
fn they_rise_over_epochs_that_begin_in_seconds_of_their_own() {
    holds(APART);
}

#[test]
fn they_rise_over_restores_of_a_file_whose_clock_went_back() {
    holds(FILE);
}

#[test]
fn mutant_floor_not_lifted() {
    falls(ALL, Flaw::NotLifted, "twice");
}

#[test]
fn mutant_floor_without_seconds() {
    falls(APART, Flaw::WithoutSeconds, "");
}

#[test]
fn mutant_floor_without_step() {
    falls(FILE, Flaw::WithoutStep, "");
}

#[test]
fn mutant_floor_without_chance() {
    falls(ALL, Flaw::WithoutChance, "twice");
}

#[test]
fn mutant_mark_without_floor() {
    falls(FILE, Flaw::MarkWithoutFloor, "");
}
