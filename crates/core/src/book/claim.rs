//! Claims: which jobs may start, in order, each held back only by what holds
//! itself back.

use std::collections::{BTreeMap, HashMap};

use super::{Book, Moves, Remembered};
use crate::eligible::{BudgetNow, Hold, QueueNow, holds};
use crate::error::{Invalid, StoreError};
use crate::id::{BudgetName, JobId, Key, QueueName};
use crate::job::Job;
use crate::policy::budget::Budget;
use crate::policy::queue::{LEASE_MS_RANGE, QueuePolicy};
use crate::store::{CLAIM_BYTES_MAX, CLAIM_MAX, ClaimAnswer, ClaimRequest, Leased};
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

    /// The jobs to claim, when time alone may free another, and the budgets as
    /// they are after that.
    fn pick(&self, request: &ClaimRequest, now: Time) -> (Vec<u64>, Option<u64>, Vec<Budget>) {
        let mut hall = Hall::of(self);
        let mut picked = Vec::new();
        let mut next_due: Option<Time> = None;
        let mut bytes = 0;
        for (_, seq) in &self.queued {
            if picked.len() >= request.limit as usize {
                return (picked, None, hall.spent());
            }
            let job = &self.jobs[seq];
            let wanted = request.queues.contains(&job.spec.queue)
                && request.kinds.as_ref().is_none_or(|kinds| kinds.contains(&job.spec.kind));
            if !wanted {
                continue;
            }
            let holds = hall.holds(self, job, now);
            if holds.is_empty() {
                bytes += job.carried_bytes();
                if bytes > CLAIM_BYTES_MAX && !picked.is_empty() {
                    return (picked, None, hall.spent());
                }
                picked.push(*seq);
                hall.enter(job, now);
            } else if let Some(at) = free_by_time(&holds) {
                next_due = Some(next_due.map_or(at, |other| other.min(at)));
            }
        }
        let next_due_in_ms = next_due.map(|at| at.ms_since(now));
        (picked, next_due_in_ms, hall.spent())
    }

    /// What holds back a queued job at `now`.
    pub(super) fn holds(&self, job: &Job, now: Time) -> Vec<Hold> {
        Hall::of(self).holds(self, job, now)
    }
}

/// When all holds end by time alone; `None` when something else must happen first.
pub fn free_by_time(holds: &[Hold]) -> Option<Time> {
    let ends: Option<Vec<Time>> = holds.iter().map(end_by_time).collect();
    ends?.into_iter().max()
}

fn end_by_time(hold: &Hold) -> Option<Time> {
    match hold {
        Hold::NotDue { run_at: at }
        | Hold::EpochPause { until: at }
        | Hold::BudgetCooling { until: at, .. }
        | Hold::BudgetSpent { until: at, .. } => Some(*at),
        Hold::QueuePaused | Hold::QueueFull { .. } | Hold::KeyBusy { .. } | Hold::BudgetSlots { .. } => None,
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
    Leased { job, retry_delay_ms }
}

/// Who is running now: what the limits, the keys and the slots are measured by.
struct Hall {
    running: HashMap<QueueName, u32>,
    keys: HashMap<(QueueName, Key), JobId>,
    slots: BTreeMap<BudgetName, u32>,
    budgets: BTreeMap<BudgetName, Budget>,
    policies: HashMap<QueueName, (QueuePolicy, bool)>,
}

impl Hall {
    fn of(book: &Book) -> Self {
        let mut hall = Self {
            running: HashMap::new(),
            keys: HashMap::new(),
            slots: BTreeMap::new(),
            budgets: book.budgets.clone(),
            policies: HashMap::new(),
        };
        for seq in &book.running {
            hall.count(&book.jobs[seq]);
        }
        hall
    }

    fn count(&mut self, job: &Job) {
        *self.running.entry(job.spec.queue.clone()).or_default() += 1;
        if let Some(key) = &job.spec.key {
            self.keys.insert((job.spec.queue.clone(), key.clone()), job.id);
        }
        for name in &job.spec.budgets {
            *self.slots.entry(name.clone()).or_default() += 1;
        }
    }

    fn enter(&mut self, job: &Job, now: Time) {
        self.count(job);
        for name in &job.spec.budgets {
            if let Some(budget) = self.budgets.get_mut(name) {
                budget.spend(1, now);
            }
        }
    }

    fn holds(&mut self, book: &Book, job: &Job, now: Time) -> Vec<Hold> {
        let queue = &job.spec.queue;
        let (policy, paused) = self.policies.entry(queue.clone()).or_insert_with(|| {
            let paused = book.queues.get(queue).is_some_and(|queue| queue.paused);
            (book.policy(queue), paused)
        });
        let holder = job.spec.key.as_ref().and_then(|key| self.keys.get(&(queue.clone(), key.clone())));
        let queue_now = QueueNow {
            policy,
            paused: *paused,
            running: self.running.get(queue).copied().unwrap_or(0),
            key_holder: holder.copied(),
            pause: book.pause_until(queue, policy).map(|until| (&book.epoch, until)),
        };
        let named = job.spec.budgets.iter().filter_map(|name| {
            let budget = self.budgets.get(name)?;
            let slots_used = self.slots.get(name).copied().unwrap_or(0);
            Some((name.clone(), BudgetNow { budget, slots_used }))
        });
        holds(job, &queue_now, &named.collect(), now)
    }

    fn spent(self) -> Vec<Budget> {
        self.budgets.into_values().collect()
    }
}
