//! Which ready jobs a claim takes: the first by (rank, seq) over all open
//! gates, exactly as the book would.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use rusqlite::params;
use windlass_core::book::claim::free_by_time;
use windlass_core::eligible::{BudgetNow, QueueNow, holds, is_free};
use windlass_core::id::{BudgetName, QueueName};
use windlass_core::job::Job;
use windlass_core::policy::budget::Budget;
use windlass_core::store::{CLAIM_BYTES_MAX, ClaimRequest};
use windlass_core::time::Time;

use crate::fail::Done;
use crate::gate::{self, Awake};
use crate::head::signed;
use crate::lanes::Place;
use crate::row::{Names, Stored, at, select_queued};
use crate::tx::{NamedQueue, Tx};
use crate::{budgets, past, tally};

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
    let OpenGates { mut gates, seen, next_free } = open_gates(tx, request)?;
    let alone = gates.len() == 1;
    let mut hall = Hall { alone, next_free, ..Hall::default() };
    let mut heads = BinaryHeap::new();
    let mut empty = Vec::new();
    for (at, gate) in gates.iter_mut().enumerate() {
        gate.room = hall.room(tx, &gate.queue)?;
        let all = alone && gate.unbudgeted && gate.has_room_for(request.limit);
        gate.batch = if all { request.limit } else { BATCH_FIRST.min(request.limit) }.max(1);
        match gate.head(tx, request.limit)? {
            Some(place) => heads.push(Reverse((place, at))),
            None => empty.push(gate.number),
        }
    }
    let mut jobs = Vec::new();
    let mut more = false;
    let mut bytes = 0;
    while let Some(Reverse((_, at))) = heads.pop() {
        if jobs.len() >= request.limit as usize {
            more = true;
            break;
        }
        let Some(found) = gates[at].found.pop_front() else { continue };
        let entry = if found.slot.is_some_and(|slot| hall.keys.contains(&slot)) {
            Entry::KeyTaken
        } else if gates[at].lets_pass(&found.job, tx.now) && gates[at].has_room_for(1) {
            Entry::Passes
        } else {
            hall.may_enter(tx, &found.job)?
        };
        if matches!(entry, Entry::Passes | Entry::Open) {
            bytes += carried_bytes(tx, &found)?;
            if bytes > CLAIM_BYTES_MAX && !jobs.is_empty() {
                more = true;
                break;
            }
        }
        let open = match entry {
            Entry::Passes => {
                gates[at].fill_room();
                hall.hold(found.slot);
                gates[at].take(found, &mut jobs)?;
                true
            }
            Entry::Open => {
                hall.hold(found.slot);
                hall.enter(&found.job, tx.now);
                gates[at].take(found, &mut jobs)?;
                true
            }
            Entry::KeyTaken => {
                gates[at].left_out = true;
                true
            }
            // What holds it back holds back all behind it, unless two gates share a number.
            Entry::Held => {
                gates[at].left_out = true;
                !gates[at].admits(&found.job)
            }
        };
        if open {
            let left = request.limit as usize - jobs.len();
            heads.extend(gates[at].head(tx, left as u32)?.map(|place| Reverse((place, at))));
        }
    }
    let taken = gates.iter().filter_map(|gate| gate.taken).collect();
    let next_free = if more { None } else { hall.next_free };
    Ok(Picked { jobs, taken, gates: seen, empty, more, next_free, spent: hall.into_spent() })
}

/// [`Job::carried_bytes`] of a job whose steps are not loaded.
fn carried_bytes(tx: &Tx<'_>, stored: &Stored) -> Done<usize> {
    let mut bytes = stored.job.carried_bytes();
    if stored.steps_count > 0 {
        let mut select = tx.sql(include_str!("../sql/steps_bytes.sql"))?;
        let steps: i64 = select.query_row(params![signed(stored.job.seq)?], |row| row.get(0))?;
        bytes = bytes.saturating_add(usize::try_from(steps).unwrap_or(usize::MAX));
    }
    Ok(bytes)
}

/// How many jobs of a gate are read at first, when it may close or others may go first.
const BATCH_FIRST: u32 = 16;

/// The ready jobs of one queue, kind and set of budgets, read as they are needed.
struct Gate {
    number: i64,
    queue: Arc<NamedQueue>,
    kind: String,
    room: Option<Room>,
    /// No budget can close it.
    unbudgeted: bool,
    found: VecDeque<Stored>,
    read_to: (i64, i64),
    batch: u32,
    over: bool,
    /// One that was looked at was not taken.
    left_out: bool,
    taken: Option<Taken>,
}

impl Gate {
    fn take(&mut self, found: Stored, jobs: &mut Vec<Stored>) -> Done<()> {
        let last = Place::of(&found)?;
        let count = self.taken.map_or(0, |taken| taken.count) + 1;
        self.taken = Some(Taken { last, count, whole: !self.left_out });
        jobs.push(found);
        Ok(())
    }

