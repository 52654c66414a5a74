//! What clients and operators ask for.

use async_trait::async_trait;
use windlass_core::audit::{AuditBite, AuditFrom};
use windlass_core::book::Book;
use windlass_core::eligible::Explanation;
use windlass_core::error::StoreError;
use windlass_core::event::{Action, Event, Position};
use windlass_core::id::{BudgetName, JobId, QueueName, ScheduleName, WorkerName};
use windlass_core::job::{Job, NewJob};
use windlass_core::log::{self, LogPage, LogWrite};
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::policy::schedule::{Schedule, SchedulePolicy};
use windlass_core::query::{Counted, JobFilter, ListRequest, Page, QueueStatus, WorkerStatus};
use windlass_core::record::Records;
use windlass_core::store::{
    BudgetStatus, CancelAnswer, DeleteAnswer, Enqueued, EpochStatus, Fired, Holder, QueueDeletion, Rerun,
    RerunAnswer, RetryAnswer, Risk, RunNowAnswer, Store, WorkerBeat, Written, check_jobs, check_steered,
};
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::journal::op::{Answer, New, Op};
use crate::store::MongoStore;

/// The answer that an operation has.
macro_rules! answered {
    ($answer:expr, $kind:path) => {
        match $answer {
            $kind(answer) => Ok(answer),
            other => {
                Err(windlass_core::error::StoreError::Broken(format!("an operation was answered {other:?}")))
            }
        }
    };
}
pub(crate) use answered;

#[async_trait]
impl Store for MongoStore {
    fn records(&self) -> Result<&dyn Records, StoreError> {
        Ok(self)
    }

    async fn put_log(&self, write: LogWrite) -> Result<Written, StoreError> {
        log::put(self.records()?, write).await
    }

