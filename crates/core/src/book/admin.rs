//! Queues, budgets, schedules, workers, retention, events.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Book, Moves, Queue};
use crate::error::{Invalid, StoreError};
use crate::event::{Event, Position};
use crate::id::{BudgetName, QueueName, ScheduleName, WorkerName};
use crate::job::Job;
use crate::policy::budget::{Budget, BudgetPolicy};
use crate::policy::queue::QueuePolicy;
use crate::policy::schedule::{Schedule, SchedulePolicy};
use crate::query::{QueueStatus, WORKER_FORGET_MS, WorkerStatus};
use crate::state::State;
use crate::store::{
    BudgetStatus, CLAIM_MEMORY_MS, EVENTS_MAX, Fired, FiredRun, PRUNE_MAX, QueueDeletion, Spent, WorkerBeat,
};
use crate::time::Time;

impl Book {
    /// The queues that were configured or have jobs that are not final.
    pub fn queues(&self, now: Time) -> Vec<QueueStatus> {
        let blank = |name: &QueueName, queue: Queue| QueueStatus {
            name: name.clone(),
            policy: queue.policy,
            paused: queue.paused,
            queued: 0,
            running: 0,
            oldest_due: None,
        };
        let mut found: BTreeMap<QueueName, QueueStatus> =
            self.queues.iter().map(|(name, queue)| (name.clone(), blank(name, queue.clone()))).collect();
        let unfinished = self.queued.iter().map(|(_, seq)| seq).chain(&self.running);
        for job in unfinished.map(|seq| &self.jobs[seq]) {
            let name = &job.spec.queue;
            let status = found.entry(name.clone()).or_insert_with(|| blank(name, Queue::default()));
            if matches!(job.state, State::Running(_)) {
                status.running += 1;
                continue;
            }
            status.queued += 1;
            if job.run_at <= now {
                status.oldest_due =
                    Some(status.oldest_due.map_or(job.run_at, |oldest| oldest.min(job.run_at)));
            }
        }
        found.into_values().collect()
    }

    /// Sets the policy of a queue. One that makes its leases shorter leaves those in the world that were claimed until now;
    /// a queue that nobody has configured before is taken for a new one.
    pub fn put_queue(&mut self, name: QueueName, policy: QueuePolicy, now: Time) -> Result<(), Invalid> {
        let policy = policy.checked()?;
        let lease_ms = self.queues.get(&name).map_or(0, |queue| queue.policy.lease_ms);
        if policy.lease_ms < lease_ms {
            self.note_lease(&name, lease_ms, now);
        }
        self.queues.entry(name).or_default().policy = policy;
        Ok(())
    }

    /// Pauses a queue, or lets it go on.
    pub fn pause_queue(&mut self, name: QueueName, paused: bool) {
        self.queues.entry(name).or_default().paused = paused;
    }

    /// Takes the policy of a queue away, and its pause, when it has no jobs that are not final.
    pub fn delete_queue(&mut self, name: &QueueName) -> QueueDeletion {
        if !self.queues.contains_key(name) {
            return QueueDeletion::NotFound;
        }
        let ours = |seq: &u64| self.jobs[seq].spec.queue == *name;
        let queued = self.queued.iter().filter(|(_, seq)| ours(seq)).count() as u64;
        let running = u64::from(self.lanes.running(name));
        if queued + running > 0 {
            return QueueDeletion::InUse { queued, running };
        }
        self.queues.remove(name);
        QueueDeletion::Deleted
    }

    /// The budgets.
    pub fn budgets(&self, now: Time) -> Vec<BudgetStatus> {
        self.budgets
            .values()
            .map(|budget| budget_status(budget.clone(), self.lanes.slots_used(&budget.name), now))
            .collect()
    }

    /// Sets what a budget allows.
    pub fn put_budget(&mut self, name: BudgetName, policy: BudgetPolicy) {
        self.budget_mut(name).set_policy(policy);
    }

    /// Takes a budget away.
    pub fn delete_budget(&mut self, name: &BudgetName) -> bool {
        self.budgets.remove(name).is_some()
    }

    /// Lets a budget cool down.
    pub fn cool_down(&mut self, name: BudgetName, for_ms: u64, now: Time) {
        self.budget_mut(name).cool_down_for(for_ms, now);
    }

    fn budget_mut(&mut self, name: BudgetName) -> &mut Budget {
        self.budgets.entry(name.clone()).or_insert_with(|| Budget::new(name, BudgetPolicy::default()))
    }

    /// Spends of a budget, if it allows that.
    pub fn spend(&mut self, name: &BudgetName, amount: u32, now: Time) -> Spent {
        match self.budgets.get_mut(name) {
            None => Spent::Granted,
            Some(budget) => spend(budget, amount, now),
        }
    }

    /// Whether so much could be spent of a budget now, and would be counted.
    pub fn would_spend(&self, name: &BudgetName, amount: u32, now: Time) -> bool {
        amount > 0 && self.budgets.get(name).is_some_and(|budget| budget.spendable(now) >= amount)
    }

    /// The schedules.
    pub fn schedules(&self) -> Vec<Schedule> {
        self.schedules.values().cloned().collect()
    }

    /// Sets a schedule.
    pub fn put_schedule(
        &mut self,
        name: ScheduleName,
        policy: SchedulePolicy,
        now: Time,
    ) -> Result<(), Invalid> {
        let policy = policy.checked()?;
        self.schedules
            .entry(name.clone())
            .and_modify(|schedule| schedule.change(policy.clone(), now))
            .or_insert_with(|| Schedule::new(name, policy.clone(), now));
        Ok(())
    }