    /// The place of the first job that was not looked at. No more are read
    /// than the claim still wants, and one that tells whether there are more.
    fn head(&mut self, tx: &Tx<'_>, left: u32) -> Done<Option<(i64, u64)>> {
        if self.found.is_empty() && !self.over {
            self.batch = self.batch.min(left.saturating_add(1));
            self.read(tx)?;
        }
        Ok(self.found.front().map(|found| (found.job.rank, found.job.seq)))
    }

    fn read(&mut self, tx: &Tx<'_>) -> Done<()> {
        let mut select = tx.sql(select_queued!("../sql/gate_read.sql"))?;
        let (rank, seq) = self.read_to;
        let mut rows = select.query(params![self.number, rank, seq, self.batch])?;
        let mut names = Names::default();
        self.found.reserve(self.batch as usize);
        while let Some(row) = rows.next()? {
            let mut stored = Stored::read_queued(row, &mut names)?;
            if row.get(at::AFTER)? {
                past::load(tx, &mut stored.job)?;
            }
            stored.heir = row.get(at::AFTER + 1)?;
            self.found.push_back(stored);
        }
        self.over = self.found.len() < self.batch as usize;
        if let Some(Stored { job, .. }) = self.found.back() {
            self.read_to = (job.rank, signed(job.seq)?);
        }
        self.batch = self.batch.saturating_mul(4);
        Ok(())
    }

    /// Whether nothing but the end of the claim can hold back this job: the rules need not be asked.
    fn lets_pass(&self, job: &Job, now: Time) -> bool {
        job.spec.budgets.is_empty() && job.run_at <= now && self.admits(job)
    }

    fn has_room_for(&self, jobs: u32) -> bool {
        self.room.as_ref().is_none_or(|room| room.running.get().saturating_add(jobs) <= room.limit)
    }

    fn fill_room(&self) {
        if let Some(room) = &self.room {
            room.running.set(room.running.get().saturating_add(1));
        }
    }

    fn admits(&self, job: &Job) -> bool {
        self.queue.name == job.spec.queue && self.kind == job.spec.kind.as_str()
    }
}

/// The gates that a claim looks at.
struct OpenGates {
    /// Those that are asked for and may have ready jobs.
    gates: Vec<Gate>,
    /// How many of their queues may have some, asked for or not: counted up to two of each queue.
    seen: u32,
    /// When the epoch lets go of jobs of a gate that was passed by.
    next_free: Option<Time>,
}

fn open_gates(tx: &mut Tx<'_>, request: &ClaimRequest) -> Done<OpenGates> {
    let mut gates = Vec::new();
    let mut seen = 0;
    let mut next_free: Option<Time> = None;
    for (at, name) in request.queues.iter().enumerate() {
        if request.queues[..at].contains(name) {
            continue;
        }
        let queue = tx.queue(name.as_str())?;
        if queue.queue.paused {
            continue;
        }
        seen += gate::count_awake(tx.conn, name.as_str())?;
        let held_until = held_until(tx, &queue)?;
        for Awake { number, kind, budgeted, epoch } in gate::awake(tx.conn, name.as_str(), request)? {
            if let Some(until) =
                held_until.filter(|held| held.holds_back(&queue, epoch)).map(|held| held.until)
            {
                if next_free.is_none_or(|other| until < other) && gate::has_ready(tx.conn, number)? {
                    next_free = Some(until);
                }
                continue;
            }
            gates.push(Gate {
                unbudgeted: !budgeted,
                number,
                queue: Arc::clone(&queue),
                kind,
                room: None,
                found: VecDeque::new(),
                read_to: (i64::MIN, -1),
                batch: 1,
                over: false,
                left_out: false,
                taken: None,
            });
        }
    }
    Ok(OpenGates { gates, seen, next_free })
}

/// Jobs of a queue that the epoch holds back.
#[derive(Clone, Copy)]
struct HeldUntil {
    epoch: u64,
    until: Time,
}

impl HeldUntil {
    /// Whether all jobs of a gate are held back; mirrors `Epoch::may_be_held`, but for budgets with slots.
    fn holds_back(&self, queue: &NamedQueue, epoch: u64) -> bool {
        epoch != self.epoch || queue.queue.policy.limit.is_some()
    }
}

fn held_until(tx: &mut Tx<'_>, queue: &NamedQueue) -> Done<Option<HeldUntil>> {
    let now = tx.epoch()?;
    let until = now.pause_until(tx.conn, queue.name.as_str(), &queue.queue.policy, tx.now)?;
    Ok(until.map(|until| HeldUntil { epoch: now.epoch.number, until }))
}

/// Whether a claim asks for jobs of this queue and kind.
pub fn is_wanted(request: &ClaimRequest, queue: &str, kind: &str) -> bool {
    request.queues.iter().any(|name| name.as_str() == queue)
        && request.kinds.as_ref().is_none_or(|kinds| kinds.iter().any(|name| name.as_str() == kind))
}

