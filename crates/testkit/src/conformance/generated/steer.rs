//! What people ask for jobs, done to the store and to the book.

use windlass_core::id::{JobId, StepName};
use windlass_core::store::Rerun;

use super::op::Op;
use super::pair::{Pair, Same, same};
use crate::conformance::scene::id;

impl Pair {
    /// Cancels, retries, runs now or again, deletes, prunes.
    pub async fn steer(&mut self, op: &Op) -> Same {
        let now = self.now();
        let known = |n: &usize| self.known.get(n % self.known.len().max(1)).copied().unwrap_or(id(999));
        let all = |jobs: &[usize]| jobs.iter().map(known).collect::<Vec<JobId>>();
        match op {
            Op::Cancel(jobs) => {
                let jobs = all(jobs);
                let book = self.book.cancel(&jobs, now);
                same("cancel", self.store.cancel_all(jobs).await, Ok(book))
            }
            Op::Retry(jobs) => {
                let jobs = all(jobs);
                let book = self.book.retry(&jobs, now);
                same("retry", self.store.retry_all(jobs).await, Ok(book))
            }
            Op::RunNow(jobs) => {
                let jobs = all(jobs);
                let book = self.book.run_now(&jobs, now);
                same("run_now", self.store.run_now_all(jobs).await, Ok(book))
            }
            Op::Rerun(jobs) => {
                let wish = |(job, name): &(usize, u8)| {
                    let from = StepName::new(format!("step {name}")).map_err(|why| why.to_string())?;
                    Ok::<_, String>(Rerun { job_id: known(job), from })
                };
                let wishes = jobs.iter().map(wish).collect::<Result<Vec<_>, _>>()?;
                let book = self.book.rerun(&wishes, now);
                same("rerun", self.store.rerun_all(wishes).await, Ok(book))
            }
            Op::Delete(jobs) => {
                let jobs = all(jobs);
                let book = self.book.delete(&jobs, now);
                same("delete", self.store.delete_all(jobs).await, Ok(book))
            }
            Op::Prune => same("prune", self.store.prune().await, Ok(self.book.prune(now))),
            _ => Ok(()),
        }
    }
}
