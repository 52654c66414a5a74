//! What workers write: renewals, steps, progress, settlements; and what comes
//! over them from outside: expiry, a restart, a step of the clock.

use super::{Book, Moves};
use crate::id::JobId;
use crate::job::Job;
use crate::store::{
    EXPIRE_MAX, Expired, LeaseRef, ProgressWrite, RenewAnswer, Settlement, StepWrite, Written,
};
use crate::time::Time;
use crate::transition::{self, Expiry, Lost, StepStored};

impl Book {
    /// Moves the expiry of leases.
    pub fn renew(&mut self, leases: &[LeaseRef], now: Time) -> RenewAnswer {
        let mut answer = RenewAnswer { instance: Some(self.epoch.instance), ..RenewAnswer::default() };
        for lease in leases {
            let renewed = self.change(lease.job_id, |job| transition::renew(job, lease.fence, now));
            match renewed {
                Ok(cancel_requested) => {
                    answer.renewed.push(lease.job_id);
                    answer.still.extend(self.still_ms(lease.job_id, now).map(|ms| (lease.job_id, ms)));
                    if cancel_requested {
                        answer.cancel_requested.push(lease.job_id);
                    }
                }
                Err(Lost) => answer.lost.push(lease.job_id),
            }
        }
        answer
    }

    /// Stores outputs of steps.
    pub fn store_steps(&mut self, steps: &[StepWrite], now: Time) -> Vec<Written> {
        let store = |step: &StepWrite| {
            let stored = self.change(step.lease.job_id, |job| {
                transition::store_step(job, step.lease.fence, &step.name, &step.output, now)
            });
            step_written(stored)
        };
        steps.iter().map(store).collect()
    }

    /// Notes progress.
    pub fn progress(&mut self, reports: &[ProgressWrite]) -> Vec<Written> {
        let note = |report: &ProgressWrite| {
            let noted = self.change(report.lease.job_id, |job| {
                transition::progress(job, report.lease.fence, &report.progress)
            });
            noted.map_or(Written::Lost, |()| Written::Done)
        };
        reports.iter().map(note).collect()
    }

    /// Ends attempts.
    pub fn settle(&mut self, settlements: &[Settlement], now: Time) -> Vec<Written> {
        let mut moves = Moves::default();
        let mut answers = Vec::with_capacity(settlements.len());
        for Settlement { lease, outcome } in settlements {
            let Some(mut job) = self.job(lease.job_id).cloned() else {
                answers.push(Written::Lost);
                continue;
            };
            let policy = self.policy(&job.spec.queue);
            match transition::settle(&mut job, &policy, lease.fence, outcome, now) {
                Ok(moved) => {
                    if let Some(moved) = moved {
                        self.put_moved(job, moved, &mut moves);
                    }
                    answers.push(Written::Done);
                }
                Err(Lost) => answers.push(Written::Lost),
            }
        }
        self.note(moves, now);
        answers
    }

    /// Marks leases that are near their end and takes back those that have run out, in the order in which
    /// they were to be looked at.
    pub fn expire(&mut self, now: Time) -> Expired {
        let mut by_look: Vec<(Time, u64)> = self
            .running
            .iter()
            .filter_map(|seq| self.jobs[seq].lease().map(|lease| (lease.look_at(), *seq)))
            .filter(|(look_at, _)| *look_at <= now)
            .collect();
        by_look.sort_unstable();
        let mut moves = Moves::default();
        let mut expired = Expired::default();
        for (_, seq) in by_look.into_iter().take(EXPIRE_MAX as usize) {
            let mut job = Job::clone(&self.jobs[&seq]);
            let policy = self.policy(&job.spec.queue);
            match transition::expire(&mut job, &policy, now) {
                Some(Expiry::Taken(moved)) => {
                    expired.jobs.push(job.id);
                    self.put_moved(job, moved, &mut moves);
                }
                Some(Expiry::Marked) => {
                    expired.marked += 1;
                    self.put(job);
                }
                None => {}
            }
        }
        self.note(moves, now);
        expired.next_in_ms = self.next_look().map(|at| at.ms_since(now));
        expired
    }

    /// When a lease is to be looked at next.
    pub fn next_look(&self) -> Option<Time> {
        self.running.iter().filter_map(|seq| self.jobs[seq].lease()).map(|lease| lease.look_at()).min()
    }

    /// Ends all unfinished jobs of a program that does not survive a restart.
    /// Answers how many.
    pub fn end_by_restart(&mut self, now: Time) -> u64 {
        let unfinished: Vec<u64> =
            self.queued.iter().map(|(_, seq)| *seq).chain(self.running.iter().copied()).collect();
        let mut moves = Moves::default();
        let mut ended = 0;
        for seq in unfinished {
            let mut job = Job::clone(&self.jobs[&seq]);
            let policy = self.policy(&job.spec.queue);
            if let Some(moved) = transition::end_by_restart(&mut job, &policy, now) {
                self.put_moved(job, moved, &mut moves);
                ended += 1;
            }
        }
        self.note(moves, now);
        ended
    }

    /// Follows a step of the store's clock by `ms`, seen at `now` of before:
    /// leases and budgets move along, and what was due stays due.
    pub fn shift_clock(&mut self, ms: i64, now: Time) {
        let after = now.plus_ms(ms);
        let queued = self.queued.iter().map(|(_, seq)| *seq);
        let moved: Vec<u64> = queued
            .filter(|seq| (after..=now).contains(&self.jobs[seq].run_at))
            .chain(self.running.iter().copied())
            .collect();
        for seq in moved {
            let mut job = Job::clone(&self.jobs[&seq]);
            match &mut job.state {
                crate::state::State::Running(lease) => lease.shift(ms),
                _ => job.run_at = after,
            }
            self.put(job);
        }
        for budget in self.budgets.values_mut() {
            budget.shift(ms);
        }
        self.shift_epoch(ms);
        self.shift_records(after, now);
    }

    /// Changes a job in place, when the change is taken.
    fn change<T>(&mut self, id: JobId, change: impl FnOnce(&mut Job) -> Result<T, Lost>) -> Result<T, Lost> {
        let mut job = self.job(id).cloned().ok_or(Lost)?;
        let answer = change(&mut job)?;
        self.put(job);
        Ok(answer)
    }
}

/// The answer to a step's write.
pub fn step_written(stored: Result<StepStored, Lost>) -> Written {
    match stored {
        Ok(StepStored::Stored | StepStored::Kept) => Written::Done,
        Ok(StepStored::TooMany) => Written::TooManySteps,
        Err(Lost) => Written::Lost,
    }
}
