//! Who may run, in which order, and what holds the others back. The claim of
//! the book and `explain` both ask here, so that the explanation is never
//! another one than the reason.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::epoch::Epoch;
use crate::id::{BudgetName, JobId, Key, WorkerName};
use crate::job::Job;
use crate::policy::budget::Budget;
use crate::policy::queue::QueuePolicy;
use crate::state::{State, StateName};
use crate::time::Time;

/// What one step of priority weighs where priority is strict: more than any
/// waiting could make up for.
pub const STRICT_STEP: i64 = 10_000_000_000_000;
/// Ageing counts from here: 2020-01-01.
const AGEING_ORIGIN_MS: i64 = 1_577_836_800_000;

/// The place of a job in the order of start: lower first, then by acceptance.
///
/// Strict: by priority alone. Ageing: a job of priority p goes before jobs of
/// priority 0 that were accepted up to p × `ageing_ms` earlier, and no longer.
pub fn rank(priority: i16, ageing_ms: Option<u64>, accepted_at: Time) -> i64 {
    let priority = i64::from(priority);
    match ageing_ms {
        None => -priority * STRICT_STEP,
        Some(step) => {
            let step = i64::try_from(step).unwrap_or(STRICT_STEP).min(STRICT_STEP);
            (accepted_at.ms() - AGEING_ORIGIN_MS) - priority * step
        }
    }
}

/// Why a queued job is not running.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
pub enum Hold {
    /// Its time has not come.
    NotDue {
        /// When it comes.
        run_at: Time,
    },
    /// Its queue is paused.
    QueuePaused,
    /// The store has lost commits, and somebody may hold this job, or what it needs, by one of these.
    EpochPause {
        /// Until when.
        until: Time,
    },
    /// As many jobs of its queue are running as may.
    QueueFull {
        /// How many may.
        limit: u32,
    },
    /// Another job with its key is running.
    KeyBusy {
        /// The key.
        key: Key,
        /// The job that has it.
        job: JobId,
    },
    /// A budget is cooling down.
    BudgetCooling {
        /// The budget.
        budget: BudgetName,
        /// Until when.
        until: Time,
    },
    /// As many jobs that name a budget are running as may.
    BudgetSlots {
        /// The budget.
        budget: BudgetName,
        /// How many may.
        slots: u32,
    },
    /// A budget is used up for now.
    BudgetSpent {
        /// The budget.
        budget: BudgetName,
        /// When there is some of it again.
        until: Time,
    },
}

/// The answer to "why is it not running?".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Explanation {
    /// It is running.
    Running {
        /// Where.
        worker: WorkerName,
        /// Since when.
        since: Time,
    },
    /// It is over.
    Final {
        /// How.
        state: StateName,
    },
    /// It is held back, by all of these.
    Held {
        /// What holds it.
        holds: Vec<Hold>,
    },
    /// Nothing holds it back: the next claim that fits takes it, after those before it.
    Ready {
        /// How many jobs of its queue go first, counted up to 1000.
        ahead: u32,
        /// How many live workers claim from its queue and know its kind.
        workers: u32,
    },
}

/// What of a queue decides whether a job of it may run.
#[derive(Debug, Clone)]
pub struct QueueNow<'a> {
    /// Its policy.
    pub policy: &'a QueuePolicy,
    /// Whether it is paused.
    pub paused: bool,
    /// How many of its jobs are running.
    pub running: u32,
    /// The running job that has the key in question, if one has.
    pub key_holder: Option<JobId>,
    /// The store's epoch and until when it holds back what others may hold, where it does.
    pub pause: Option<(&'a Epoch, Time)>,
}

impl QueueNow<'_> {
    /// Until when the epoch holds back this job, where it does. `slotted` says whether one of its budgets has slots.
    fn held_until(&self, job: &Job, slotted: bool, now: Time) -> Option<Time> {
        let (epoch, until) = self.pause?;
        (now < until && epoch.may_be_held(job, slotted || self.policy.limit.is_some())).then_some(until)
    }
}

