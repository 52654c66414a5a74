//! What a source and a store must do. Nothing here assumes SQL, a runtime or a
//! network. The numbered promises are in `docs/store-contract.md`.
//!
//! A verb takes what it is about: a request, a batch, or a name and what is to be done with it. It says what happened, and
//! is safe to repeat with the same ids when its answer was lost. (Not `spend`, which has no id: repeated, it spends again.)

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::audit::{AuditBite, AuditFrom, FINDINGS_MAX};
use crate::eligible::Explanation;
use crate::epoch::Epoch;
use crate::error::{Invalid, StoreError};
use crate::event::{Action, Event, Position};
use crate::id::{BudgetName, JobId, Kind, QueueName, ScheduleName, StepName, WorkerName};
use crate::job::{Job, JobSpec, NewJob};
use crate::json::Json;
use crate::log::{LogPage, LogWrite};
use crate::policy::budget::BudgetPolicy;
use crate::policy::queue::QueuePolicy;
use crate::policy::schedule::{Schedule, SchedulePolicy};
pub use crate::query::WorkerBeat;
use crate::query::{Counted, JobFilter, ListRequest, Page, QueueStatus, WorkerStatus};
use crate::record::Records;
use crate::ticket::Ticket;
use crate::time::Time;
use crate::transition::Outcome;
use crate::wake::{Registered, Registration, Work};

pub use crate::policy::budget::BudgetStatus;
pub use crate::policy::schedule::{Fired, FiredRun};
pub use crate::risk::Risk;
pub use crate::steer::{
    CancelAnswer, DeleteAnswer, QueueDeletion, Rerun, RerunAnswer, RetryAnswer, RunNowAnswer, STEER_MAX,
    check_steered,
};
pub use crate::ticket::LeaseRef;

/// How many jobs one enqueue may carry.
pub const ENQUEUE_MAX: usize = 10_000;

/// Refuses new jobs that are too many, or that name one id for two contents. Every store asks this first, before it looks
/// at what is stored.
pub fn check_jobs(jobs: &[NewJob]) -> Result<(), StoreError> {
    if jobs.len() > ENQUEUE_MAX {
        return Err(Invalid::new("jobs", format!("are more than {ENQUEUE_MAX}")).into());
    }
    if jobs.is_sorted_by(|a, b| a.id < b.id) {
        return Ok(());
    }
    let mut specs: HashMap<JobId, &JobSpec> = HashMap::with_capacity(jobs.len());
    for job in jobs {
        if specs.insert(job.id, &job.spec).is_some_and(|twin| *twin != job.spec) {
            return Err(StoreError::Conflict(job.id));
        }
    }
    Ok(())
}

/// The answer of a call that asked for one job.
fn only<A>(answers: Vec<A>) -> Result<A, StoreError> {
    answers
        .into_iter()
        .next()
        .ok_or_else(|| StoreError::Broken("one job was asked for, and none is answered".to_owned()))
}

/// How many jobs one claim may ask for.
pub const CLAIM_MAX: u32 = 10_000;
/// How many bytes of payloads and steps one claim gives, unless its first job alone has more; the others stay queued.
pub const CLAIM_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How many leases one expiry marks or takes back.
pub const EXPIRE_MAX: u32 = 500;
/// How many due jobs one claim moves from "delayed" to "ready".
pub const PROMOTE_MAX: u32 = 1_000;
/// How many finished jobs one prune deletes.
pub const PRUNE_MAX: u32 = 10_000;
/// How many events one question gets.
pub const EVENTS_MAX: u32 = 1_000;
/// How many bytes the events have that one question gets, unless the first alone has more: [`Event::bytes`].
pub const EVENTS_BYTES_MAX: usize = 32 * 1024 * 1024;
/// How many events are kept. One may name a thousand jobs, so this bounds bytes, too: 320 MB at the very most.
pub const EVENTS_KEPT: u64 = 20_000;
/// How long a claim's request id is remembered.
pub const CLAIM_MEMORY_MS: i64 = 600_000;

/// A wish for work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRequest {
    /// Asked again with the same id, a claim gives the same leases.
    pub request_id: Uuid,
    /// Who asks.
    pub worker: WorkerName,
    /// From which queues.
    pub queues: Vec<QueueName>,
    /// Of which kinds; nothing means any.
    pub kinds: Option<Vec<Kind>>,
    /// How many at most.
    pub limit: u32,
    /// How long the leases last, instead of what the queues say.
    pub lease_ms: Option<u32>,
}

