//! Questions: one job, a page of jobs, the reason why one is not running.

use super::Book;
use crate::eligible::{Explanation, explain};
use crate::id::JobId;
use crate::job::Job;
use crate::query::{Cursor, ListRequest, PAGE_MAX, Page, WORKER_ALIVE_MS};
use crate::state::State;
use crate::time::Time;

/// `explain` counts the jobs that go first up to this.
pub const AHEAD_MAX: u32 = 1_000;

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

    /// Why a job is not running.
    pub fn explain(&self, id: JobId, now: Time) -> Option<Explanation> {
        let job = self.job(id)?;
        let holds = match job.state {
            State::Queued => self.holds(job, now),
            _ => Vec::new(),
        };
        Some(explain(job, holds, self.ahead(job, now), self.workers_for(job, now)))
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
