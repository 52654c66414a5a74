//! Indexes over the unfinished jobs of a book: the gates at which queued jobs stand, and what the running ones hold. All of it is
//! found again from the jobs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::id::{BudgetName, Key, Kind, QueueName};
use crate::job::Job;
use crate::state::State;
use crate::time::Time;

/// What the jobs of a gate have in common within their queue.
pub(super) type GateName = (Kind, Vec<BudgetName>);

/// The queued jobs of a gate.
#[derive(Debug, Clone, Default)]
pub(super) struct Line {
    /// Those that were due when they were last looked at, in order.
    due: BTreeSet<(i64, u64)>,
    /// The others, by when they are.
    later: BTreeSet<(Time, i64, u64)>,
}

impl Line {
    /// The places of all that are due at `now`, in order, and when the next is. A clock that was set back makes some of
    /// those that were due wait again: whoever reads them looks.
    pub(super) fn due(&self, now: Time) -> impl Iterator<Item = (i64, u64)> {
        let last = (now, i64::MAX, u64::MAX);
        let mut fell_due: Vec<(i64, u64)> =
            self.later.range(..=last).map(|(_, rank, seq)| (*rank, *seq)).collect();
        fell_due.sort_unstable();
        let mut fell_due = fell_due.into_iter().peekable();
        let mut due = self.due.iter().copied().peekable();
        std::iter::from_fn(move || match (due.peek(), fell_due.peek()) {
            (Some(one), Some(other)) if other < one => fell_due.next(),
            (None, _) => fell_due.next(),
            (Some(_), _) => due.next(),
        })
    }

    /// When the first of those that are for later is due.
    pub(super) fn next_due(&self, now: Time) -> Option<Time> {
        self.later.range((now, i64::MAX, u64::MAX)..).next().map(|(at, ..)| *at)
    }

    fn is_empty(&self) -> bool {
        self.due.is_empty() && self.later.is_empty()
    }
}

/// The indexes.
#[derive(Debug, Clone, Default)]
pub(super) struct Lanes {
    gates: BTreeMap<QueueName, BTreeMap<GateName, Line>>,
    running: HashMap<QueueName, u32>,
    slots: HashMap<BudgetName, u32>,
    keys: HashMap<(QueueName, Key), u64>,
}

impl Lanes {
    /// A job is there.
    pub(super) fn add(&mut self, job: &Job) {
        let spec = &job.spec;
        match &job.state {
            State::Queued => {
                let gates = self.gates.entry(spec.queue.clone()).or_default();
                let line = gates.entry((spec.kind.clone(), spec.budgets.clone())).or_default();
                line.later.insert((job.run_at, job.rank, job.seq));
            }
            State::Running(_) => {
                *self.running.entry(spec.queue.clone()).or_default() += 1;
                for budget in &spec.budgets {
                    *self.slots.entry(budget.clone()).or_default() += 1;
                }
                if let Some(key) = &spec.key {
                    self.keys.insert((spec.queue.clone(), key.clone()), job.seq);
                }
            }
            State::Completed { .. } | State::Failed { .. } | State::Canceled { .. } => {}
        }
    }

    /// A job is there no more, or is about to change.
    pub(super) fn remove(&mut self, job: &Job) {
        let spec = &job.spec;
        match &job.state {
            State::Queued => {
                let Some(gates) = self.gates.get_mut(&spec.queue) else { return };
                let name = (spec.kind.clone(), spec.budgets.clone());
                let Some(line) = gates.get_mut(&name) else { return };
                if !line.due.remove(&(job.rank, job.seq)) {
                    line.later.remove(&(job.run_at, job.rank, job.seq));
                }
                if line.is_empty() {
                    gates.remove(&name);
                }
                if gates.is_empty() {
                    self.gates.remove(&spec.queue);
                }
            }
            State::Running(_) => {
                fewer(&mut self.running, &spec.queue);
                for budget in &spec.budgets {
                    fewer(&mut self.slots, budget);
                }
                if let Some(key) = &spec.key {
                    let name = (spec.queue.clone(), key.clone());
                    if self.keys.get(&name) == Some(&job.seq) {
                        self.keys.remove(&name);
                    }
                }
            }
            State::Completed { .. } | State::Failed { .. } | State::Canceled { .. } => {}
        }
    }

    /// Puts what has fallen due by `now` in order, so that it is sorted once and not at every claim.
    pub(super) fn settle_due(&mut self, queues: &[QueueName], now: Time) {
        for queue in queues {
            let Some(gates) = self.gates.get_mut(queue) else { continue };
            for line in gates.values_mut() {
                while let Some((at, rank, seq)) = line.later.first().copied().filter(|(at, ..)| *at <= now) {
                    line.later.remove(&(at, rank, seq));
                    line.due.insert((rank, seq));
                }
            }
        }
    }

    /// The gates of a queue.
    pub(super) fn gates(&self, queue: &QueueName) -> impl Iterator<Item = (&GateName, &Line)> {
        self.gates.get(queue).into_iter().flatten()
    }

    /// How many jobs of a queue are running.
    pub(super) fn running(&self, queue: &QueueName) -> u32 {
        self.running.get(queue).copied().unwrap_or(0)
    }

    /// How many running jobs name a budget.
    pub(super) fn slots_used(&self, budget: &BudgetName) -> u32 {
        self.slots.get(budget).copied().unwrap_or(0)
    }

    /// The running job that has a key.
    pub(super) fn holder(&self, queue: &QueueName, key: &Key) -> Option<u64> {
        self.keys.get(&(queue.clone(), key.clone())).copied()
    }
}

fn fewer<N: std::hash::Hash + Eq>(counts: &mut HashMap<N, u32>, name: &N) {
    if let Some(count) = counts.get_mut(name) {
        *count -= 1;
        if *count == 0 {
            counts.remove(name);
        }
    }
}