impl ClaimRequest {
    /// Whose request this is and what it may be given, as a digest of 64 hex digits: worker, queues and kinds, in
    /// whatever order they are named. A store keeps it with what it gave, and gives nothing again to a request
    /// of which it differs: a request id is no secret.
    pub fn asked(&self) -> String {
        let Self { request_id: _, worker, queues, kinds, limit: _, lease_ms: _ } = self;
        let queues: BTreeSet<&str> = queues.iter().map(|queue| queue.as_str()).collect();
        let kinds: Option<BTreeSet<&str>> =
            kinds.as_ref().map(|kinds| kinds.iter().map(|kind| kind.as_str()).collect());
        // Names hold no control characters, so these part them.
        let mut hash = Sha256::new();
        hash.update(worker.as_str());
        for queue in queues {
            hash.update([0]);
            hash.update(queue);
        }
        for kind in kinds.iter().flatten() {
            hash.update([1]);
            hash.update(kind);
        }
        hash.update([if kinds.is_some() { 2 } else { 3 }]);
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// What a claim gave.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClaimAnswer {
    /// The leases, in the order in which the jobs should start.
    pub leases: Vec<Leased>,
    /// In how many milliseconds a job that is held back by time alone may
    /// become free, seen from the claim; a hint that may be early.
    pub next_due_in_ms: Option<u64>,
    /// The instance of the store in its epoch; nothing where there are no epochs.
    pub instance: Option<Uuid>,
}

/// A job that a worker now holds, with its stored steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    /// The job, in the state `running`.
    pub job: Job,
    /// What the ladder says for the case that this attempt fails: the delay,
    /// or nothing when it is the last.
    pub retry_delay_ms: Option<u64>,
    /// Where the store finds the lease again, if it says so.
    pub ticket: Option<Ticket>,
}

impl Leased {
    /// What every write of this attempt names.
    pub fn lease_ref(&self) -> LeaseRef {
        LeaseRef { job_id: self.job.id, fence: self.job.fence, ticket: self.ticket }
    }
}

/// What a renewal gave. Each lease is in exactly one of the first two lists.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RenewAnswer {
    /// These are held on.
    pub renewed: Vec<JobId>,
    /// These are lost: stop their attempts.
    pub lost: Vec<JobId>,
    /// Of the renewed, these are asked to cancel.
    pub cancel_requested: Vec<JobId>,
    /// Of the renewed, these have to stand still for so many milliseconds if they stood still before: the store has lost
    /// commits, and one of these may have given the job to somebody else.
    pub still: Vec<(JobId, u64)>,
    /// The instance of the store in its epoch; nothing where there are no epochs. When it changes, all leases are
    /// renewed at once.
    pub instance: Option<Uuid>,
}

/// The output of a step, to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepWrite {
    /// By whom.
    pub lease: LeaseRef,
    /// The step.
    pub name: StepName,
    /// What it gave.
    pub output: Json,
}

/// How far a handler is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgressWrite {
    /// By whom.
    pub lease: LeaseRef,
    /// How far.
    pub progress: Json,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// By whom.
    pub lease: LeaseRef,
    /// How.
    pub outcome: Outcome,
}

/// What became of a worker's write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is durable (or was already).
    Done,
    /// The lease is lost; nothing changed.
    Lost,
    /// The job has as many steps as a job may have; nothing changed.
    TooManySteps,
}

/// What became of a wish to spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spent {
    /// It is spent, and written down.
    Granted,
    /// Not now; nothing was spent. Ask again in so many milliseconds.
    Wait {
        /// In how many.
        in_ms: u64,
    },
    /// More than the budget ever allows at once.
    Never,
}

/// What is called when there may be new work, with where it is. It must return at once.
pub type WakeFn = Arc<dyn Fn(&Work) + Send + Sync>;

/// Those that a source calls by [`Source::on_work`].
pub type WakeFns = Registered<dyn Fn(&Work) + Send + Sync>;

/// A claim that an idle worker makes at this very moment, and who hears what it gave.
pub struct Offer {
    /// The claim.
    pub request: ClaimRequest,
    /// Hears the answer, once the claim is durable. Dropped unheard, nothing was claimed, as far as anybody knows.
    pub answer: Box<dyn FnOnce(Result<ClaimAnswer, StoreError>) + Send>,
}

