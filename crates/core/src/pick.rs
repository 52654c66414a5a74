//! The picker: which jobs a claim takes, and in which order. Pure, and the only one: the book and every store that reads
//! jobs one by one ask it, and what a statement of SQL picks by itself is compared with it.
//!
//! Queued jobs that are held back by the same things, their keys aside, stand at one [`Gate`], in order of rank and acceptance.
//! What bounds a gate is counted in [`Rooms`]: a limit or a budget leaves so much, and each job that is taken leaves one
//! less. A pick is a merge of the [`Heads`] of all gates, in an [`Order`], with that subtraction.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::hash::Hash;

use crate::eligible::{BudgetNow, Hold, budget_hold, free_by_time, queue_holds};
use crate::policy::budget::Budget;
use crate::store::{CLAIM_BYTES_MAX, ClaimRequest};
use crate::time::Time;

/// A queue in [`Rooms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueNo(usize);

/// A budget in [`Rooms`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetNo(usize);

/// What of a queue bounds its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueRoom {
    /// Whether it is paused.
    pub paused: bool,
    /// How many of its jobs may run.
    pub limit: Option<u32>,
    /// How many do; not asked for without a limit.
    pub running: u32,
    /// Until when the epoch holds back what others may hold.
    pub pause_until: Option<Time>,
}

/// A budget that somebody defined; others bound nothing.
#[derive(Debug, Clone)]
struct BudgetRoom {
    budget: Budget,
    slots_used: u32,
    /// What it allows before anything was taken.
    allowance: u32,
    taken: u32,
}

/// Jobs that are held back by the same things, but for their keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    /// Their queue.
    pub queue: QueueNo,
    /// Those of their budgets that somebody defined.
    pub budgets: Vec<BudgetNo>,
    /// Nobody in a lost history can hold them, unless something counts them: [`crate::epoch::Epoch::may_be_held`].
    pub nobody_elses: bool,
}

/// What is left of everything that bounds a claim.
#[derive(Debug, Clone)]
pub struct Rooms {
    now: Time,
    queues: Vec<QueueRoom>,
    budgets: Vec<BudgetRoom>,
    gates: Vec<Gate>,
}

impl Rooms {
    /// Nothing yet, at `now`.
    pub fn new(now: Time) -> Self {
        Self { now, queues: Vec::new(), budgets: Vec::new(), gates: Vec::new() }
    }

    /// Adds a queue.
    pub fn queue(&mut self, room: QueueRoom) -> QueueNo {
        self.queues.push(room);
        QueueNo(self.queues.len() - 1)
    }

    /// Adds a budget, of which `slots_used` running jobs have a slot.
    pub fn budget(&mut self, budget: Budget, slots_used: u32) -> BudgetNo {
        let allowance = budget.allowance(slots_used, self.now);
        self.budgets.push(BudgetRoom { budget, slots_used, allowance, taken: 0 });
        BudgetNo(self.budgets.len() - 1)
    }

    /// Adds a gate. Gates are named by the order in which they were added.
    pub fn gate(&mut self, gate: Gate) -> usize {
        self.gates.push(gate);
        self.gates.len() - 1
    }

    /// How many more jobs of a gate may start; none when it is closed.
    pub fn left(&self, gate: usize) -> u32 {
        let gate = &self.gates[gate];
        let queue = &self.queues[gate.queue.0];
        if queue.paused || self.epoch_hold(gate).is_some() {
            return 0;
        }
        let limit = queue.limit.map_or(u32::MAX, |limit| limit.saturating_sub(queue.running));
        let budgets = gate.budgets.iter().map(|budget| {
            let BudgetRoom { allowance, taken, .. } = &self.budgets[budget.0];
            allowance.saturating_sub(*taken)
        });
        budgets.fold(limit, u32::min)
    }

    /// What closes a gate; empty when it is open. As [`crate::eligible::holds`] says it of each of its jobs.
    pub fn holds(&self, gate: usize) -> Vec<Hold> {
        let gate = &self.gates[gate];
        let QueueRoom { paused, limit, running, .. } = self.queues[gate.queue.0];
        let mut holds: Vec<Hold> = queue_holds(paused, self.epoch_hold(gate), limit, running).collect();
        for BudgetNo(at) in &gate.budgets {
            let BudgetRoom { budget, slots_used, taken, .. } = &self.budgets[*at];
            let mut budget = budget.clone();
            budget.spend(*taken, self.now);
            let slots_used = slots_used.saturating_add(*taken);
            holds.extend(budget_hold(&BudgetNow { budget: &budget, slots_used }, self.now));
        }
        holds
    }

