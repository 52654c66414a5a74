//! What `core`'s picker reads of a file: the gates that are awake, what bounds them, and their ready jobs.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rusqlite::params;
use windlass_core::id::BudgetName;
use windlass_core::pick::{self, BudgetNo, Gate, Head, Heads, NextHead, QueueRoom, Rooms};
use windlass_core::policy::budget::Budget;
use windlass_core::store::ClaimRequest;
use windlass_core::time::Time;

use crate::fail::{Done, Fail};
use crate::ready::gate::{self, Awake};
use crate::ready::lanes::Place;
use crate::rows::head::signed;
use crate::rows::row::{Names, Stored, at, select_queued};
use crate::rows::{past, tally};
use crate::run::tx::{NamedQueue, Tx};
use crate::verbs::budgets;

/// What a claim takes.
pub struct Picked {
    /// The jobs, in order.
    pub jobs: Vec<Stored>,
    /// The same, by gate.
    pub taken: Vec<Taken>,
    /// How many gates of the queues may have ready jobs, asked for or not; of each queue counted up to two.
    pub gates: u32,
    /// Those of them that have none.
    pub empty: Vec<i64>,
    /// There are more that may run; the claim asked for no more.
    pub more: bool,
    /// When time alone may free another that is ready by now.
    pub next_free: Option<Time>,
    /// The budgets that were spent of.
    pub spent: Vec<Budget>,
}

/// What a claim takes of a gate.
#[derive(Debug, Clone, Copy)]
pub struct Taken {
    /// The last of them.
    pub last: Place,
    /// How many they are.
    pub count: usize,
    /// Whether they are all that stand before the last.
    pub whole: bool,
}

/// Chooses the jobs of a claim. Writes nothing.
pub fn pick(tx: &mut Tx<'_>, request: &ClaimRequest) -> Done<Picked> {
    let Asked { mut rooms, cursors, seen } = asked(tx, request)?;
    let mut lines = Lines { tx, alone: cursors.len() == 1, cursors };
    let picked = pick::pick(request, &mut rooms, &mut lines)?;
    let mut taken: Vec<Option<Taken>> = vec![None; lines.cursors.len()];
    let mut jobs = Vec::with_capacity(picked.taken.len());
    for pick::Taken { gate, row: Found { stored, left_one_out }, passed_one } in picked.taken {
        let count = taken[gate].map_or(0, |taken| taken.count) + 1;
        let whole = !passed_one && !left_one_out;
        taken[gate] = Some(Taken { last: Place::of(&stored)?, count, whole });
        jobs.push(stored);
    }
    Ok(Picked {
        jobs,
        taken: taken.into_iter().flatten().collect(),
        gates: seen,
        empty: lines.emptied(picked.empty),
        more: picked.more,
        next_free: picked.next_free,
        spent: rooms.into_spent().collect(),
    })
}

/// Whether a claim asks for jobs of this queue and kind.
pub fn is_wanted(request: &ClaimRequest, queue: &str, kind: &str) -> bool {
    request.queues.iter().any(|name| name.as_str() == queue)
        && request.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|name| name.as_str() == kind))
}

/// What a claim looks at.
struct Asked {
    rooms: Rooms,
    /// Of the gates that are asked for and may have ready jobs.
    cursors: Vec<Cursor>,
    /// How many gates of their queues may have some, asked for or not: counted up to two of each queue.
    seen: u32,
}

fn asked(tx: &mut Tx<'_>, request: &ClaimRequest) -> Done<Asked> {
    let mut asked = Asked { rooms: Rooms::new(tx.now), cursors: Vec::new(), seen: 0 };
    let mut known: HashMap<BudgetName, Option<BudgetNo>> = HashMap::new();
    let epoch = tx.epoch()?.epoch.number;
    for (at, name) in request.queues.iter().enumerate() {
        if request.queues[..at].contains(name) {
            continue;
        }
        let queue = tx.queue(name.as_str())?;
        if queue.queue.paused {
            continue;
        }
        asked.seen += gate::count_awake(tx.conn, name.as_str())?;
        let room = asked.rooms.queue(room_of(tx, &queue)?);
        for Awake { number, budgets: named, epoch: free_in } in gate::awake(tx.conn, name.as_str(), request)?
        {
            let mut budgets = Vec::new();
            for name in named {
                let number = match known.get(&name) {
                    Some(number) => *number,
                    None => {
                        let number = learn(tx, &mut asked.rooms, &name)?;
                        known.insert(name, number);
                        number
                    }
                };
                budgets.extend(number);
            }
            asked.rooms.gate(Gate { queue: room, budgets, nobody_elses: free_in == epoch });
            asked.cursors.push(Cursor::of(number));
        }
    }
    Ok(asked)
}