/// What is asked for a claim inside a commit that brings new work, with where it is. It must return at once.
pub type OfferFn = Arc<dyn Fn(&Work) -> Option<Offer> + Send + Sync>;

/// Those that a source asks by [`Source::on_commit`].
pub type OfferFns = Registered<dyn Fn(&Work) -> Option<Offer> + Send + Sync>;

/// What a source is good for beyond its verbs. It changes while the source is used: whoever listens may lose the line. So it
/// is asked for each time, and kept by nobody.
///
/// Whatever passes one on takes it apart without `..`, so that a new field demands a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Whoever is registered by [`Source::on_work`] is called now, by whatever process there is new work, a cancel, or
    /// something else that a worker waits for. Then nobody needs to ask often; asking from time to time stays the net.
    pub tells: bool,
    /// How many claims of one worker are worth having under way at once, when there is more to do than one
    /// gives: more than one where the store works on them side by side.
    pub claims_at_once: usize,
    /// Enqueues that come at the same time share a commit by themselves. Otherwise whoever calls does well to gather them.
    pub shares_commits: bool,
}

impl Capabilities {
    /// What every source can do: it has to be asked, one claim at a time, and commits each call by itself.
    pub const PLAIN: Self = Self { tells: false, claims_at_once: 1, shares_commits: false };
}

/// Where a worker claims from. An adopted table is a source and not a store.
///
/// Every verb is required, here and in [`Store`], but for those that say another in fewer words and that no store writes by
/// itself. So nothing is lost in silence by who stands around one; [`crate::decorate`] is the short way to do so.
#[async_trait]
pub trait Source: Send + Sync {
    /// Gives leases of jobs that may run, in order, and no more than asked for.
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError>;

    /// Moves the expiry of leases.
    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError>;

    /// Of these leases, the jobs that are asked to cancel. Workers ask often: it must cost no more than a read, and may
    /// tell nothing, since every renewal tells it as well.
    async fn cancels(&self, leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError>;

    /// Stores outputs of steps, and answers in the order asked.
    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError>;

    /// Notes progress, and answers in the order asked.
    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError>;

    /// Ends attempts, and answers in the order asked.
    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError>;

    /// Looks at leases that are near their end or have run out, at most [`EXPIRE_MAX`]: the first look marks one,
    /// the second takes it back ([`crate::lease`]). No other verb takes a lease.
    async fn expire(&self) -> Result<Expired, StoreError>;

    /// Spends `amount` of a budget, if it allows that now.
    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError>;

    /// Lets a budget cool down for so many milliseconds, and not shorter than it
    /// would without; 0 ends a cool-down. One that nobody defined is defined by
    /// this, without bounds.
    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError>;

    /// Registers what is called when there may be new work, or a running job is
    /// asked to cancel, until what is returned is dropped. Not being called
    /// means nothing: a worker also asks from time to time.
    fn on_work(&self, wake: WakeFn) -> Registration;

    /// Registers who may be asked for a claim inside the commit that brings new work: then a job that an idle
    /// worker waits for costs one commit until it starts, and not two. A source that cannot do that registers nobody
    /// ([`Registration::none`]): it calls by [`Source::on_work`] after the commit in any case. It ends with what is returned.
    fn on_commit(&self, offer: OfferFn) -> Registration;

    /// What it is good for beyond its verbs, at this moment.
    fn capabilities(&self) -> Capabilities;
}

/// What an expiry did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expired {
    /// The jobs whose leases were taken back.
    pub jobs: Vec<JobId>,
    /// How many leases were marked: near their end, and not renewed.
    pub marked: usize,
    /// In how many milliseconds the next look will find something to do, if no lease is renewed.
    pub next_in_ms: Option<u64>,
}

/// What became of a job that was to be enqueued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enqueued {
    /// The job that is there now.
    pub id: JobId,
    /// It was there before: by its id, or by its dedupe key.
    pub deduplicated: bool,
}

/// Whose a job is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The job.
    pub job_id: JobId,
    /// Its queue.
    pub queue: QueueName,
    /// Who ran its latest attempt.
    pub worker: Option<WorkerName>,
}

