//! The store: each verb is handed to the writer or to a reader.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::statvfs;
use windlass_core::audit::{AuditBite, AuditFrom};
use windlass_core::eligible::Explanation;
use windlass_core::error::StoreError;
use windlass_core::event::{Action, Event, Position};
use windlass_core::id::{
    BudgetName, JobId, Label, QueueName, RecordKey, ScheduleName, ShelfName, WorkerName,
};
use windlass_core::incarnation;
use windlass_core::job::{Job, NewJob};
use windlass_core::log::{self, LogPage, LogWrite};
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::policy::schedule::{Schedule, SchedulePolicy};
use windlass_core::query::{Counted, JobFilter, ListRequest, Page, QueueStatus, WorkerStatus};
use windlass_core::record::{
    BatchAnswer, Record, RecordBatch, RecordPage, Records, Scan, check_read, check_text,
};
use windlass_core::store::{
    BudgetStatus, CancelAnswer, Capabilities, ClaimAnswer, ClaimRequest, DeleteAnswer, Enqueued, EpochStatus,
    Expired, Fired, Holder, LeaseRef, OfferFn, PRUNE_MAX, ProgressWrite, QueueDeletion, RenewAnswer, Rerun,
    RerunAnswer, RetryAnswer, Risk, RunNowAnswer, Settlement, Source, Spent, StepWrite, Store, WakeFn,
    WorkerBeat, Written, check_steered,
};
use windlass_core::time::{Clock, Time};
use windlass_core::wake::Registration;

use crate::disk::ballast::Ballast;
use crate::fail::{Done, NO_ROOM};
use crate::options::Options;
use crate::rows::row::Stored;
use crate::rows::{epoch, row};
use crate::run::readers::{Readers, View};
use crate::run::tx::Tx;
use crate::run::wake::Wakers;
use crate::run::writer::{Health, Sort, Writer};
use crate::verbs::{
    audit, budgets, claim, enqueue, events, expire, explain, list, operate, prune, queues, records, scan,
    schedules, settle, worker_writes, workers,
};

/// A store in one SQLite file. Dropping the last of it closes the file, after
/// the calls that were let in.
pub struct SqliteStore {
    /// Before the writer, since fields are dropped in order: whoever closes the file last writes the log back into it,
    /// and a connection that only reads cannot.
    readers: Readers,
    writer: Writer,
    wakers: Arc<Wakers>,
    health: Health,
    clock: Arc<dyn Clock>,
    path: PathBuf,
    ballast_bytes: u64,
}

impl SqliteStore {
    /// Opens a file, and makes it when it is not there.
    pub async fn open(path: impl AsRef<Path>) -> Result<Arc<Self>, StoreError> {
        Self::open_with(path, Options::default()).await
    }

    /// Opens a file with options of one's own, and makes it when it is not there.
    pub async fn open_with(path: impl AsRef<Path>, options: Options) -> Result<Arc<Self>, StoreError> {
        let (wakers, health) = (Arc::new(Wakers::default()), Health::default());
        let readers = Readers::new(path.as_ref(), &options);
        let clock = Arc::clone(&options.clock);
        let (path, ballast_bytes) = (path.as_ref().to_owned(), options.ballast_bytes);
        let writer = Writer::start(path.clone(), options, Arc::clone(&wakers), Arc::clone(&health)).await?;
        Ok(Arc::new(Self { writer, readers, wakers, health, clock, path, ballast_bytes }))
    }

    async fn add<T: Send + 'static>(
        &self,
        operation: impl Fn(&mut Tx<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.run(Sort::Adds, operation).await
    }

    async fn change<T: Send + 'static>(
        &self,
        operation: impl Fn(&mut Tx<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.writer.run(Sort::Changes, operation).await
    }

    async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&View<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        match self.health.get() {
            Some(stopped) => Err(stopped.clone()),
            None => self.readers.read(question).await,
        }
    }
}

