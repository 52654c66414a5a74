//! The reference store: core's book behind a mutex, nothing on disk.
//!
//! It outlives nothing but its handles. Clones, and stores that were opened on
//! the same book, see the same jobs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::audit::{AuditBite, AuditFrom};
use crate::book::Book;
use crate::eligible::Explanation;
use crate::error::StoreError;
use crate::event::{Action, Event, Position};
use crate::id::{BudgetName, JobId, Label, QueueName, RecordKey, ScheduleName, ShelfName, WorkerName};
use crate::job::{Job, NewJob};
use crate::log::{self, LogPage, LogWrite};
use crate::policy::budget::BudgetPolicy;
use crate::policy::queue::QueuePolicy;
use crate::policy::schedule::{Schedule, SchedulePolicy};
use crate::query::{Counted, JobFilter, ListRequest, Page, QueueStatus, WorkerStatus};
use crate::record::{BatchAnswer, Record, RecordBatch, RecordPage, Records, Scan, check_read, check_text};
use crate::store::{
    BudgetStatus, CancelAnswer, Capabilities, ClaimAnswer, ClaimRequest, DeleteAnswer, Enqueued, EpochStatus,
    Expired, Fired, Holder, LeaseRef, Offer, OfferFn, OfferFns, ProgressWrite, QueueDeletion, RenewAnswer,
    Rerun, RerunAnswer, RetryAnswer, Risk, RunNowAnswer, Settlement, Source, Spent, StepWrite, Store, WakeFn,
    WakeFns, WorkerBeat, Written, check_steered,
};
use crate::time::{Clock, Time};
use crate::wake::{Registration, Work};
use async_trait::async_trait;

/// A store in memory.
#[derive(Clone)]
pub struct MemoryStore {
    book: Arc<Mutex<Book>>,
    wakes: WakeFns,
    offers: OfferFns,
    clock: Arc<dyn Clock>,
}

impl MemoryStore {
    /// An empty store that reads the time from `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { book: Arc::default(), wakes: WakeFns::default(), offers: OfferFns::default(), clock }
    }

    /// The book itself, to look at or to spoil.
    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many callbacks are registered, of those who wait for work.
    pub fn registered(&self) -> usize {
        self.wakes.all().len() + self.offers.all().len()
    }

    fn time(&self) -> Time {
        self.clock.wall()
    }

    /// Who stands by claims before anybody is called, as in the commit of a store on a disk.
    fn wake(&self, work: &Work) {
        for Offer { request, answer } in self.offers.all().iter().filter_map(|offer| offer(work)) {
            let claimed = self.book().claim(&request, self.time());
            answer(claimed);
        }
        for wake in self.wakes.all() {
            wake(work);
        }
    }
}

#[async_trait]
impl Source for MemoryStore {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        self.book().claim(&request, self.time())
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        Ok(self.book().renew(&leases, self.time()))
    }

    async fn cancels(&self, leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        Ok(self.book().cancels(&leases))
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        Ok(self.book().store_steps(&steps, self.time()))
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        Ok(self.book().progress(&reports))
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        let answers = self.book().settle(&settlements, self.time());
        self.wake(&Work::Anywhere);
        Ok(answers)
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        let expired = self.book().expire(self.time());
        if !expired.jobs.is_empty() {
            self.wake(&Work::Anywhere);
        }
        Ok(expired)
    }

    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError> {
        Ok(self.book().spend(&budget, amount, self.time()))
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        self.book().cool_down(budget, for_ms, self.time());
        Ok(())
    }

    fn on_work(&self, wake: WakeFn) -> Registration {
        self.wakes.add(wake)
    }

    fn on_commit(&self, offer: OfferFn) -> Registration {
        self.offers.add(offer)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PLAIN
    }
}