    /// Takes a schedule away.
    pub fn delete_schedule(&mut self, name: &ScheduleName) -> bool {
        self.schedules.remove(name).is_some()
    }

    /// Whether a schedule is due.
    pub fn would_fire(&self, now: Time) -> bool {
        self.schedules.values().any(|schedule| schedule.is_due(now))
    }

    /// Enqueues the jobs of all runs that are due.
    pub fn fire_schedules(&mut self, now: Time) -> Fired {
        let mut fired = Fired::default();
        let mut moves = Moves::default();
        let due = self.schedules.values().filter(|schedule| schedule.is_due(now));
        let due: Vec<Schedule> = due.cloned().collect();
        for mut schedule in due {
            let name = schedule.name.clone();
            for run in schedule.due(now) {
                let enqueued = self.enqueue_one(schedule.job_for(run), now, &mut moves);
                fired.runs.push(FiredRun {
                    schedule: name.clone(),
                    run,
                    job_id: enqueued.id,
                    skipped: enqueued.deduplicated,
                });
                if !enqueued.deduplicated {
                    schedule.last_run = Some(run);
                    schedule.last_job = Some(enqueued.id);
                }
            }
            schedule.settle(now);
            self.schedules.insert(name, schedule);
        }
        self.note(moves, now);
        fired.next_in_ms =
            self.schedules.values().filter_map(Schedule::next_due).min().map(|at| at.ms_since(now));
        fired
    }

    /// A worker says that it is alive.
    pub fn beat(&mut self, beat: WorkerBeat, now: Time) {
        let WorkerBeat { name, queues, kinds, slots, running, version, host } = beat;
        let started_at = self.workers.get(&name).map_or(now, |worker| worker.started_at);
        let seen_at = now;
        let status = WorkerStatus { name, queues, kinds, slots, running, version, host, started_at, seen_at };
        self.workers.insert(status.name.clone(), status);
    }

    /// The workers.
    pub fn workers(&self) -> Vec<WorkerStatus> {
        self.workers.values().cloned().collect()
    }

    /// A worker has ended.
    pub fn forget_worker(&mut self, name: &WorkerName) {
        self.workers.remove(name);
    }

    /// Deletes what its retention has outlived; answers how many jobs went.
    pub fn prune(&mut self, now: Time) -> u64 {
        self.claims.retain(|_, memory| memory.at > now.plus_ms(-CLAIM_MEMORY_MS));
        self.workers.retain(|_, worker| worker.seen_at > now.plus_ms(-WORKER_FORGET_MS));
        self.forget_leases(now);
        self.prune_records(now);
        let mut finished: BTreeMap<QueueName, Vec<(Time, u64)>> = BTreeMap::new();
        for job in self.jobs.values() {
            if let Some(ended_at) = job.state.ended_at() {
                finished.entry(job.spec.queue.clone()).or_default().push((ended_at, job.seq));
            }
        }
        let mut doomed = Vec::new();
        for (queue, mut jobs) in finished {
            let policy = self.policy(&queue);
            let oldest = now.plus_ms(-policy.retention_ms());
            jobs.sort_unstable();
            let surplus =
                jobs.len().saturating_sub(usize::try_from(policy.finished_max).unwrap_or(usize::MAX));
            let outlived =
                jobs.iter().enumerate().filter(|(at, (ended_at, _))| *at < surplus || *ended_at <= oldest);
            doomed.extend(outlived.map(|(_, (_, seq))| *seq));
        }
        doomed.truncate(PRUNE_MAX as usize);
        for seq in &doomed {
            self.remove(*seq);
        }
        doomed.len() as u64
    }

    /// Deletes finished jobs that were accepted before `moment`, whenever they
    /// ended; answers how many went.
    pub fn prune_accepted_before(&mut self, moment: Time) -> u64 {
        let old = |job: &&Arc<Job>| job.state.name().is_final() && job.created_at < moment;
        let doomed: Vec<u64> = self.jobs.values().filter(old).map(|job| job.seq).collect();
        for seq in &doomed {
            self.remove(*seq);
        }
        doomed.len() as u64
    }

    /// What happened after `since`.
    pub fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError> {
        let begin = self.events.first().map_or(self.next_event, |oldest| oldest.position.place - 1);
        let place = Position::read(since, self.epoch.tag(), begin, self.next_event)?;
        let from = self.events.partition_point(|event| event.position.place <= place);
        let found = self.events[from..].iter().take(limit.min(EVENTS_MAX) as usize);
        let fitting = crate::event::fitting(found.clone());
        Ok(found.take(fitting).cloned().collect())
    }

    /// Keeps only the newest `max` events, for a store to which
    /// [`crate::store::EVENTS_KEPT`] are too many.
    pub fn keep_events(&mut self, max: usize) {
        let surplus = self.events.len().saturating_sub(max);
        self.events.drain(..surplus);
    }

    /// The newest position.
    pub fn events_end(&self) -> Position {
        Position { epoch: self.epoch.tag(), place: self.next_event }
    }
}

/// Spends of a budget, if it allows that now. Every store decides by this.
pub fn spend(budget: &mut Budget, amount: u32, now: Time) -> Spent {
    if budget.spendable(now) >= amount {
        budget.spend(amount, now);
        return Spent::Granted;
    }
    match budget.free_at(amount, now) {
        Some(at) => Spent::Wait { in_ms: at.ms_since(now).max(1) },
        None => Spent::Never,
    }
}

/// A budget as it stands.
pub fn budget_status(budget: Budget, slots_used: u32, now: Time) -> BudgetStatus {
    let used = budget.used(now);
    let free_at = if budget.spendable(now) == 0 { budget.free_at(1, now) } else { None };
    BudgetStatus { budget, slots_used, used, free_at }
}