/// Whether a job may be taken.
enum Entry {
    /// No budget needs to be told.
    Passes,
    Open,
    KeyTaken,
    Held,
}

/// How many jobs of a queue with a limit run; gates of one queue share it.
struct Room {
    limit: u32,
    running: Rc<Cell<u32>>,
}

/// Who runs, with those that this claim has taken.
#[derive(Default)]
struct Hall {
    queues: HashMap<QueueName, (Arc<NamedQueue>, Rc<Cell<u32>>)>,
    budgets: BTreeMap<BudgetName, Named>,
    /// By their slots.
    keys: HashSet<i64>,
    /// There is one gate, so no two that are ready have the same key.
    alone: bool,
    next_free: Option<Time>,
}

/// A budget that jobs name; without one, everything is allowed.
struct Named {
    budget: Option<Budget>,
    slots_used: u32,
    spent: bool,
}

impl Hall {
    fn hold(&mut self, slot: Option<i64>) {
        if !self.alone {
            self.keys.extend(slot);
        }
    }

    fn may_enter(&mut self, tx: &mut Tx<'_>, job: &Job) -> Done<Entry> {
        self.learn(tx, job)?;
        let Some((queue, running)) = self.queues.get(&job.spec.queue) else { return Ok(Entry::Held) };
        let epoch = tx.epoch()?;
        let until = epoch.pause_until(tx.conn, queue.name.as_str(), &queue.queue.policy, tx.now)?;
        let queue_now = QueueNow {
            policy: &queue.queue.policy,
            paused: queue.queue.paused,
            running: running.get(),
            // A ready job's key is free: that is what the lane means.
            key_holder: None,
            pause: until.map(|until| (&epoch.epoch, until)),
        };
        let named = |name| {
            let Named { budget, slots_used, spent: _ } = self.budgets.get(name)?;
            Some(BudgetNow { budget: budget.as_ref()?, slots_used: *slots_used })
        };
        if is_free(job, &queue_now, job.spec.budgets.iter().filter_map(named), tx.now) {
            return Ok(Entry::Open);
        }
        let budgets = job.spec.budgets.iter().filter_map(|name| Some((name.clone(), named(name)?)));
        let holds = holds(job, &queue_now, &budgets.collect(), tx.now);
        if holds.is_empty() {
            return Ok(Entry::Open);
        }
        if let Some(at) = free_by_time(&holds) {
            self.next_free = Some(self.next_free.map_or(at, |other| other.min(at)));
        }
        Ok(Entry::Held)
    }

    /// Reads the queue and the budgets of a job, once each.
    fn learn(&mut self, tx: &mut Tx<'_>, job: &Job) -> Done<()> {
        if !self.queues.contains_key(&job.spec.queue) {
            let queue = tx.queue(job.spec.queue.as_str())?;
            self.learn_queue(tx, &queue)?;
        }
        for name in &job.spec.budgets {
            if !self.budgets.contains_key(name) {
                let named = Named {
                    budget: budgets::load(tx.conn, name)?,
                    slots_used: tally::slots_used(tx.conn, name.as_str())?,
                    spent: false,
                };
                self.budgets.insert(name.clone(), named);
            }
        }
        Ok(())
    }

    fn learn_queue(&mut self, tx: &Tx<'_>, queue: &Arc<NamedQueue>) -> Done<()> {
        let running = match queue.queue.policy.limit {
            Some(_) => tally::of_queue(tx.conn, queue.name.as_str())?.running,
            None => 0,
        };
        let running = Rc::new(Cell::new(u32::try_from(running).unwrap_or(u32::MAX)));
        self.queues.insert(queue.name.clone(), (Arc::clone(queue), running));
        Ok(())
    }

    /// The room of a queue; nothing when it has no limit.
    fn room(&mut self, tx: &Tx<'_>, queue: &Arc<NamedQueue>) -> Done<Option<Room>> {
        let Some(limit) = queue.queue.policy.limit else { return Ok(None) };
        if !self.queues.contains_key(&queue.name) {
            self.learn_queue(tx, queue)?;
        }
        Ok(self.queues.get(&queue.name).map(|(_, running)| Room { limit, running: Rc::clone(running) }))
    }

    fn enter(&mut self, job: &Job, now: Time) {
        if let Some((_, running)) = self.queues.get(&job.spec.queue) {
            running.set(running.get().saturating_add(1));
        }
        for name in &job.spec.budgets {
            if let Some(named) = self.budgets.get_mut(name) {
                named.slots_used = named.slots_used.saturating_add(1);
                if let Some(budget) = &mut named.budget {
                    budget.spend(1, now);
                    named.spent = true;
                }
            }
        }
    }

    fn into_spent(self) -> Vec<Budget> {
        self.budgets.into_values().filter(|named| named.spent).filter_map(|named| named.budget).collect()
    }
}