/// A source that the engine owns.
#[async_trait]
pub trait Store: Source {
    /// Accepts jobs, all or none, at most [`ENQUEUE_MAX`], and answers in the order asked.
    async fn enqueue(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError>;

    /// The records that workers keep beside their jobs; where the store can keep none, what to do instead.
    fn records(&self) -> Result<&dyn Records, StoreError>;

    /// Keeps what an attempt said, under its lease: by [`crate::log::put`], where the store keeps records.
    async fn put_log(&self, write: LogWrite) -> Result<Written, StoreError>;

    /// What the newest attempts of a job said, oldest first: by [`crate::log::read`], where the store keeps records.
    async fn logs(&self, job: JobId) -> Result<Vec<LogPage>, StoreError>;

    /// One job with all that is known of it.
    async fn get(&self, id: JobId) -> Result<Option<Job>, StoreError>;

    /// Whose these jobs are; those that are not there are left out. For whoever has to know before a
    /// remote worker may write: one question for all of them.
    async fn holders(&self, jobs: Vec<JobId>) -> Result<Vec<Holder>, StoreError>;

    /// A page of jobs, newest first.
    async fn list(&self, request: ListRequest) -> Result<Page, StoreError>;

    /// How many jobs that a filter admits are in each state, of as many as one question looks at.
    async fn count_jobs(&self, filter: JobFilter) -> Result<Counted, StoreError>;

    /// Asks for jobs to be canceled, at most [`STEER_MAX`], and answers in the order asked.
    async fn cancel_all(&self, ids: Vec<JobId>) -> Result<Vec<CancelAnswer>, StoreError>;

    /// Starts new lives of final jobs, at most [`STEER_MAX`], and answers in the order asked.
    async fn retry_all(&self, ids: Vec<JobId>) -> Result<Vec<RetryAnswer>, StoreError>;

    /// [`Store::cancel_all`] of one job.
    async fn cancel(&self, id: JobId) -> Result<CancelAnswer, StoreError> {
        only(self.cancel_all(vec![id]).await?)
    }

    /// [`Store::retry_all`] of one job.
    async fn retry(&self, id: JobId) -> Result<RetryAnswer, StoreError> {
        only(self.retry_all(vec![id]).await?)
    }

    /// Makes queued jobs due that wait for their time, at most [`STEER_MAX`], and answers in the order asked.
    async fn run_now_all(&self, ids: Vec<JobId>) -> Result<Vec<RunNowAnswer>, StoreError>;

    /// Starts new lives of final jobs from a step of theirs on, at most [`STEER_MAX`], and answers in the order asked.
    async fn rerun_all(&self, wishes: Vec<Rerun>) -> Result<Vec<RerunAnswer>, StoreError>;

    /// Takes jobs out of the store that are queued or final, at most [`STEER_MAX`], and answers in the order asked.
    async fn delete_all(&self, ids: Vec<JobId>) -> Result<Vec<DeleteAnswer>, StoreError>;

    /// [`Store::delete_all`] with what their attempts said, where the store keeps that.
    async fn delete_with_logs(&self, ids: Vec<JobId>) -> Result<Vec<DeleteAnswer>, StoreError> {
        let answers = self.delete_all(ids.clone()).await?;
        if let Ok(records) = self.records() {
            let gone =
                |(id, answer): (&JobId, &DeleteAnswer)| (*answer == DeleteAnswer::Deleted).then_some(*id);
            crate::log::forget(records, ids.iter().zip(&answers).filter_map(gone)).await?;
        }
        Ok(answers)
    }

    /// [`Store::run_now_all`] of one job.
    async fn run_now(&self, id: JobId) -> Result<RunNowAnswer, StoreError> {
        only(self.run_now_all(vec![id]).await?)
    }

    /// [`Store::rerun_all`] of one job.
    async fn rerun(&self, wish: Rerun) -> Result<RerunAnswer, StoreError> {
        only(self.rerun_all(vec![wish]).await?)
    }

    /// Why a job is not running; nothing when there is no such job.
    async fn explain(&self, id: JobId) -> Result<Option<Explanation>, StoreError>;

    /// The queues that were configured or have jobs that are not final, by name.
    async fn queues(&self) -> Result<Vec<QueueStatus>, StoreError>;

    /// Sets the policy of a queue.
    async fn put_queue(&self, name: QueueName, policy: QueuePolicy) -> Result<(), StoreError>;

    /// Pauses a queue, or lets it go on. Jobs that are running go on.
    async fn pause_queue(&self, name: QueueName, paused: bool) -> Result<(), StoreError>;

    /// Takes the policy of a queue away, and its pause. Refused while it has jobs that are not final.
    async fn delete_queue(&self, name: QueueName) -> Result<QueueDeletion, StoreError>;

    /// The budgets, by name.
    async fn budgets(&self) -> Result<Vec<BudgetStatus>, StoreError>;

    /// Sets what a budget allows; what was spent stays spent.
    async fn put_budget(&self, name: BudgetName, policy: BudgetPolicy) -> Result<(), StoreError>;

    /// Takes a budget away, with what was spent of it: jobs that name it have no bound by it any more. Answers whether it
    /// was there.
    async fn delete_budget(&self, name: BudgetName) -> Result<bool, StoreError>;

    /// The schedules, by name.
    async fn schedules(&self) -> Result<Vec<Schedule>, StoreError>;

    /// Sets a schedule. A new one begins now; one that is there goes on from where it is.
    async fn put_schedule(&self, name: ScheduleName, policy: SchedulePolicy) -> Result<(), StoreError>;

    /// Takes a schedule away. Answers whether it was there.
    async fn delete_schedule(&self, name: ScheduleName) -> Result<bool, StoreError>;

    /// Enqueues the jobs of all runs that are due, each once over the whole fleet.
    async fn fire_schedules(&self) -> Result<Fired, StoreError>;

    /// A worker says that it is alive. `started_at` and `seen_at` are the store's to fill in.
    async fn beat(&self, worker: WorkerBeat) -> Result<(), StoreError>;

    /// The workers, by name.
    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError>;

    /// A worker has ended.
    async fn forget_worker(&self, name: WorkerName) -> Result<(), StoreError>;

    /// Deletes what its retention has outlived: finished jobs by age and by
    /// number, events, remembered claims, silent workers. Answers how many
    /// jobs went, at most [`PRUNE_MAX`].
    async fn prune(&self) -> Result<u64, StoreError>;

    /// What happened after `since` (nothing: from the oldest that is kept), oldest first.
    async fn events(&self, since: Option<Position>, limit: u32) -> Result<Vec<Event>, StoreError>;

    /// Tells whoever follows the events what an operator did.
    async fn act(&self, action: Action) -> Result<(), StoreError>;

    /// The newest position, to hear only what happens from now on.
    async fn events_end(&self) -> Result<Position, StoreError>;

    /// Looks for what contradicts itself, from there on: a bite of it, within the time that a call has.
    async fn audit_bite(&self, from: AuditFrom) -> Result<AuditBite, StoreError>;

    /// What contradicts itself in the store, in sentences; empty when it is sound. For people who look for a fault: it
    /// reads everything, [`Store::audit_bite`] after [`Store::audit_bite`], until it has found [`FINDINGS_MAX`].
    async fn audit(&self) -> Result<Vec<String>, StoreError> {
        let (mut findings, mut next) = (Vec::new(), Some(AuditFrom::default()));
        while let Some(from) = next.filter(|_| findings.len() < FINDINGS_MAX) {
            let bite = self.audit_bite(from).await?;
            findings.extend(bite.findings);
            next = bite.next;
        }
        Ok(findings)
    }

    /// The time by the store's clock.
    async fn now(&self) -> Result<Time, StoreError>;

    /// Whether it would accept a job now, as far as that can be told without writing one. For whoever decides where jobs are
    /// sent to: it is asked often.
    async fn accepts(&self) -> Result<(), StoreError>;

    /// What of its set-up may lose something, or slow it down. For people; it asks the machine or the server, and
    /// may take a moment. A store that knows of nothing says nothing.
    async fn risks(&self) -> Result<Vec<Risk>, StoreError>;

    /// The epoch that the store is in.
    async fn epoch(&self) -> Result<EpochStatus, StoreError>;
}

/// The epoch of a store, and until when it holds something back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochStatus {
    /// The epoch.
    pub epoch: Epoch,
    /// Until when some queue holds back jobs that somebody in the lost history may hold; nothing when that is over.
    pub paused_until: Option<Time>,
}