    async fn logs(&self, job: JobId) -> Result<Vec<LogPage>, StoreError> {
        log::read(self.records()?, job).await
    }

    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        check_jobs(&jobs)?;
        let work = Work::in_queues(jobs.iter().map(|job| &job.spec.queue));
        let jobs = jobs.into_iter().map(New).collect();
        answered!(self.change(Op::Enqueue(jobs), Some(work)).await?, Answer::Enqueued)
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.look(|book, _| book.job(id).cloned()).await
    }

    async fn holders(&self, jobs: Vec<JobId>) -> Result<Vec<Holder>, StoreError> {
        self.look(|book, _| book.holders(&jobs)).await
    }

    async fn list(&self, request: ListRequest) -> Result<Page, StoreError> {
        let ListRequest { filter, limit, after } = request;
        let request = ListRequest { filter: filter.checked()?, limit, after };
        self.look(|book, _| book.list(&request)).await
    }

    async fn count_jobs(&self, filter: JobFilter) -> Result<Counted, StoreError> {
        let filter = filter.checked()?;
        self.look(|book, _| book.count(&filter)).await
    }

    async fn cancel_all(&self, ids: Vec<JobId>) -> Result<Vec<CancelAnswer>, StoreError> {
        check_steered(&ids)?;
        answered!(self.change(Op::Cancel(ids.into()), Some(Work::Anywhere)).await?, Answer::Canceled)
    }

    async fn retry_all(&self, ids: Vec<JobId>) -> Result<Vec<RetryAnswer>, StoreError> {
        check_steered(&ids)?;
        answered!(self.change(Op::Retry(ids.into()), Some(Work::Anywhere)).await?, Answer::Retried)
    }

    async fn run_now_all(&self, ids: Vec<JobId>) -> Result<Vec<RunNowAnswer>, StoreError> {
        check_steered(&ids)?;
        answered!(self.change(Op::RunNow(ids.into()), Some(Work::Anywhere)).await?, Answer::RunNow)
    }

    async fn rerun_all(&self, wishes: Vec<Rerun>) -> Result<Vec<RerunAnswer>, StoreError> {
        check_steered(&wishes)?;
        answered!(self.change(Op::Rerun(wishes), Some(Work::Anywhere)).await?, Answer::Rerun)
    }

    async fn delete_all(&self, ids: Vec<JobId>) -> Result<Vec<DeleteAnswer>, StoreError> {
        check_steered(&ids)?;
        answered!(self.change(Op::Delete(ids.into()), Some(Work::Anywhere)).await?, Answer::DeletedJobs)
    }

    async fn explain(&self, id: JobId) -> Result<Option<Explanation>, StoreError> {
        self.look(|book, now| book.explain(id, now)).await
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        self.look(|book, now| book.queues(now)).await
    }

    async fn put_queue(&self, name: QueueName, policy: QueuePolicy) -> Result<(), StoreError> {
        self.change(Op::PutQueue(name, policy), Some(Work::Anywhere)).await?;
        Ok(())
    }

    async fn pause_queue(&self, name: QueueName, paused: bool) -> Result<(), StoreError> {
        self.change(Op::PauseQueue(name, paused), Some(Work::Anywhere)).await?;
        Ok(())
    }

    async fn delete_queue(&self, name: QueueName) -> Result<QueueDeletion, StoreError> {
        answered!(self.change(Op::DeleteQueue(name), Some(Work::Anywhere)).await?, Answer::DeletedQueue)
    }

    async fn budgets(&self) -> Result<Vec<BudgetStatus>, StoreError> {
        self.look(|book, now| book.budgets(now)).await
    }

    async fn put_budget(&self, name: BudgetName, policy: BudgetPolicy) -> Result<(), StoreError> {
        self.change(Op::PutBudget(name, policy), Some(Work::Anywhere)).await?;
        Ok(())
    }

    async fn delete_budget(&self, name: BudgetName) -> Result<bool, StoreError> {
        answered!(self.change(Op::DeleteBudget(name), Some(Work::Anywhere)).await?, Answer::Deleted)
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        self.look(|book, _| book.schedules()).await
    }

    async fn put_schedule(&self, name: ScheduleName, policy: SchedulePolicy) -> Result<(), StoreError> {
        self.change(Op::PutSchedule(name, policy), None).await?;
        Ok(())
    }

    async fn delete_schedule(&self, name: ScheduleName) -> Result<bool, StoreError> {
        answered!(self.change(Op::DeleteSchedule(name), None).await?, Answer::Deleted)
    }

    async fn fire_schedules(&self) -> Result<Fired, StoreError> {
        answered!(self.change(Op::FireSchedules, Some(Work::Anywhere)).await?, Answer::Fired)
    }

    async fn beat(&self, worker: WorkerBeat) -> Result<(), StoreError> {
        self.change(Op::Beat(worker), None).await?;
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        self.look(|book, _| book.workers()).await
    }

    async fn forget_worker(&self, name: WorkerName) -> Result<(), StoreError> {
        self.change(Op::ForgetWorker(name), None).await?;
        Ok(())
    }

    async fn prune(&self) -> Result<u64, StoreError> {
        answered!(self.change(Op::Prune, None).await?, Answer::Pruned)
    }

    async fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.look(|book, _| book.events(since, limit)).await?
    }

    async fn act(&self, action: Action) -> Result<(), StoreError> {
        self.change(Op::Act(action.checked()?), None).await?;
        Ok(())
    }

    async fn events_end(&self) -> Result<Position, StoreError> {
        self.look(|book, _| book.events_end()).await
    }

    async fn audit_bite(&self, _: AuditFrom) -> Result<AuditBite, StoreError> {
        let shared = &self.shared;
        let mut copy = shared.copy.lock().await;
        shared.follow(&mut copy).await?;
        let mut found = copy.book.audit();
        // What is read from the beginning must be what we hold.
        let mut fresh = shared.journal.newest_snapshot().await?;
        shared.journal.follow(&mut fresh).await?;
        if fresh.number == copy.number {
            let parts = differences(&copy.book, &fresh.book);
            let what = |part| format!("{part} at entry {} are not what the journal says", copy.number);
            found.extend(parts.into_iter().map(what));
        }
        Ok(AuditBite::whole(found))
    }

    async fn now(&self) -> Result<Time, StoreError> {
        self.look(|_, now| now).await
    }

    async fn accepts(&self) -> Result<(), StoreError> {
        futures::try_join!(self.now(), self.shared.journal.has_room()).map(drop)
    }

    async fn risks(&self) -> Result<Vec<Risk>, StoreError> {
        Ok(Vec::new())
    }

    async fn epoch(&self) -> Result<EpochStatus, StoreError> {
        self.look(|book, now| book.epoch_status(now)).await
    }
}

/// The parts of two books that differ. Both are read from a document, since a shelf that became empty is not in one.
fn differences(ours: &Book, fresh: &Book) -> Vec<String> {
    let parts = |book: &Book| {
        let whole =
            Book::from_document(book.to_document()).ok().map(|book| serde_json::to_value(book.to_document()));
        match whole {
            Some(Ok(serde_json::Value::Object(parts))) => parts,
            _ => serde_json::Map::new(),
        }
    };
    let (ours, fresh) = (parts(ours), parts(fresh));
    let names: std::collections::BTreeSet<&String> = ours.keys().chain(fresh.keys()).collect();
    names.into_iter().filter(|name| ours.get(*name) != fresh.get(*name)).cloned().collect()
}
