//! Breadth first through all states, so that the first way to break a law is
//! also a shortest one.

use std::collections::{HashSet, VecDeque};
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use windlass_core::book::Book;
use windlass_core::epoch::Epoch;
use windlass_core::state::State;

use crate::laws::{Move, broken, i17_not_stuck, remember, remember_steps};
use crate::server::{Flaw, act, begin, notice};
use crate::world::{Action, Setting, World, queue};

/// What a search has found.
pub enum Found {
    /// All states were looked at, and no law was broken.
    Nothing { states: usize, moves: usize },
    /// This law, in this way.
    Broken { law: String, path: String },
}

/// Looks at every state that can be reached.
pub fn search(setting: Setting, flaw: Flaw) -> Found {
    let start = begin(setting, flaw);
    let mut seen = HashSet::from([digest(&start)]);
    let mut came_from: Vec<(usize, Option<Action>)> = vec![(0, None)];
    let mut waiting = VecDeque::from([(0, start)]);
    let mut moves = 0;
    while let Some((at, was)) = waiting.pop_front() {
        for action in was.actions() {
            moves += 1;
            // What the first call after a promotion finds is the beginning of an epoch.
            let mut before = was.clone();
            notice(&mut before, action, flaw);
            let mut after = before.clone();
            let answer = act(&mut after, action, flaw);
            let law = broken(&Move { before: &before, action, answer, after: &after });
            if let Some(law) = law {
                return Found::Broken { law, path: path(&came_from, at, action) };
            }
            let mut ghost = before.ghost.clone();
            remember(&mut ghost, &before, action, answer, &after);
            remember_steps(&mut ghost, &after);
            after.ghost = ghost;
            if seen.insert(digest(&after)) {
                if let Err(law) = i17_not_stuck(&after) {
                    return Found::Broken { law, path: path(&came_from, at, action) };
                }
                came_from.push((at, Some(action)));
                waiting.push_back((came_from.len() - 1, after));
            }
        }
    }
    Found::Nothing { states: seen.len(), moves }
}

fn path(came_from: &[(usize, Option<Action>)], mut at: usize, last: Action) -> String {
    let mut actions = vec![last];
    while let (parent, Some(action)) = came_from[at] {
        actions.push(action);
        at = parent;
    }
    actions.iter().rev().enumerate().fold(String::new(), |mut text, (n, action)| {
        let _ = writeln!(text, "{:>3}. {action:?}", n + 1);
        text
    })
}

/// What makes two states the same: all that can decide what happens next.
/// 128 bits, so that no two that differ are taken for one.
fn digest(world: &World) -> (u64, u64) {
    let mut halves = [DefaultHasher::new(), DefaultHasher::new()];
    0xA5_u8.hash(&mut halves[1]);
    for half in &mut halves {
        feed(world, half);
    }
    (halves[0].finish(), halves[1].finish())
}

fn feed(world: &World, to: &mut DefaultHasher) {
    let World {
        book,
        now,
        workers,
        asked,
        net,
        ticks,
        crashes,
        copies,
        canceled,
        freezes,
        frozen,
        sent,
        still_until,
        unlooked,
        stands,
        look_due,
        hear_due,
        heard,
        expire_due,
        promotions,
        log,
        cut,
        ahead_ms,
        ghost,
        memory,
        setting: _,
    } = world;
    (now, workers, asked, net, ticks, crashes, copies, canceled, ghost, memory).hash(to);
    (freezes, frozen, sent, unlooked).hash(to);
    (stands, look_due, hear_due, heard, expire_due).hash(to);
    (promotions, cut, ahead_ms, log.len()).hash(to);
    still_until.map(|until| until.max(*now)).hash(to);
    for book in std::iter::once(book).chain(log) {
        feed_book(book, to);
    }
}

fn feed_book(book: &Book, to: &mut DefaultHasher) {
    let Epoch { number, instance: _, floor, began_at, first_seq, lossy } = book.epoch();
    (number, floor, began_at, first_seq, lossy, book.longest_ms(&queue())).hash(to);
    for job in book.jobs() {
        let last = job.history.last().map(|entry| (entry.what, entry.fence));
        (job.id, job.run_at, job.attempt, job.crashes, job.fence, job.steps.len(), last).hash(to);
        match &job.state {
            State::Running(lease) => {
                (&lease.worker, lease.fence, lease.expires_at, lease.cancel_requested, lease.marked_at)
                    .hash(to);
            }
            other => other.name().hash(to),
        }
    }
}
