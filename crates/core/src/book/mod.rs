//! All jobs together, in memory: what a store is, without the storing.
//!
//! The JSON store runs it directly; every other store is compared with it, step
//! by step, by the conformance suite. It does no I/O: time, ids and the order
//! of calls are all that decide what it answers.

pub mod admin;
pub mod claim;
pub mod epoch;
pub mod find;
mod lanes;
pub mod layout;
pub mod records;
pub mod steer;
pub mod write;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::lanes::Lanes;
use crate::epoch::Epoch;
use crate::error::{Invalid, StoreError};
use crate::event::{Action, Event, Position, What};
use crate::id::{BudgetName, DedupeKey, JobId, QueueName, RecordKey, ScheduleName, ShelfName, WorkerName};
use crate::job::{Job, NewJob};
use crate::long_leases::LongLeases;
use crate::policy::budget::Budget;
use crate::policy::queue::QueuePolicy;
use crate::policy::schedule::Schedule;
use crate::query::WorkerStatus;
use crate::record::Record;
use crate::state::State;
use crate::store::{EVENTS_KEPT, Enqueued, check_jobs};
use crate::time::Time;
use crate::transition;

/// Everything that a store keeps.
#[derive(Debug, Clone, Default)]
pub struct Book {
    jobs: BTreeMap<u64, Arc<Job>>,
    next_seq: u64,
    queues: BTreeMap<QueueName, Queue>,
    budgets: BTreeMap<BudgetName, Budget>,
    schedules: BTreeMap<ScheduleName, Schedule>,
    workers: BTreeMap<WorkerName, WorkerStatus>,
    claims: BTreeMap<Uuid, Remembered>,
    events: Vec<Event>,
    next_event: u64,
    shelves: BTreeMap<ShelfName, BTreeMap<RecordKey, Record>>,
    next_rev: u64,
    batches: BTreeMap<Uuid, RememberedBatch>,
    epoch: Epoch,
    /// The longest leases of the last day, of queues which say shorter ones now.
    long_leases: BTreeMap<QueueName, LongLeases>,
    /// For how long the epoch holds back jobs of queues, fixed when it began; those of others for as
    /// long as a lease lasts of a queue that nobody has configured.
    pauses: BTreeMap<QueueName, u32>,
    /// A setting: [`crate::epoch::PAUSE_MS_MAX`] unless it is said.
    pause_ms_max: Option<u32>,
    // What follows is found again from the jobs when a book is read.
    by_id: HashMap<JobId, u64>,
    by_dedupe: HashMap<DedupeKey, u64>,
    queued: BTreeSet<(i64, u64)>,
    running: BTreeSet<u64>,
    lanes: Lanes,
}

/// A queue that was configured or paused.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Queue {
    /// Its policy.
    pub policy: QueuePolicy,
    /// Whether it is paused.
    #[serde(default)]
    pub paused: bool,
}

/// What a claim gave, so that it can be given again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    at: Time,
    /// [`crate::store::ClaimRequest::asked`]; what was written without it is given to nobody.
    #[serde(default)]
    asked: String,
    /// The numbers of the jobs with their fences: an id may be given to another job once its own is gone, a number
    /// never. What was written with ids is given to nobody.
    #[serde(default)]
    given: Vec<(u64, u64)>,
}

/// What a batch of records was answered, so that it can be answered again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RememberedBatch {
    at: Time,
    revs: Vec<u64>,
    jobs: Vec<Enqueued>,
}

/// A book as a document: what has to be written down to get it back.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    next_seq: u64,
    next_event: u64,
    #[serde(default)]
    queues: BTreeMap<QueueName, Queue>,
    #[serde(default)]
    budgets: BTreeMap<BudgetName, Budget>,
    #[serde(default)]
    schedules: BTreeMap<ScheduleName, Schedule>,
    #[serde(default)]
    workers: BTreeMap<WorkerName, WorkerStatus>,
    #[serde(default)]
    claims: BTreeMap<Uuid, Remembered>,
    #[serde(default)]
    jobs: Vec<Arc<Job>>,
    #[serde(default)]
    events: Vec<Event>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    shelves: BTreeMap<ShelfName, Vec<Record>>,
    #[serde(default, skip_serializing_if = "is_zero")]
    next_rev: u64,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    batches: BTreeMap<Uuid, RememberedBatch>,
    #[serde(default, skip_serializing_if = "is_first")]
    epoch: Epoch,
    /// As it was written before a queue remembered more than one: the longest, and when it was claimed.
    #[serde(default, skip_serializing)]
    longest: BTreeMap<QueueName, (u32, Time)>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    long_leases: BTreeMap<QueueName, LongLeases>,
    /// Nothing when the epoch holds nothing back, or began before it was fixed for how long it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pauses: Option<BTreeMap<QueueName, u32>>,
}