#[async_trait]
impl Store for MemoryStore {
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
        let work = Work::in_queues(jobs.iter().map(|job| &job.spec.queue));
        let answers = self.book().enqueue(jobs, self.time())?;
        self.wake(&work);
        Ok(answers)
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        Ok(self.book().job(id).cloned())
    }

    async fn holders(&self, jobs: Vec<JobId>) -> Result<Vec<Holder>, StoreError> {
        Ok(self.book().holders(&jobs))
    }

    async fn list(&self, request: ListRequest) -> Result<Page, StoreError> {
        let ListRequest { filter, limit, after } = request;
        Ok(self.book().list(&ListRequest { filter: filter.checked()?, limit, after }))
    }

    async fn count_jobs(&self, filter: JobFilter) -> Result<Counted, StoreError> {
        Ok(self.book().count(&filter.checked()?))
    }

    async fn cancel_all(&self, ids: Vec<JobId>) -> Result<Vec<CancelAnswer>, StoreError> {
        check_steered(&ids)?;
        let answers = self.book().cancel(&ids, self.time());
        self.wake(&Work::Anywhere);
        Ok(answers)
    }

    async fn retry_all(&self, ids: Vec<JobId>) -> Result<Vec<RetryAnswer>, StoreError> {
        check_steered(&ids)?;
        let answers = self.book().retry(&ids, self.time());
        self.wake(&Work::Anywhere);
        Ok(answers)
    }

    async fn run_now_all(&self, ids: Vec<JobId>) -> Result<Vec<RunNowAnswer>, StoreError> {
        check_steered(&ids)?;
        let answers = self.book().run_now(&ids, self.time());
        self.wake(&Work::Anywhere);
        Ok(answers)
    }

    async fn rerun_all(&self, wishes: Vec<Rerun>) -> Result<Vec<RerunAnswer>, StoreError> {
        check_steered(&wishes)?;
        let answers = self.book().rerun(&wishes, self.time());
        self.wake(&Work::Anywhere);
        Ok(answers)
    }

    async fn delete_all(&self, ids: Vec<JobId>) -> Result<Vec<DeleteAnswer>, StoreError> {
        check_steered(&ids)?;
        let answers = self.book().delete(&ids, self.time());
        self.wake(&Work::Anywhere);
        Ok(answers)
    }

    async fn explain(&self, id: JobId) -> Result<Option<Explanation>, StoreError> {
        Ok(self.book().explain(id, self.time()))
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        Ok(self.book().queues(self.time()))
    }

    async fn put_queue(&self, name: QueueName, policy: QueuePolicy) -> Result<(), StoreError> {
        Ok(self.book().put_queue(name, policy, self.clock.wall())?)
    }

    async fn pause_queue(&self, name: QueueName, paused: bool) -> Result<(), StoreError> {
        self.book().pause_queue(name, paused);
        self.wake(&Work::Anywhere);
        Ok(())
    }

    async fn delete_queue(&self, name: QueueName) -> Result<QueueDeletion, StoreError> {
        let answer = self.book().delete_queue(&name);
        self.wake(&Work::Anywhere);
        Ok(answer)
    }

    async fn budgets(&self) -> Result<Vec<BudgetStatus>, StoreError> {
        Ok(self.book().budgets(self.time()))
    }

    async fn put_budget(&self, name: BudgetName, policy: BudgetPolicy) -> Result<(), StoreError> {
        self.book().put_budget(name, policy);
        Ok(())
    }

    async fn delete_budget(&self, name: BudgetName) -> Result<bool, StoreError> {
        let answer = self.book().delete_budget(&name);
        self.wake(&Work::Anywhere);
        Ok(answer)
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        Ok(self.book().schedules())
    }

    async fn put_schedule(&self, name: ScheduleName, policy: SchedulePolicy) -> Result<(), StoreError> {
        Ok(self.book().put_schedule(name, policy, self.time())?)
    }

    async fn delete_schedule(&self, name: ScheduleName) -> Result<bool, StoreError> {
        Ok(self.book().delete_schedule(&name))
    }

    async fn fire_schedules(&self) -> Result<Fired, StoreError> {
        let fired = self.book().fire_schedules(self.time());
        self.wake(&Work::Anywhere);
        Ok(fired)
    }

    async fn beat(&self, worker: WorkerBeat) -> Result<(), StoreError> {
        self.book().beat(worker, self.time());
        Ok(())
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        Ok(self.book().workers())
    }

    async fn forget_worker(&self, name: WorkerName) -> Result<(), StoreError> {
        self.book().forget_worker(&name);
        Ok(())
    }

    async fn prune(&self) -> Result<u64, StoreError> {
        Ok(self.book().prune(self.time()))
    }

    async fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.book().events(since, limit)
    }

    async fn act(&self, action: Action) -> Result<(), StoreError> {
        Ok(self.book().act(action, self.time())?)
    }

    async fn events_end(&self) -> Result<Position, StoreError> {
        Ok(self.book().events_end())
    }

    async fn audit_bite(&self, _: AuditFrom) -> Result<AuditBite, StoreError> {
        Ok(AuditBite::whole(self.book().audit()))
    }

    async fn now(&self) -> Result<Time, StoreError> {
        Ok(self.time())
    }

    async fn accepts(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn risks(&self) -> Result<Vec<Risk>, StoreError> {
        Ok(Vec::new())
    }

    async fn epoch(&self) -> Result<EpochStatus, StoreError> {
        Ok(self.book().epoch_status(self.time()))
    }
}

#[async_trait]
impl Records for MemoryStore {
    async fn write(&self, batch: RecordBatch) -> Result<BatchAnswer, StoreError> {
        let answer = self.book().write_records(&batch, self.time())?;
        if matches!(&answer, BatchAnswer::Done { jobs, .. } if !jobs.is_empty()) {
            self.wake(&Work::in_queues(batch.jobs.iter().map(|job| &job.spec.queue)));
        }
        Ok(answer)
    }

    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError> {
        check_read(&keys)?;
        let (book, now) = (self.book(), self.time());
        Ok(keys.iter().map(|key| book.record(&shelf, key, now).cloned()).collect())
    }

    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError> {
        Ok(self.book().scan_records(scan, self.time())?)
    }

    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError> {
        check_text("prefix", &prefix)?;
        Ok(self.book().count_records(&shelf, &prefix, self.time()))
    }
}