#[async_trait]
impl Source for SqliteStore {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        self.change(move |tx| claim::claim(tx, &request)).await
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        self.change(move |tx| worker_writes::renew(tx, &leases)).await
    }

    async fn cancels(&self, leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        self.read(move |view| worker_writes::cancels(view.conn, &leases)).await
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        self.change(move |tx| worker_writes::store_steps(tx, &steps)).await
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        self.change(move |tx| worker_writes::progress(tx, &reports)).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        self.change(move |tx| settle::settle(tx, &settlements)).await
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        let clock = Arc::clone(&self.clock);
        self.change(move |tx| expire::expire(tx, &*clock)).await
    }

    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError> {
        self.change(move |tx| budgets::spend(tx, &budget, amount)).await
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        self.change(move |tx| budgets::cool_down(tx, &budget, for_ms)).await
    }

    fn on_work(&self, wake: WakeFn) -> Registration {
        self.wakers.wakes.add(wake)
    }

    fn on_commit(&self, offer: OfferFn) -> Registration {
        self.wakers.offers.add(offer)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PLAIN
    }
}

#[async_trait]
impl Store for SqliteStore {
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
        self.add(move |tx| enqueue::enqueue(tx, &jobs)).await
    }

    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        self.read(move |view| row::by_id(view.conn, id)?.map(|found| found.with_steps(view.conn)).transpose())
            .await
    }

    async fn holders(&self, jobs: Vec<JobId>) -> Result<Vec<Holder>, StoreError> {
        self.read(move |view| {
            let found = jobs.into_iter().filter_map(|id| row::by_id(view.conn, id).transpose());
            let holder =
                |Stored { job, .. }| Holder { job_id: job.id, queue: job.spec.queue, worker: job.worker };
            found.map(|found| Ok(holder(found?))).collect()
        })
        .await
    }

    async fn list(&self, request: ListRequest) -> Result<Page, StoreError> {
        let request = ListRequest { filter: request.filter.checked()?, ..request };
        self.read(move |view| list::list(view.conn, &request)).await
    }

    async fn count_jobs(&self, filter: JobFilter) -> Result<Counted, StoreError> {
        let filter = filter.checked()?;
        self.read(move |view| list::count(view.conn, &filter)).await
    }

    async fn cancel_all(&self, ids: Vec<JobId>) -> Result<Vec<CancelAnswer>, StoreError> {
        check_steered(&ids)?;
        self.change(move |tx| ids.iter().map(|id| operate::cancel(tx, *id)).collect()).await
    }

    async fn retry_all(&self, ids: Vec<JobId>) -> Result<Vec<RetryAnswer>, StoreError> {
        check_steered(&ids)?;
        self.change(move |tx| ids.iter().map(|id| operate::retry(tx, *id)).collect()).await
    }

    async fn run_now_all(&self, ids: Vec<JobId>) -> Result<Vec<RunNowAnswer>, StoreError> {
        check_steered(&ids)?;
        self.change(move |tx| ids.iter().map(|id| operate::run_now(tx, *id)).collect()).await
    }

    async fn rerun_all(&self, wishes: Vec<Rerun>) -> Result<Vec<RerunAnswer>, StoreError> {
        check_steered(&wishes)?;
        self.change(move |tx| wishes.iter().map(|wish| operate::rerun(tx, wish)).collect()).await
    }

    async fn delete_all(&self, ids: Vec<JobId>) -> Result<Vec<DeleteAnswer>, StoreError> {
        check_steered(&ids)?;
        self.change(move |tx| ids.iter().map(|id| operate::delete(tx, *id)).collect()).await
    }

    async fn explain(&self, id: JobId) -> Result<Option<Explanation>, StoreError> {
        self.read(move |view| explain::explain(view, id)).await
    }

    async fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        self.read(|view| queues::list(view.conn, view.now)).await
    }

    async fn put_queue(&self, name: QueueName, policy: QueuePolicy) -> Result<(), StoreError> {
        self.change(move |tx| queues::put(tx, &name, &policy)).await
    }

    async fn pause_queue(&self, name: QueueName, paused: bool) -> Result<(), StoreError> {
        self.change(move |tx| queues::pause(tx, &name, paused)).await
    }

    async fn delete_queue(&self, name: QueueName) -> Result<QueueDeletion, StoreError> {
        self.change(move |tx| queues::delete(tx, &name)).await
    }

    async fn budgets(&self) -> Result<Vec<BudgetStatus>, StoreError> {
        self.read(|view| budgets::list(view.conn, view.now)).await
    }

    async fn put_budget(&self, name: BudgetName, policy: BudgetPolicy) -> Result<(), StoreError> {
        self.change(move |tx| budgets::put(tx, &name, policy)).await
    }

    async fn delete_budget(&self, name: BudgetName) -> Result<bool, StoreError> {
        self.change(move |tx| budgets::delete(tx, &name)).await
    }

    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError> {
        self.read(|view| schedules::list(view.conn)).await
    }

    async fn put_schedule(&self, name: ScheduleName, policy: SchedulePolicy) -> Result<(), StoreError> {
        self.change(move |tx| schedules::put(tx, &name, &policy)).await
    }

    async fn delete_schedule(&self, name: ScheduleName) -> Result<bool, StoreError> {
        self.change(move |tx| schedules::delete(tx, &name)).await
    }

    async fn fire_schedules(&self) -> Result<Fired, StoreError> {
        self.add(schedules::fire).await
    }

    async fn beat(&self, worker: WorkerBeat) -> Result<(), StoreError> {
        self.change(move |tx| workers::beat(tx, &worker)).await
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        self.read(|view| workers::list(view.conn)).await
    }

    async fn forget_worker(&self, name: WorkerName) -> Result<(), StoreError> {
        self.change(move |tx| workers::forget(tx, &name)).await
    }

    async fn prune(&self) -> Result<u64, StoreError> {
        let mut pruned = 0;
        let mut cursor = Some(prune::Cursor::default());
        while let Some(from) = cursor.filter(|_| pruned < u64::from(PRUNE_MAX)) {
            let clock = Arc::clone(&self.clock);
            let jobs_max = u64::from(PRUNE_MAX) - pruned;
            let bite = self.change(move |tx| prune::bite(tx, &*clock, &from, jobs_max)).await?;
            pruned += bite.jobs;
            cursor = bite.next;
            if cursor.is_some() {
                prune::rest().await;
            }
        }
        Ok(pruned)
    }

    async fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError> {
        self.read(move |view| events::list(view.conn, &view.head, since, limit)).await
    }

    async fn act(&self, action: Action) -> Result<(), StoreError> {
        let action = action.checked()?;
        self.change(move |tx| events::act(tx, &action)).await
    }

    async fn events_end(&self) -> Result<Position, StoreError> {
        self.read(|view| events::end(view.conn, &view.head)).await
    }

    async fn audit_bite(&self, from: AuditFrom) -> Result<AuditBite, StoreError> {
        self.read(move |view| audit::audit(view.conn, from)).await
    }

    async fn now(&self) -> Result<Time, StoreError> {
        self.read(|view| Ok(view.now)).await
    }

    async fn accepts(&self) -> Result<(), StoreError> {
        self.now().await?;
        match Ballast::would_have_room(&self.path, self.ballast_bytes) {
            true => Ok(()),
            false => Err(StoreError::CannotWrite(NO_ROOM.into())),
        }
    }

    async fn risks(&self) -> Result<Vec<Risk>, StoreError> {
        let risk =
            |view: &View<'_>| Ok(incarnation::risk(&epoch::EpochNow::load(view.conn, None)?.epoch, view.now));
        let history = self.read(risk).await?;
        let disk = statvfs(Ballast::folder_of(&self.path)).ok();
        let disk = disk.and_then(|disk| {
            let all = disk.f_blocks * disk.f_frsize;
            Risk::of_disk(&self.path.display().to_string(), disk.f_bavail * disk.f_frsize, all)
        });
        Ok(history.into_iter().chain(disk).collect())
    }

    async fn epoch(&self) -> Result<EpochStatus, StoreError> {
        self.read(epoch::status).await
    }
}

#[async_trait]
impl Records for SqliteStore {
    async fn write(&self, batch: RecordBatch) -> Result<BatchAnswer, StoreError> {
        batch.checked()?;
        let adds = !batch.jobs.is_empty() || batch.writes.iter().any(|write| write.put.is_some());
        let sort = if adds { Sort::Adds } else { Sort::Changes };
        self.writer.run(sort, move |tx| records::write(tx, &batch)).await
    }

    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError> {
        check_read(&keys)?;
        self.read(move |view| records::read(view.conn, &shelf, &keys, view.now)).await
    }

    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError> {
        let scan = scan.checked()?;
        self.read(move |view| scan::scan(view.conn, &scan, view.now)).await
    }

    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError> {
        check_text("prefix", &prefix)?;
        self.read(move |view| scan::count(view.conn, &shelf, &prefix, view.now)).await
    }
}