    /// Until when the epoch holds back the jobs of a gate, where it does: others may hold them, or something counts them that
    /// may not have counted all.
    fn epoch_hold(&self, gate: &Gate) -> Option<Time> {
        let queue = &self.queues[gate.queue.0];
        let until = queue.pause_until.filter(|until| self.now < *until)?;
        let slotted = gate.budgets.iter().any(|budget| self.budgets[budget.0].budget.policy.slots.is_some());
        (!gate.nobody_elses || queue.limit.is_some() || slotted).then_some(until)
    }

    fn take(&mut self, gate: usize) {
        let Self { queues, budgets, gates, .. } = self;
        let gate = &gates[gate];
        let queue = &mut queues[gate.queue.0];
        queue.running = queue.running.saturating_add(1);
        for budget in &gate.budgets {
            budgets[budget.0].taken += 1;
        }
    }

    /// The budgets that were spent of, as they are now.
    pub fn into_spent(self) -> impl Iterator<Item = Budget> {
        let now = self.now;
        self.budgets.into_iter().filter(|room| room.taken > 0).map(move |mut room| {
            room.budget.spend(room.taken, now);
            room.budget
        })
    }
}

/// The next job of a gate.
#[derive(Debug, Clone)]
pub struct Head<K, R> {
    /// Its rank.
    pub rank: i64,
    /// Its number.
    pub seq: u64,
    /// What stands for its key, if it has one.
    pub key: Option<K>,
    /// [`crate::job::Job::carried_bytes`].
    pub bytes: usize,
    /// What the store knows it by.
    pub row: R,
}

/// Reads the jobs of gates.
pub trait Heads {
    /// What stands for a key of a queue.
    type Key: Eq + Hash;
    /// What a store knows a job by.
    type Row;
    /// What can go wrong while reading.
    type Error;

    /// The next job of a gate: in order of rank and number, each once, due, its key free as far as the store knows. The claim
    /// wants no more of this gate than `wanted`, so that it may be read ahead that far.
    fn next(&mut self, gate: usize, wanted: u32) -> NextHead<Self>;
}

/// What [`Heads::next`] answers.
pub type NextHead<H> = Result<Option<Head<<H as Heads>::Key, <H as Heads>::Row>>, <H as Heads>::Error>;

/// In which order jobs of several gates are taken; within a gate it is always that of rank and number.
pub trait Order {
    /// The lowest goes first. It may only grow when jobs are taken.
    type Key: Ord;

    /// That of the next job of a gate.
    fn key(&self, gate: usize, rank: i64, seq: u64) -> Self::Key;

    /// A job of a gate was taken.
    fn took(&mut self, gate: usize);
}

/// By rank, then by acceptance, over all gates.
#[derive(Debug, Clone, Copy, Default)]
pub struct ByRank;

impl Order for ByRank {
    type Key = (i64, u64);

    fn key(&self, _: usize, rank: i64, seq: u64) -> (i64, u64) {
        (rank, seq)
    }

    fn took(&mut self, _: usize) {}
}

/// A job that a claim takes.
#[derive(Debug, Clone)]
pub struct Taken<R> {
    /// Of which gate.
    pub gate: usize,
    /// What the store knows it by.
    pub row: R,
    /// Whether one before it, of the same gate, was left where it is.
    pub passed_one: bool,
}

/// What a claim takes.
#[derive(Debug, Clone)]
pub struct Picked<R> {
    /// The jobs, in the order in which they start.
    pub taken: Vec<Taken<R>>,
    /// Gates without any job that may be read.
    pub empty: Vec<usize>,
    /// There are more that may run: the claim asked for no more, or can carry no more.
    pub more: bool,
    /// When time alone may open a gate that is closed, unless there are more.
    pub next_free: Option<Time>,
}

/// Chooses the jobs of a claim, and leaves in `rooms` what is left.
pub fn pick<H: Heads>(
    request: &ClaimRequest,
    rooms: &mut Rooms,
    heads: &mut H,
) -> Result<Picked<H::Row>, H::Error> {
    pick_by(&mut ByRank, request, rooms, heads)
}