/// A budget, and how many running jobs name it.
#[derive(Debug, Clone)]
pub struct BudgetNow<'a> {
    /// The budget.
    pub budget: &'a Budget,
    /// How many running jobs name it.
    pub slots_used: u32,
}

/// All that holds back a queued job at `now`; empty when it may run.
/// A budget that nobody defined allows everything.
pub fn holds(
    job: &Job,
    queue: &QueueNow<'_>,
    budgets: &BTreeMap<BudgetName, BudgetNow<'_>>,
    now: Time,
) -> Vec<Hold> {
    let mut holds = Vec::new();
    if job.run_at > now {
        holds.push(Hold::NotDue { run_at: job.run_at });
    }
    let slotted = budgets.values().any(|now| now.budget.policy.slots.is_some());
    let epoch = queue.held_until(job, slotted, now);
    holds.extend(queue_holds(queue.paused, epoch, queue.policy.limit, queue.running));
    if let (Some(key), Some(holder)) = (&job.spec.key, queue.key_holder) {
        holds.push(Hold::KeyBusy { key: key.clone(), job: holder });
    }
    for name in &job.spec.budgets {
        if let Some(hold) = budgets.get(name).and_then(|budget| budget_hold(budget, now)) {
            holds.push(hold);
        }
    }
    holds
}

/// What of a queue holds back its jobs. `epoch` is until when the epoch holds back those in question, where it does.
pub(crate) fn queue_holds(
    paused: bool,
    epoch: Option<Time>,
    limit: Option<u32>,
    running: u32,
) -> impl Iterator<Item = Hold> {
    let paused = paused.then_some(Hold::QueuePaused);
    let epoch = epoch.map(|until| Hold::EpochPause { until });
    let full = limit.filter(|limit| running >= *limit).map(|limit| Hold::QueueFull { limit });
    [paused, epoch, full].into_iter().flatten()
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

/// What of a budget holds back the jobs that name it.
pub(crate) fn budget_hold(BudgetNow { budget, slots_used }: &BudgetNow<'_>, now: Time) -> Option<Hold> {
    let name = budget.name.clone();
    if let Some(until) = budget.cooling_until.filter(|until| now < *until) {
        return Some(Hold::BudgetCooling { budget: name, until });
    }
    if let Some(slots) = budget.policy.slots.filter(|slots| slots_used >= slots) {
        return Some(Hold::BudgetSlots { budget: name, slots });
    }
    if budget.allowance(*slots_used, now) == 0 {
        let until = budget.free_at(1, now).unwrap_or(Time::MAX);
        return Some(Hold::BudgetSpent { budget: name, until });
    }
    None
}

/// The explanation for a job, given what holds it when it is queued.
pub fn explain(job: &Job, holds: Vec<Hold>, ahead: u32, workers: u32) -> Explanation {
    match &job.state {
        State::Running(lease) => {
            Explanation::Running { worker: lease.worker.clone(), since: lease.started_at }
        }
        State::Queued if holds.is_empty() => Explanation::Ready { ahead, workers },
        State::Queued => Explanation::Held { holds },
        State::Completed { .. } | State::Failed { .. } | State::Canceled { .. } => {
            Explanation::Final { state: job.state.name() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 43: with ageing, a job of low priority waits a bounded time behind
    /// an endless flood of urgent ones: priority × ageing.
    #[test]
    fn fault_43_ageing_bounds_the_wait() {
        let accepted = Time::from_ms(1_800_000_000_000);
        let ageing = Some(60_000);
        let low = rank(0, ageing, accepted);
        assert!(rank(10, ageing, accepted.plus_ms(599_999)) < low);
        assert!(rank(10, ageing, accepted.plus_ms(600_001)) > low);
        // Strict: no waiting ever makes up for priority.
        assert!(rank(1, None, Time::MAX) < rank(0, None, Time::MIN));
        assert!(rank(i16::MAX, None, Time::MAX) < rank(i16::MIN, None, Time::MIN));
    }
}
