//! What clients and operators ask for.

use async_trait::async_trait;
use windlass_core::audit::{AuditBite, AuditFrom};
use windlass_core::book::Book;
use windlass_core::eligible::Explanation;
use windlass_core::error::StoreError;
use windlass_core::event::{Action, Event, Position};
use windlass_core::id::{BudgetName, JobId, QueueName, ScheduleName, WorkerName};
use windlass_core::incarnation;
use windlass_core::job::{Job, NewJob};
use windlass_core::log::{self, LogPage, LogWrite};
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::policy::schedule::{Schedule, SchedulePolicy};
use windlass_core::query::{Counted, JobFilter, ListRequest, Page, QueueStatus, WorkerStatus};
use windlass_core::record::Records;
use windlass_core::store::{
    BudgetStatus, CancelAnswer, DeleteAnswer, Enqueued, EpochStatus, Fired, Holder, QueueDeletion, Rerun,
    RerunAnswer, RetryAnswer, Risk, RunNowAnswer, Store, WorkerBeat, Written, check_steered,
};
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::desk::Change;
use crate::store::JsonStore;

#[async_trait]
impl Store for JsonStore {
    fn records(&self) -> Result<&dyn Records, StoreError> {
        if self.keeps_records() {
            return Ok(self);
        }
        Err(StoreError::Unsupported(
            "keep records in a file of this form; use another store, such as sqlite:FILE",
        ))
    }

    async fn put_log(&self, write: LogWrite) -> Result<Written, StoreError> {
        log::put(self.records()?, write).await
    }

    async fn logs(&self, job: JobId) -> Result<Vec<LogPage>, StoreError> {
        log::read(self.records()?, job).await
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        let work = Work::in_queues(jobs.iter().map(|job| &job.spec.queue));
        self.write_and_wake(work, |book, now| {
            refuse_overflow(book, &jobs, self.jobs_max(), now)?;
            let answer = book.enqueue(jobs, now)?;
            let changed = answer.iter().any(|enqueued| !enqueued.deduplicated);
            Ok(Change { answer, changed })
        })
        .await
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.read(|book, _| book.job(id).cloned())
    }

    async fn holders(&self, jobs: Vec<JobId>) -> Result<Vec<Holder>, StoreError> {
        self.read(|book, _| book.holders(&jobs))
    }

    async fn list(&self, request: ListRequest) -> Result<Page, StoreError> {
        let ListRequest { filter, limit, after } = request;
        let request = ListRequest { filter: filter.checked()?, limit, after };
        self.read(|book, _| book.list(&request))
    }

    async fn count_jobs(&self, filter: JobFilter) -> Result<Counted, StoreError> {
        let filter = filter.checked()?;
        self.read(|book, _| book.count(&filter))
    }

    async fn cancel_all(&self, ids: Vec<JobId>) -> Result<Vec<CancelAnswer>, StoreError> {
        check_steered(&ids)?;
        self.write_and_wake(Work::Anywhere, |book, now| {
            let answer = book.cancel(&ids, now);
            let changed =
                answer.iter().any(|one| matches!(one, CancelAnswer::Canceled | CancelAnswer::Requested));
            Ok(Change { answer, changed })
        })
        .await
    }

    async fn retry_all(&self, ids: Vec<JobId>) -> Result<Vec<RetryAnswer>, StoreError> {
        check_steered(&ids)?;
        self.write_and_wake(Work::Anywhere, |book, now| {
            let answer = book.retry(&ids, now);
            let changed = answer.contains(&RetryAnswer::Retried);
            Ok(Change { answer, changed })
        })
        .await
    }

    async fn run_now_all(&self, ids: Vec<JobId>) -> Result<Vec<RunNowAnswer>, StoreError> {
        check_steered(&ids)?;
        self.write_and_wake(Work::Anywhere, |book, now| {
            let answer = book.run_now(&ids, now);
            let changed = answer.contains(&RunNowAnswer::Due);
            Ok(Change { answer, changed })
        })
        .await
    }

    async fn rerun_all(&self, wishes: Vec<Rerun>) -> Result<Vec<RerunAnswer>, StoreError> {
        check_steered(&wishes)?;
        self.write_and_wake(Work::Anywhere, |book, now| {
            let answer = book.rerun(&wishes, now);
            let changed = answer.contains(&RerunAnswer::Retried);
            Ok(Change { answer, changed })
        })
        .await
    }

    async fn delete_all(&self, ids: Vec<JobId>) -> Result<Vec<DeleteAnswer>, StoreError> {
        check_steered(&ids)?;
        self.write_and_wake(Work::Anywhere, |book, now| {
            let answer = book.delete(&ids, now);
            let changed = answer.contains(&DeleteAnswer::Deleted);
            Ok(Change { answer, changed })
        })
        .await
    }

    async fn explain(&self, id: JobId) -> Result<Option<Explanation>, StoreError> {
        self.read(|book, now| book.explain(id, now))
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        self.read(|book, now| book.queues(now))
    }

    async fn put_queue(&self, name: QueueName, policy: QueuePolicy) -> Result<(), StoreError> {
        self.write_and_wake(Work::Anywhere, |book, now| {
            book.put_queue(name, policy, now)?;
            Ok(DONE)
        })
        .await
    }