/// [`pick`] in another order.
pub fn pick_by<O: Order, H: Heads>(
    order: &mut O,
    request: &ClaimRequest,
    rooms: &mut Rooms,
    heads: &mut H,
) -> Result<Picked<H::Row>, H::Error> {
    let mut picked = Picked { taken: Vec::new(), empty: Vec::new(), more: false, next_free: None };
    let mut fronts: Vec<Option<Head<H::Key, H::Row>>> = Vec::with_capacity(rooms.gates.len());
    let mut passed = vec![false; rooms.gates.len()];
    let mut closed = Vec::new();
    let mut line = BinaryHeap::new();
    for gate in 0..rooms.gates.len() {
        let left = rooms.left(gate);
        let head = heads.next(gate, request.limit.min(left).saturating_add(1))?;
        match &head {
            None => picked.empty.push(gate),
            Some(_) if left == 0 => closed.push(gate),
            Some(head) => line.push(Reverse((order.key(gate, head.rank, head.seq), gate))),
        }
        fronts.push(head);
    }
    // Who asks for nothing is told nothing.
    picked.more = request.limit == 0 && picked.empty.len() < rooms.gates.len();
    let mut keys = HashSet::new();
    let mut bytes = 0_usize;
    while let Some(Reverse((key, gate))) = line.pop() {
        let Some(head) = fronts[gate].take() else { continue };
        let key_now = order.key(gate, head.rank, head.seq);
        if key_now != key {
            // Jobs were taken since, and its turn comes later.
            line.push(Reverse((key_now, gate)));
            fronts[gate] = Some(head);
            continue;
        }
        if picked.taken.len() >= request.limit as usize {
            picked.more = true;
            break;
        }
        if rooms.left(gate) == 0 {
            closed.push(gate);
            continue;
        }
        if head.key.as_ref().is_some_and(|key| keys.contains(key)) {
            // Its key is given with this claim: it waits for that one's end, and those behind it do not.
            passed[gate] = true;
        } else {
            bytes = bytes.saturating_add(head.bytes);
            if bytes > CLAIM_BYTES_MAX && !picked.taken.is_empty() {
                picked.more = true;
                break;
            }
            keys.extend(head.key);
            rooms.take(gate);
            order.took(gate);
            picked.taken.push(Taken { gate, row: head.row, passed_one: passed[gate] });
        }
        let wanted = request.limit.saturating_sub(picked.taken.len() as u32);
        if let Some(next) = heads.next(gate, wanted.min(rooms.left(gate)).saturating_add(1))? {
            line.push(Reverse((order.key(gate, next.rank, next.seq), gate)));
            fronts[gate] = Some(next);
        }
    }
    if !picked.more {
        picked.next_free = closed.into_iter().filter_map(|gate| free_by_time(&rooms.holds(gate))).min();
    }
    Ok(picked)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};
    use std::convert::Infallible;

    use uuid::Uuid;

    use super::*;
    use crate::eligible::{QueueNow, holds};
    use crate::epoch::Epoch;
    use crate::id::{BudgetName, JobId, Kind, QueueName, WorkerName};
    use crate::job::{JobSpec, NewJob, Start};
    use crate::json::Json;
    use crate::policy::budget::BudgetPolicy;
    use crate::policy::queue::QueuePolicy;

    /// Rank, number, key and bytes.
    type Listed = (i64, u64, Option<u8>, usize);

    struct Lists(Vec<VecDeque<Listed>>);

    impl Heads for Lists {
        type Key = u8;
        type Row = u64;
        type Error = Infallible;

        fn next(&mut self, gate: usize, wanted: u32) -> NextHead<Self> {
            assert!(wanted > 0, "nobody asks for nothing");
            let next = self.0[gate].pop_front();
            Ok(next.map(|(rank, seq, key, bytes)| Head { rank, seq, key, bytes, row: seq }))
        }
    }

    fn wish(limit: u32) -> ClaimRequest {
        ClaimRequest {
            request_id: Uuid::nil(),
            worker: WorkerName::new("w").expect("a name"),
            queues: vec![QueueName::default()],
            kinds: None,
            limit,
            lease_ms: None,
        }
    }

    fn open(gates: usize) -> Rooms {
        let mut rooms = Rooms::new(Time::from_ms(0));
        let queue = rooms.queue(QueueRoom::default());
        for _ in 0..gates {
            rooms.gate(Gate { queue, budgets: Vec::new(), nobody_elses: true });
        }
        rooms
    }

    fn picked(limit: u32, lists: &[&[Listed]]) -> (Vec<u64>, bool) {
        let mut heads = Lists(lists.iter().map(|list| list.iter().copied().collect()).collect());
        let Ok(picked) = pick(&wish(limit), &mut open(lists.len()), &mut heads);
        (picked.taken.iter().map(|taken| taken.row).collect(), picked.more)
    }

    #[test]
    fn gates_are_merged_by_rank_and_number() {
        let lists: [&[_]; 3] = [&[(0, 4, None, 1), (0, 7, None, 1)], &[(-1, 9, None, 1)], &[(0, 5, None, 1)]];
        assert_eq!(picked(9, &lists), (vec![9, 4, 5, 7], false));
        assert_eq!(picked(2, &lists), (vec![9, 4], true));
        assert_eq!(picked(4, &lists), (vec![9, 4, 5, 7], false), "all there were, and it knows");
        assert_eq!(picked(0, &lists), (vec![], true));
    }

    #[test]
    fn a_key_is_given_once_and_holds_back_nobody_behind_it() {
        let lists: [&[_]; 2] = [
            &[(0, 1, Some(7), 1), (0, 3, Some(7), 1), (0, 4, Some(8), 1)],
            &[(0, 2, Some(7), 1), (0, 5, None, 1)],
        ];
        assert_eq!(picked(9, &lists), (vec![1, 4, 5], false));
    }

    #[test]
    fn a_claim_carries_so_many_bytes_and_at_least_one_job() {
        let most = CLAIM_BYTES_MAX;
        assert_eq!(picked(9, &[&[(0, 1, None, most + 1), (0, 2, None, 1)]]), (vec![1], true));
        assert_eq!(
            picked(9, &[&[(0, 1, None, most - 1), (0, 2, None, 1), (0, 3, None, 1)]]),
            (vec![1, 2], true)
        );
    }

    /// A gate is closed exactly when something holds its jobs, and by the same, whatever queue, budget and epoch say.
    #[test]
    fn a_gate_is_closed_by_what_holds_its_jobs() {
        let now = Time::from_ms(1_800_000_000_000);
        let name = BudgetName::new("b").expect("a name");
        let epoch = Epoch::default().next(Uuid::nil(), 0, 0, true, now);
        let mut seen = [0, 0];
        for case in 0_u32..256 {
            let is = |bit: u32| case & (1 << bit) != 0;
            let mut spec = JobSpec::new(Kind::new("k").expect("a kind"), QueueName::default(), Json::null());
            spec.budgets = vec![name.clone()];
            let policy = QueuePolicy { limit: is(2).then_some(2), ..QueuePolicy::default() };
            // Of version 7, made in the epoch, or not.
            let made_ms = if is(0) { now.ms() as u128 } else { 0 };
            let id = JobId(Uuid::from_u128((made_ms << 80) | (7 << 76) | (2 << 62)));
            let job = crate::transition::accept(NewJob { id, spec, start: Start::Now }, 1, &policy, now);
            let running = if is(3) { 2 } else { 1 };
            let until = is(7).then_some(now.plus_ms(1));
            let queue = QueueNow {
                policy: &policy,
                paused: is(1),
                running,
                key_holder: None,
                pause: until.map(|until| (&epoch, until)),
            };
            let bounds =
                BudgetPolicy { slots: is(5).then_some(1), per_second: Some(1), ..BudgetPolicy::default() };
            let mut budget = Budget::new(name.clone(), bounds);
            if is(6) {
                budget.spend(1, now);
            }
            if is(4) {
                budget.cool_down(now.plus_ms(5));
            }
            let slots_used = u32::from(is(3));
            let budgets = BTreeMap::from([(name.clone(), BudgetNow { budget: &budget, slots_used })]);
            let held = holds(&job, &queue, &budgets, now);
            let mut rooms = Rooms::new(now);
            let queue =
                rooms.queue(QueueRoom { paused: is(1), limit: policy.limit, running, pause_until: until });
            let budgets = vec![rooms.budget(budget.clone(), slots_used)];
            let gate = rooms.gate(Gate { queue, budgets, nobody_elses: !epoch.may_be_held(&job, false) });
            assert_eq!(rooms.holds(gate), held, "case {case}");
            assert_eq!(rooms.left(gate) == 0, !held.is_empty(), "case {case}");
            seen[usize::from(held.is_empty())] += 1;
        }
        assert!(seen.iter().all(|count| *count > 0), "{seen:?}");
    }

    /// Weighted shares need no other picker: keys that grow with what was taken.
    #[test]
    fn another_order_shares_between_gates() {
        struct Shares([u64; 2]);
        impl Order for Shares {
            type Key = (u64, i64, u64);
            fn key(&self, gate: usize, rank: i64, seq: u64) -> Self::Key {
                (self.0[gate], rank, seq)
            }
            fn took(&mut self, gate: usize) {
                // The first gate weighs twice as much.
                self.0[gate] += [1, 2][gate];
            }
        }
        let many = |from: u64| (from..from + 9).map(|seq| (0, seq, None, 1)).collect::<VecDeque<_>>();
        let mut heads = Lists(vec![many(100), many(1)]);
        let Ok(picked) = pick_by(&mut Shares([0, 0]), &wish(6), &mut open(2), &mut heads);
        let gates: Vec<usize> = picked.taken.iter().map(|taken| taken.gate).collect();
        assert_eq!(gates.iter().filter(|gate| **gate == 0).count(), 4, "{gates:?}");
    }
}
