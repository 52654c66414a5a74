//! Claims: which jobs may start, in order, each held back only by what holds
//! itself back.

use std::collections::HashMap;
use std::convert::Infallible;

use super::{Book, Moves, Remembered};
use crate::eligible::{BudgetNow, Hold, QueueNow, free_by_time, holds};
use crate::error::{Invalid, StoreError};
use crate::id::{BudgetName, Key, QueueName};
use crate::job::Job;
use crate::pick::{BudgetNo, Gate, Head, Heads, NextHead, QueueRoom, Rooms, pick};
use crate::policy::budget::Budget;
use crate::policy::queue::{LEASE_MS_RANGE, QueuePolicy};
use crate::store::{CLAIM_MAX, ClaimAnswer, ClaimRequest, Leased};
use crate::time::Time;
use crate::transition;

impl Book {
    /// Gives leases of jobs that may run at `now`, in order.
    pub fn claim(&mut self, request: &ClaimRequest, now: Time) -> Result<ClaimAnswer, StoreError> {
        check(request)?;
        if let Some(memory) = self.claims.get(&request.request_id) {
            if memory.asked != request.asked() {
                return Err(StoreError::RequestTaken(request.request_id));
            }
            return Ok(self.claimed_before(memory));
        }
        self.lanes.settle_due(&request.queues, now);
        let (picked, next_due_in_ms, budgets) = self.pick(request, now);
        let mut moves = Moves::default();
        let mut leases = Vec::with_capacity(picked.len());
        for seq in picked {
            let mut job = Job::clone(&self.jobs[&seq]);
            let policy = self.policy(&job.spec.queue);
            let lease_ms = request.lease_ms.unwrap_or(policy.lease_ms);
            let moved = transition::claim(&mut job, &request.worker, lease_ms, self.epoch.floor, now);
            if lease_ms > policy.lease_ms {
                self.note_lease(&job.spec.queue, lease_ms, now);
            }
            leases.push(leased(job.clone(), &policy));
            self.put_moved(job, moved, &mut moves);
        }
        for budget in budgets {
            self.budgets.insert(budget.name.clone(), budget);
        }
        if !leases.is_empty() {
            let given = leases.iter().map(|leased| (leased.job.seq, leased.job.fence)).collect();
            self.claims.insert(request.request_id, Remembered { at: now, asked: request.asked(), given });
        }
        self.note(moves, now);
        Ok(ClaimAnswer { leases, next_due_in_ms, instance: Some(self.epoch.instance) })
    }

    /// Whether a claim would give anything now: for a store that writes down what changes something, and only that.
    /// It stops at the first job that may run.
    pub fn would_claim(&self, request: &ClaimRequest, now: Time) -> bool {
        let first = ClaimRequest { limit: request.limit.min(1), ..request.clone() };
        check(request).is_ok()
            && !self.claims.contains_key(&request.request_id)
            && !self.pick(&first, now).0.is_empty()
    }

    fn claimed_before(&self, memory: &Remembered) -> ClaimAnswer {
        let held = |(seq, fence): &(u64, u64)| {
            let job = self.jobs.get(seq).filter(|job| job.lease_for(*fence).is_some())?;
            Some(leased(Job::clone(job), &self.policy(&job.spec.queue)))
        };
        let leases = memory.given.iter().filter_map(held).collect();
        ClaimAnswer { leases, next_due_in_ms: None, instance: Some(self.epoch.instance) }
    }