    async fn pause_queue(&self, name: QueueName, paused: bool) -> Result<(), StoreError> {
        self.write_and_wake(Work::Anywhere, |book, _| {
            book.pause_queue(name, paused);
            Ok(DONE)
        })
        .await
    }

    async fn delete_queue(&self, name: QueueName) -> Result<QueueDeletion, StoreError> {
        self.write_and_wake(Work::Anywhere, |book, _| {
            let answer = book.delete_queue(&name);
            Ok(Change { answer, changed: answer == QueueDeletion::Deleted })
        })
        .await
    }

    async fn budgets(&self) -> Result<Vec<BudgetStatus>, StoreError> {
        self.read(|book, now| book.budgets(now))
    }

    async fn put_budget(&self, name: BudgetName, policy: BudgetPolicy) -> Result<(), StoreError> {
        self.write_and_wake(Work::Anywhere, |book, _| {
            book.put_budget(name, policy);
            Ok(DONE)
        })
        .await
    }

    async fn delete_budget(&self, name: BudgetName) -> Result<bool, StoreError> {
        self.write_and_wake(Work::Anywhere, |book, _| {
            let answer = book.delete_budget(&name);
            Ok(Change { answer, changed: answer })
        })
        .await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        self.read(|book, _| book.schedules())
    }

    async fn put_schedule(&self, name: ScheduleName, policy: SchedulePolicy) -> Result<(), StoreError> {
        self.write(|book, now| {
            book.put_schedule(name, policy, now)?;
            Ok(DONE)
        })
        .await
    }

    async fn delete_schedule(&self, name: ScheduleName) -> Result<bool, StoreError> {
        self.write(|book, _| {
            let answer = book.delete_schedule(&name);
            Ok(Change { answer, changed: answer })
        })
        .await
    }

    async fn fire_schedules(&self) -> Result<Fired, StoreError> {
        self.write_and_wake(Work::Anywhere, |book, now| {
            let changed = book.would_fire(now);
            if changed && book.len() >= self.jobs_max() {
                return Err(full(book.len(), self.jobs_max()));
            }
            Ok(Change { answer: book.fire_schedules(now), changed })
        })
        .await
    }

    async fn beat(&self, worker: WorkerBeat) -> Result<(), StoreError> {
        self.write(|book, now| {
            book.beat(worker, now);
            Ok(DONE)
        })
        .await
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        self.read(|book, _| book.workers())
    }

    async fn forget_worker(&self, name: WorkerName) -> Result<(), StoreError> {
        self.write(|book, _| {
            book.forget_worker(&name);
            Ok(DONE)
        })
        .await
    }

    async fn prune(&self) -> Result<u64, StoreError> {
        self.prune_aside().await;
        self.write(|book, now| {
            let outlived = self.oldest_kept(now).map_or(0, |oldest| book.prune_accepted_before(oldest));
            Ok(Change { answer: outlived + book.prune(now), changed: true })
        })
        .await
    }

    async fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.read(|book, _| book.events(since, limit))?
    }

    async fn act(&self, action: Action) -> Result<(), StoreError> {
        self.write(|book, now| {
            book.act(action, now)?;
            Ok(DONE)
        })
        .await
    }

    async fn events_end(&self) -> Result<Position, StoreError> {
        self.read(|book, _| book.events_end())
    }

    async fn audit_bite(&self, _: AuditFrom) -> Result<AuditBite, StoreError> {
        self.read(|book, _| AuditBite::whole(book.audit()))
    }

    async fn now(&self) -> Result<Time, StoreError> {
        self.read(|_, now| now)
    }

    async fn accepts(&self) -> Result<(), StoreError> {
        self.now().await?;
        self.has_room()
    }

    async fn risks(&self) -> Result<Vec<Risk>, StoreError> {
        let history = self.read(|book, now| incarnation::risk(book.epoch(), now))?;
        Ok(history.into_iter().chain(self.little_room()).collect())
    }

    async fn epoch(&self) -> Result<EpochStatus, StoreError> {
        self.read(|book, now| book.epoch_status(now))
    }
}

const DONE: Change<()> = Change { answer: (), changed: true };

/// Refuses jobs that are more than the store keeps. How many of them are new
/// is only known by trying, which is worth the while near the limit alone.
pub(crate) fn refuse_overflow(
    book: &Book,
    jobs: &[NewJob],
    jobs_max: usize,
    now: Time,
) -> Result<(), StoreError> {
    if book.len() + jobs.len() <= jobs_max {
        return Ok(());
    }
    let mut trial = book.clone();
    trial.enqueue(jobs.to_vec(), now)?;
    if trial.len() > jobs_max && trial.len() > book.len() {
        return Err(full(book.len(), jobs_max));
    }
    Ok(())
}

fn full(len: usize, jobs_max: usize) -> StoreError {
    StoreError::Full(format!(
        "it keeps {len} jobs and may keep {jobs_max}; let finished jobs go sooner (retention), \
         or move to the SQLite store"
    ))
}
