//! What people ask for jobs: cancel, retry, run now, run again from a step, delete.

use super::{Book, Moves};
use crate::id::JobId;
use crate::job::Job;
use crate::store::{CancelAnswer, DeleteAnswer, Rerun, RerunAnswer, RetryAnswer, RunNowAnswer};
use crate::time::Time;
use crate::transition::{self, Cancel, NoRerun, RunNow};

impl Book {
    /// Asks for jobs to be canceled, and answers in the order asked.
    pub fn cancel(&mut self, ids: &[JobId], now: Time) -> Vec<CancelAnswer> {
        let mut moves = Moves::default();
        let answers = ids.iter().map(|id| self.cancel_one(*id, now, &mut moves)).collect();
        self.note(moves, now);
        answers
    }

    fn cancel_one(&mut self, id: JobId, now: Time, moves: &mut Moves) -> CancelAnswer {
        let Some(mut job) = self.job(id).cloned() else { return CancelAnswer::NotFound };
        let policy = self.policy(&job.spec.queue);
        let (answer, moved) = match transition::cancel(&mut job, &policy, now) {
            Cancel::Canceled(moved) => (CancelAnswer::Canceled, moved),
            Cancel::Requested(moved) => (CancelAnswer::Requested, moved),
            Cancel::AlreadyRequested => return CancelAnswer::Requested,
            Cancel::Final => return CancelAnswer::Final,
        };
        self.put_moved(job, moved, moves);
        answer
    }

    /// Starts new lives of final jobs, and answers in the order asked.
    pub fn retry(&mut self, ids: &[JobId], now: Time) -> Vec<RetryAnswer> {
        let mut moves = Moves::default();
        let answers = ids.iter().map(|id| self.retry_one(*id, now, &mut moves)).collect();
        self.note(moves, now);
        answers
    }

    fn retry_one(&mut self, id: JobId, now: Time, moves: &mut Moves) -> RetryAnswer {
        let Some(mut job) = self.job(id).cloned() else { return RetryAnswer::NotFound };
        let Some(moved) = transition::retry(&mut job, now) else { return RetryAnswer::NotFinal };
        if let Some(other) = self.dedupe_holder(&job) {
            return RetryAnswer::Taken(other);
        }
        self.put_moved(job, moved, moves);
        RetryAnswer::Retried
    }

    /// Makes queued jobs due that wait for their time, and answers in the order asked.
    pub fn run_now(&mut self, ids: &[JobId], now: Time) -> Vec<RunNowAnswer> {
        let mut moves = Moves::default();
        let answers = ids.iter().map(|id| self.run_one_now(*id, now, &mut moves)).collect();
        self.note(moves, now);
        answers
    }

    fn run_one_now(&mut self, id: JobId, now: Time, moves: &mut Moves) -> RunNowAnswer {
        let Some(mut job) = self.job(id).cloned() else { return RunNowAnswer::NotFound };
        match transition::run_now(&mut job, now) {
            RunNow::Due(moved) => {
                self.put_moved(job, moved, moves);
                RunNowAnswer::Due
            }
            RunNow::AlreadyDue => RunNowAnswer::AlreadyDue,
            RunNow::Running => RunNowAnswer::Running,
            RunNow::Final => RunNowAnswer::Final,
        }
    }

    /// Starts new lives of final jobs from a step on, and answers in the order asked.
    pub fn rerun(&mut self, wishes: &[Rerun], now: Time) -> Vec<RerunAnswer> {
        let mut moves = Moves::default();
        let answers = wishes.iter().map(|wish| self.rerun_one(wish, now, &mut moves)).collect();
        self.note(moves, now);
        answers
    }

    fn rerun_one(&mut self, Rerun { job_id, from }: &Rerun, now: Time, moves: &mut Moves) -> RerunAnswer {
        let Some(mut job) = self.job(*job_id).cloned() else { return RerunAnswer::NotFound };
        match transition::rerun(&mut job, from, now) {
            Err(NoRerun::NotFinal) => RerunAnswer::NotFinal,
            Err(NoRerun::NoStep) => RerunAnswer::NoStep,
            Ok(moved) => match self.dedupe_holder(&job) {
                Some(other) => RerunAnswer::Taken(other),
                None => {
                    self.put_moved(job, moved, moves);
                    RerunAnswer::Retried
                }
            },
        }
    }

    /// Takes jobs out that are queued or final, and answers in the order asked.
    pub fn delete(&mut self, ids: &[JobId], now: Time) -> Vec<DeleteAnswer> {
        let mut moves = Moves::default();
        let answers = ids.iter().map(|id| self.delete_one(*id, now, &mut moves)).collect();
        self.note(moves, now);
        answers
    }

    fn delete_one(&mut self, id: JobId, now: Time, moves: &mut Moves) -> DeleteAnswer {
        let Some(mut job) = self.job(id).cloned() else { return DeleteAnswer::NotFound };
        let Some(moved) = transition::delete(&mut job, now) else { return DeleteAnswer::Running };
        self.put_moved(job, moved, moves);
        DeleteAnswer::Deleted
    }

    /// The job that has the dedupe key of a final one now.
    fn dedupe_holder(&self, job: &Job) -> Option<JobId> {
        let seq = job.spec.dedupe_key.as_ref().and_then(|key| self.by_dedupe.get(key))?;
        Some(self.jobs[seq].id)
    }
}