    /// The jobs to claim, when time alone may free another, and the budgets that it spends of, as
    /// they are after that.
    fn pick(&self, request: &ClaimRequest, now: Time) -> (Vec<u64>, Option<u64>, Vec<Budget>) {
        let mut rooms = Rooms::new(now);
        let mut walk = Walk { book: self, now, lines: Vec::new() };
        let mut budgets: HashMap<&BudgetName, BudgetNo> = HashMap::new();
        for (at, name) in request.queues.iter().enumerate() {
            if request.queues[..at].contains(name) {
                continue;
            }
            let policy = self.policy(name);
            let pause_until = self.pause_until(name).filter(|until| now < *until);
            let queue = rooms.queue(QueueRoom {
                paused: self.queues.get(name).is_some_and(|queue| queue.paused),
                limit: policy.limit,
                running: self.lanes.running(name),
                pause_until,
            });
            for ((kind, named), line) in self.lanes.gates(name) {
                if request.kinds.as_ref().is_some_and(|kinds| !kinds.contains(kind)) {
                    continue;
                }
                let defined = named.iter().filter_map(|name| Some((name, self.budgets.get(name)?)));
                let numbers = defined.map(|(name, budget)| {
                    let slots_used = self.lanes.slots_used(name);
                    *budgets.entry(name).or_insert_with(|| rooms.budget(budget.clone(), slots_used))
                });
                let numbers = numbers.collect();
                // Those that others may hold are left out one by one.
                rooms.gate(Gate { queue, budgets: numbers, nobody_elses: true });
                let (places, next_due) = (Box::new(line.due(now)), line.next_due(now));
                walk.lines.push(Line { places, pause_until, next_due });
            }
        }
        let Ok(picked) = pick(request, &mut rooms, &mut walk);
        // What is for later at a gate that is closed is free when both are over, if time alone opens the gate.
        let later = walk.lines.iter().enumerate().filter_map(|(gate, line)| {
            let holds = rooms.holds(gate);
            let opens = if holds.is_empty() { Some(now) } else { free_by_time(&holds) };
            Some(line.next_due?.max(opens?))
        });
        // Who asks for nothing is told nothing.
        let next_due = later.chain(picked.next_free).min().filter(|_| !picked.more && request.limit > 0);
        let seqs = picked.taken.into_iter().map(|taken| taken.row).collect();
        (seqs, next_due.map(|at| at.ms_since(now)), rooms.into_spent().collect())
    }

    /// What holds back a queued job at `now`.
    pub(super) fn holds(&self, job: &Job, now: Time) -> Vec<Hold> {
        let queue = &job.spec.queue;
        let policy = self.policy(queue);
        let holder = job.spec.key.as_ref().and_then(|key| self.lanes.holder(queue, key));
        let queue_now = QueueNow {
            policy: &policy,
            paused: self.queues.get(queue).is_some_and(|queue| queue.paused),
            running: self.lanes.running(queue),
            key_holder: holder.map(|seq| self.jobs[&seq].id),
            pause: self.pause_until(queue).map(|until| (&self.epoch, until)),
        };
        let named = job.spec.budgets.iter().filter_map(|name| {
            let budget = self.budgets.get(name)?;
            Some((name.clone(), BudgetNow { budget, slots_used: self.lanes.slots_used(name) }))
        });
        holds(job, &queue_now, &named.collect(), now)
    }
}

/// The queued jobs of a gate.
struct Line<'a> {
    /// Where those stand that are due.
    places: Box<dyn Iterator<Item = (i64, u64)> + 'a>,
    /// Until when the epoch holds back what others may hold.
    pause_until: Option<Time>,
    /// When the first of those that were passed by may run, as far as its gate lets it.
    next_due: Option<Time>,
}

impl Line<'_> {
    fn note(&mut self, at: Option<Time>) {
        self.next_due = self.next_due.into_iter().chain(at).min();
    }
}

/// Reads the gates of a book.
struct Walk<'a> {
    book: &'a Book,
    now: Time,
    /// Of each gate.
    lines: Vec<Line<'a>>,
}

impl Heads for Walk<'_> {
    type Key = (QueueName, Key);
    type Row = u64;
    type Error = Infallible;

    fn next(&mut self, gate: usize, _: u32) -> NextHead<Self> {
        loop {
            let line = &mut self.lines[gate];
            let Some((rank, seq)) = line.places.next() else { return Ok(None) };
            let job = &self.book.jobs[&seq];
            let spec = &job.spec;
            if job.run_at > self.now {
                line.note(Some(job.run_at));
            } else if spec.key.as_ref().is_some_and(|key| self.book.lanes.holder(&spec.queue, key).is_some())
            {
                // Time alone does not free it.
            } else if line.pause_until.is_some() && self.book.epoch.may_be_held(job, false) {
                line.note(line.pause_until);
            } else {
                let key = spec.key.as_ref().map(|key| (spec.queue.clone(), key.clone()));
                return Ok(Some(Head { rank, seq, key, bytes: job.carried_bytes(), row: seq }));
            }
        }
    }
}

/// Refuses a claim that makes no sense. Every store asks this first.
pub fn check(request: &ClaimRequest) -> Result<(), Invalid> {
    if request.limit > CLAIM_MAX {
        return Err(Invalid::new("limit", format!("is more than {CLAIM_MAX}")));
    }
    if request.lease_ms.is_some_and(|ms| !LEASE_MS_RANGE.contains(&ms)) {
        return Err(Invalid::new("lease_ms", "lies outside 100 ms to 1 day"));
    }
    Ok(())
}

/// A leased job with what its worker needs to know.
pub fn leased(job: Job, policy: &QueuePolicy) -> Leased {
    let retry_delay_ms = policy.retry_delay_ms(&job.spec, job.attempt);
    Leased { job, retry_delay_ms, ticket: None }
}