fn room_of(tx: &mut Tx<'_>, queue: &Arc<NamedQueue>) -> Done<QueueRoom> {
    let limit = queue.queue.policy.limit;
    let running = match limit {
        Some(_) => tally::of_queue(tx.conn, queue.name.as_str())?.running,
        None => 0,
    };
    let epoch = tx.epoch()?;
    Ok(QueueRoom {
        paused: queue.queue.paused,
        limit,
        running: u32::try_from(running).unwrap_or(u32::MAX),
        pause_until: epoch.pause_until(tx.conn, queue.name.as_str(), tx.now)?,
    })
}

/// A budget that jobs name; nothing when nobody defined it.
fn learn(tx: &Tx<'_>, rooms: &mut Rooms, name: &BudgetName) -> Done<Option<BudgetNo>> {
    let Some(budget) = budgets::load(tx.conn, name)? else { return Ok(None) };
    Ok(Some(rooms.budget(budget, tally::slots_used(tx.conn, name.as_str())?)))
}

/// How many jobs of a gate are read at first, when others may go first.
const BATCH_FIRST: u32 = 16;

/// The ready jobs of a gate, read as they are needed.
struct Cursor {
    number: i64,
    found: VecDeque<Stored>,
    read_to: (i64, i64),
    batch: u32,
    over: bool,
    /// One that stands here is not due, by a clock that went back.
    left_one_out: bool,
}

/// A ready job.
struct Found {
    stored: Stored,
    /// One before it was left out.
    left_one_out: bool,
}

impl Cursor {
    fn of(number: i64) -> Self {
        let read_to = (i64::MIN, -1);
        Self { number, found: VecDeque::new(), read_to, batch: BATCH_FIRST, over: false, left_one_out: false }
    }

    fn read(&mut self, tx: &Tx<'_>, most: u32) -> Done<()> {
        let mut select = tx.sql(select_queued!("../../sql/jobs/of_gate.sql"))?;
        let (rank, seq) = self.read_to;
        let mut rows = select.query(params![self.number, rank, seq, most])?;
        let mut names = Names::default();
        self.found.reserve(most as usize);
        while let Some(row) = rows.next()? {
            let mut stored = Stored::read_queued(row, &mut names)?;
            if row.get(at::AFTER)? {
                past::load(tx, &mut stored.job)?;
            }
            stored.heir = row.get(at::AFTER + 1)?;
            self.found.push_back(stored);
        }
        self.over = self.found.len() < most as usize;
        if let Some(Stored { job, .. }) = self.found.back() {
            self.read_to = (job.rank, signed(job.seq)?);
        }
        self.batch = self.batch.saturating_mul(4);
        Ok(())
    }
}

/// The gates of a claim.
struct Lines<'a, 'tx> {
    tx: &'a Tx<'tx>,
    cursors: Vec<Cursor>,
    /// There is one gate: as much is read of it at once as the claim wants.
    alone: bool,
}

impl Lines<'_, '_> {
    /// The numbers of gates without a job that may be read: not of those where one stands that is not due.
    fn emptied(&self, gates: Vec<usize>) -> Vec<i64> {
        let cursors = gates.into_iter().map(|gate| &self.cursors[gate]);
        cursors.filter(|cursor| !cursor.left_one_out).map(|cursor| cursor.number).collect()
    }
}

impl Heads for Lines<'_, '_> {
    type Key = i64;
    type Row = Found;
    type Error = Fail;

    fn next(&mut self, gate: usize, wanted: u32) -> NextHead<Self> {
        let cursor = &mut self.cursors[gate];
        loop {
            if cursor.found.is_empty() && !cursor.over {
                let most = if self.alone { wanted } else { cursor.batch.min(wanted) };
                cursor.read(self.tx, most)?;
            }
            let Some(stored) = cursor.found.pop_front() else { return Ok(None) };
            if stored.job.run_at > self.tx.now {
                cursor.left_one_out = true;
                continue;
            }
            let (rank, seq, key) = (stored.job.rank, stored.job.seq, stored.slot);
            let bytes = carried_bytes(self.tx, &stored)?;
            let row = Found { stored, left_one_out: cursor.left_one_out };
            return Ok(Some(Head { rank, seq, key, bytes, row }));
        }
    }
}

/// [`windlass_core::job::Job::carried_bytes`] of a job whose steps are not loaded.
fn carried_bytes(tx: &Tx<'_>, stored: &Stored) -> Done<usize> {
    let mut bytes = stored.job.carried_bytes();
    if stored.steps_count > 0 {
        let mut select = tx.sql(sql!("step", "bytes"))?;
        let steps: i64 = select.query_row(params![signed(stored.job.seq)?], |row| row.get(0))?;
        bytes = bytes.saturating_add(usize::try_from(steps).unwrap_or(usize::MAX));
    }
    Ok(bytes)
}
