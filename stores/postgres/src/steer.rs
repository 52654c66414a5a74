//! What people ask for jobs beside cancel and retry: run now, run again from a step, delete.

use tokio_postgres::types::Type;
use windlass_core::id::JobId;
use windlass_core::job::Job;
use windlass_core::store::{DeleteAnswer, Rerun, RerunAnswer, RunNowAnswer};
use windlass_core::transition::{self, NoRerun, RunNow};
use windlass_core::wake::Work;

use crate::error::Fault;
use crate::link::Param;
use crate::moves::Moving;
use crate::store::PostgresStore;

impl PostgresStore {
    pub(crate) async fn run_now_once(&self, ids: &[JobId]) -> Result<Vec<RunNowAnswer>, Fault> {
        let mut moving = Moving::begin(self.link().await?, self.given_now()).await?;
        let mut locked = moving.lock_by_id(ids).await?;
        let mut answers = Vec::with_capacity(ids.len());
        for id in ids {
            let Some(stored) = locked.get_mut(id) else {
                answers.push(RunNowAnswer::NotFound);
                continue;
            };
            answers.push(match transition::run_now(&mut stored.job, moving.now) {
                RunNow::Due(moved) => {
                    moving.moved(&stored.job, moved)?;
                    RunNowAnswer::Due
                }
                RunNow::AlreadyDue => RunNowAnswer::AlreadyDue,
                RunNow::Running => RunNowAnswer::Running,
                RunNow::Final => RunNowAnswer::Final,
            });
        }
        self.commit_and_wake(moving).await?;
        Ok(answers)
    }

    pub(crate) async fn rerun_once(&self, wishes: &[Rerun]) -> Result<Vec<RerunAnswer>, Fault> {
        let mut moving = Moving::begin(self.link().await?, self.given_now()).await?;
        let ids: Vec<JobId> = wishes.iter().map(|wish| wish.job_id).collect();
        let mut locked = moving.lock_by_id(&ids).await?;
        let mut holders = moving.holders_of(locked.values()).await?;
        let mut answers = Vec::with_capacity(wishes.len());
        for Rerun { job_id, from } in wishes {
            let Some(stored) = locked.get_mut(job_id) else {
                answers.push(RerunAnswer::NotFound);
                continue;
            };
            let key = stored.job.spec.dedupe_key.as_ref().map(|key| key.as_str().to_owned());
            let holder = key.as_ref().and_then(|key| holders.get(key).copied());
            let mut next = stored.job.clone();
            answers.push(match (transition::rerun(&mut next, from, moving.now), holder) {
                (Err(NoRerun::NotFinal), _) => RerunAnswer::NotFinal,
                (Err(NoRerun::NoStep), _) => RerunAnswer::NoStep,
                (Ok(_), Some(holder)) => RerunAnswer::Taken(holder),
                (Ok(moved), None) => {
                    cut_steps(&moving, &next).await?;
                    moving.moved(&next, moved)?;
                    holders.extend(key.map(|key| (key, *job_id)));
                    stored.job = next;
                    RerunAnswer::Retried
                }
            });
        }
        self.commit_and_wake(moving).await?;
        Ok(answers)
    }

    pub(crate) async fn delete_once(&self, ids: &[JobId]) -> Result<Vec<DeleteAnswer>, Fault> {
        let mut moving = Moving::begin(self.link().await?, self.given_now()).await?;
        let mut locked = moving.lock_by_id(ids).await?;
        let mut answers = Vec::with_capacity(ids.len());
        let mut ended = Ended::default();
        for id in ids {
            let Some(mut stored) = locked.remove(id) else {
                answers.push(DeleteAnswer::NotFound);
                continue;
            };
            ended.add(&stored.job);
            match transition::delete(&mut stored.job, moving.now) {
                Some(moved) => {
                    moving.moved(&stored.job, moved)?;
                    answers.push(DeleteAnswer::Deleted);
                }
                None => {
                    answers.push(DeleteAnswer::Running);
                    locked.insert(*id, stored);
                }
            }
        }
        ended.unlist(&moving).await?;
        self.commit_and_wake(moving).await?;
        Ok(answers)
    }

    async fn commit_and_wake(&self, moving: Moving) -> Result<(), Fault> {
        if moving.commit().await? {
            self.wake.work(Work::Anywhere);
        }
        Ok(())
    }
}

/// Takes away the steps that a job has no more.
async fn cut_steps(moving: &Moving, job: &Job) -> Result<(), Fault> {
    let kept = i32::try_from(job.steps.len()).unwrap_or(i32::MAX);
    let params: [Param<'_>; 2] = [(&(job.seq as i64), Type::INT8), (&kept, Type::INT4)];
    moving.link().rows(sql!("step", "cut"), &params).await?;
    Ok(())
}

/// Final jobs that are deleted, as they stand on the list of what has ended.
#[derive(Default)]
struct Ended {
    queues: Vec<String>,
    moments: Vec<i64>,
    seqs: Vec<i64>,
}

impl Ended {
    fn add(&mut self, job: &Job) {
        if let Some(at) = job.state.ended_at() {
            self.queues.push(job.spec.queue.to_string());
            self.moments.push(at.ms());
            self.seqs.push(job.seq as i64);
        }
    }

    async fn unlist(&self, moving: &Moving) -> Result<(), Fault> {
        if self.seqs.is_empty() {
            return Ok(());
        }
        let Self { queues, moments, seqs } = self;
        let all: [Param<'_>; 3] =
            [(queues, Type::TEXT_ARRAY), (moments, Type::INT8_ARRAY), (seqs, Type::INT8_ARRAY)];
        moving.link().rows(sql!("ended", "unlist"), &all).await?;
        moving.link().rows(sql!("ended", "unlist_empty"), &all[..2]).await?;
        Ok(())
    }
}