fn is_first(epoch: &Epoch) -> bool {
    *epoch == Epoch::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Book {
    /// An empty book.
    pub fn new() -> Self {
        Self::default()
    }

    /// The document of this book.
    pub fn to_document(&self) -> Document {
        Document {
            next_seq: self.next_seq,
            next_event: self.next_event,
            queues: self.queues.clone(),
            budgets: self.budgets.clone(),
            schedules: self.schedules.clone(),
            workers: self.workers.clone(),
            claims: self.claims.clone(),
            jobs: self.jobs.values().cloned().collect(),
            events: self.events.clone(),
            shelves: self.shelved(),
            next_rev: self.next_rev,
            batches: self.batches.clone(),
            epoch: self.epoch,
            longest: BTreeMap::new(),
            long_leases: self.long_leases.clone(),
            pauses: self.epoch.lossy.then(|| self.pauses.clone()),
        }
    }

    /// The book of a document. Refuses one that contradicts itself.
    pub fn from_document(document: Document) -> Result<Self, Invalid> {
        let Document {
            next_seq,
            next_event,
            queues,
            budgets,
            schedules,
            workers,
            claims,
            jobs,
            events,
            shelves,
            next_rev,
            batches,
            epoch,
            longest,
            long_leases,
            pauses,
        } = document;
        let mut book = Self {
            next_seq,
            next_event,
            queues,
            budgets,
            schedules,
            workers,
            claims,
            events,
            next_rev,
            batches,
            epoch,
            long_leases,
            ..Self::default()
        };
        for (queue, (lease_ms, at)) in longest {
            book.note_lease(&queue, lease_ms, at);
        }
        book.pauses = pauses.unwrap_or_else(|| book.pauses_now());
        book.tag_events();
        book.shelve(shelves)?;
        for job in jobs {
            if job.seq >= next_seq {
                return Err(Invalid::new("document", format!("has job {} beyond its own end", job.id)));
            }
            if book.by_id.contains_key(&job.id) || book.jobs.contains_key(&job.seq) {
                return Err(Invalid::new("document", format!("has job {} twice", job.id)));
            }
            book.put(Arc::unwrap_or_clone(job));
        }
        Ok(book)
    }

    /// A book that has these jobs and nothing else, for documents that keep
    /// nothing else. Their order is the order of acceptance.
    pub fn of_jobs(jobs: Vec<Job>) -> Result<Self, Invalid> {
        let next_seq = jobs.iter().map(|job| job.seq + 1).max().unwrap_or(0);
        let jobs = jobs.into_iter().map(Arc::new).collect();
        Self::from_document(Document { next_seq, jobs, ..Document::default() })
    }

    /// How many jobs there are.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Whether there are no jobs.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// All jobs in the order of acceptance.
    pub fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values().map(Arc::as_ref)
    }

    /// The policy of a queue.
    pub fn policy(&self, queue: &QueueName) -> QueuePolicy {
        self.queues.get(queue).map(|queue| queue.policy.clone()).unwrap_or_default()
    }

    /// Accepts jobs, all or none.
    pub fn enqueue(&mut self, new: Vec<NewJob>, now: Time) -> Result<Vec<Enqueued>, StoreError> {
        check_jobs(&new)?;
        self.refuse_conflicts(&new)?;
        let mut moves = Moves::default();
        let answers = new.into_iter().map(|new| self.enqueue_one(new, now, &mut moves)).collect();
        self.note(moves, now);
        Ok(answers)
    }

    fn refuse_conflicts(&self, new: &[NewJob]) -> Result<(), StoreError> {
        let differs = |job: &&NewJob| self.job(job.id).is_some_and(|old| !old.same_content(&job.spec));
        new.iter().find(differs).map_or(Ok(()), |job| Err(StoreError::Conflict(job.id)))
    }

    fn enqueue_one(&mut self, new: NewJob, now: Time, moves: &mut Moves) -> Enqueued {
        let taken = new.spec.dedupe_key.as_ref().and_then(|key| self.by_dedupe.get(key));
        let there = self.by_id.get(&new.id).or(taken).map(|seq| self.jobs[seq].id);
        if let Some(id) = there {
            return Enqueued { id, deduplicated: true };
        }
        let policy = self.policy(&new.spec.queue);
        let job = transition::accept(new, self.next_seq, &policy, now);
        self.next_seq += 1;
        moves.add(What::Enqueued, &job);
        let id = job.id;
        self.put(job);
        Enqueued { id, deduplicated: false }
    }

    /// The job with this id.
    pub fn job(&self, id: JobId) -> Option<&Job> {
        self.by_id.get(&id).and_then(|seq| self.jobs.get(seq)).map(Arc::as_ref)
    }

    /// Writes a job and keeps the indexes true.
    fn put(&mut self, job: Job) {
        self.unindex(job.seq);
        match &job.state {
            State::Queued => drop(self.queued.insert((job.rank, job.seq))),
            State::Running(_) => drop(self.running.insert(job.seq)),
            State::Completed { .. } | State::Failed { .. } | State::Canceled { .. } => {}
        }
        self.lanes.add(&job);
        if let Some(key) = job.spec.dedupe_key.as_ref().filter(|_| !job.state.name().is_final()) {
            self.by_dedupe.insert(key.clone(), job.seq);
        }
        self.by_id.insert(job.id, job.seq);
        self.jobs.insert(job.seq, Arc::new(job));
    }

    fn remove(&mut self, seq: u64) {
        self.unindex(seq);
        if let Some(job) = self.jobs.remove(&seq) {
            self.by_id.remove(&job.id);
        }
    }

    fn unindex(&mut self, seq: u64) {
        let Some(old) = self.jobs.get(&seq) else { return };
        self.lanes.remove(old);
        self.queued.remove(&(old.rank, seq));
        self.running.remove(&seq);
        if let Some(key) = &old.spec.dedupe_key
            && self.by_dedupe.get(key) == Some(&seq)
        {
            self.by_dedupe.remove(key);
        }
    }

    /// Puts a job that has moved, or takes it out when its queue keeps no finished jobs.
    fn put_moved(&mut self, job: Job, moved: transition::Moved, moves: &mut Moves) {
        moves.add(moved.what, &job);
        let seq = job.seq;
        self.put(job);
        if moved.delete {
            self.remove(seq);
        }
    }

    fn note(&mut self, moves: Moves, now: Time) {
        for (what, queue, jobs) in moves.0 {
            self.tell(now, what, queue, jobs, None);
        }
    }

    /// Tells what an operator did to whoever follows the events.
    pub fn act(&mut self, action: Action, now: Time) -> Result<(), Invalid> {
        let action = Some(action.checked()?);
        self.tell(now, What::Acted, QueueName::default(), Vec::new(), action);
        Ok(())
    }

    fn tell(&mut self, at: Time, what: What, queue: QueueName, jobs: Vec<JobId>, action: Option<Action>) {
        self.next_event += 1;
        let position = Position { epoch: self.epoch.tag(), place: self.next_event };
        self.events.push(Event { position, at, what, queue, jobs, action });
        let surplus = self.events.len().saturating_sub(EVENTS_KEPT as usize);
        self.events.drain(..surplus);
    }
}

/// What one call moved: one event for all jobs of a queue that moved the same
/// way, in the order in which the first of them moved.
#[derive(Debug, Default)]
pub struct Moves(pub Vec<(What, QueueName, Vec<JobId>)>);

impl Moves {
    /// Adds a job that moved.
    pub fn add(&mut self, what: What, job: &Job) {
        self.add_id(what, &job.spec.queue, job.id);
    }

    /// Adds a job by its id.
    pub fn add_id(&mut self, what: What, queue: &QueueName, id: JobId) {
        let same = self.0.iter_mut().find(|(w, q, _)| *w == what && q == queue);
        match same {
            Some((_, _, jobs)) => jobs.push(id),
            None => self.0.push((what, queue.clone(), vec![id])),
        }
    }
}
