//! Questions: one job, a page of jobs, the reason why one is not running.

use std::collections::HashSet;

use super::Book;
use crate::eligible::{Explanation, explain};
use crate::id::JobId;
use crate::job::Job;
use crate::query::{Counted, Cursor, JobFilter, ListRequest, PAGE_MAX, Page, WORKER_ALIVE_MS};
use crate::state::State;
use crate::store::{Holder, LeaseRef};
use crate::time::Time;

/// `explain` counts the jobs that go first up to this.
pub const AHEAD_MAX: u32 = 1_000;

/// How many jobs, the newest ones, are looked at to count them.
const COUNT_MAX: usize = 100_000;

impl Book {
    /// A page of jobs, newest first, without their steps.
    pub fn list(&self, request: &ListRequest) -> Page {
        let limit = request.limit.clamp(1, PAGE_MAX) as usize;
        let before = request.after.map_or(u64::MAX, |cursor| cursor.0);
        let matching = self.jobs.range(..before).rev().filter(|(_, job)| request.filter.admits(job));
        let mut jobs: Vec<Job> = matching.take(limit + 1).map(|(_, job)| Job::clone(job)).collect();
        let more = jobs.len() > limit;
        jobs.truncate(limit);
        for job in &mut jobs {
            job.steps.clear();
        }
        let next = jobs.last().filter(|_| more).map(|job| Cursor(job.seq));
        Page { jobs, next }
    }

    /// Of these leases, the jobs that are asked to cancel.
    pub fn cancels(&self, leases: &[LeaseRef]) -> Vec<JobId> {
        let asked = |lease: &&LeaseRef| {
            let held = self.job(lease.job_id).and_then(|job| job.lease_for(lease.fence));
            held.is_some_and(|held| held.cancel_requested)
        };
        leases.iter().filter(asked).map(|lease| lease.job_id).collect()
    }

    /// Whose these jobs are, of those that are there.
    pub fn holders(&self, jobs: &[JobId]) -> Vec<Holder> {
        let holder =
            |job: &Job| Holder { job_id: job.id, queue: job.spec.queue.clone(), worker: job.worker.clone() };
        jobs.iter().filter_map(|id| self.job(*id)).map(holder).collect()
    }

    /// How many jobs that a filter admits are in each state.
    pub fn count(&self, filter: &JobFilter) -> Counted {
        let mut counted = Counted { more: self.jobs.len() > COUNT_MAX, ..Counted::default() };
        let newest = self.jobs.values().rev().take(COUNT_MAX);
        newest.filter(|job| filter.admits(job)).for_each(|job| counted.add(job.state.name(), 1));
        counted
    }

    /// Why a job is not running.
    pub fn explain(&self, id: JobId, now: Time) -> Option<Explanation> {
        let job = self.job(id)?;
        let holds = match job.state {
            State::Queued => self.holds(job, now),
            _ => Vec::new(),
        };
        Some(explain(job, holds, self.ahead(job, now), self.workers_for(job, now)))
    }

    /// What contradicts itself.
    pub fn audit(&self) -> Vec<String> {
        let mut breaches = Vec::new();
        let (mut keys, mut dedupe_keys) = (HashSet::new(), HashSet::new());
        for job in self.jobs() {
            let Job { id, spec, state, attempt, fence, steps, .. } = job;
            let running = matches!(state, State::Running(_));
            if let Some(key) = spec.key.as_ref().filter(|_| running)
                && !keys.insert((&spec.queue, key))
            {
                breaches.push(format!("job {id} runs beside another of its key"));
            }
            if let Some(key) = spec.dedupe_key.as_ref().filter(|_| !state.name().is_final())
                && !dedupe_keys.insert(key)
            {
                breaches.push(format!("job {id} shares its dedupe key with another that is not over"));
            }
            if u64::from(*attempt) > *fence {
                breaches.push(format!("job {id} counts more attempts than it was claimed"));
            }
            let names: HashSet<_> = steps.iter().map(|step| &step.name).collect();
            if names.len() < steps.len() {
                breaches.push(format!("job {id} has a step twice"));
            }
        }
        breaches
    }

    fn ahead(&self, job: &Job, now: Time) -> u32 {
        let before = self.queued.range(..(job.rank, job.seq)).map(|(_, seq)| &self.jobs[seq]);
        let due = before.filter(|other| other.spec.queue == job.spec.queue && other.run_at <= now);
        due.take(AHEAD_MAX as usize).count() as u32
    }

    fn workers_for(&self, job: &Job, now: Time) -> u32 {
        let alive = self.workers.values().filter(|worker| now.ms_since(worker.seen_at) <= WORKER_ALIVE_MS);
        let fit = alive.filter(|worker| worker.claims(&job.spec));
        fit.count() as u32
    }
}
