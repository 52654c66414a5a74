//! The stage of a conformance test: one subject, one open store, a clock, and
//! short words for what the tests say over and over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;
use windlass_core::id::{BudgetName, JobId, Kind, QueueName, ScheduleName, StepName, WorkerName};
use windlass_core::job::{Job, JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::store::{
    ClaimRequest, LeaseRef, Leased, ProgressWrite, RetryAnswer, Settlement, StepWrite, Store, WorkerBeat,
    Written,
};
use windlass_core::time::Span;
use windlass_core::transition::Outcome;

use crate::clock::FakeClock;
use crate::subject::Subject;

/// One store under test.
pub struct Scene<S> {
    /// The clock of the store.
    pub clock: FakeClock,
    /// Where the store keeps its data.
    pub subject: S,
    store: Option<Arc<dyn Store>>,
    requests: AtomicU64,
}

impl<S: Subject> Scene<S> {
    /// An empty store.
    pub async fn new() -> Self {
        let clock = FakeClock::default();
        let subject = S::create(clock.clone()).await;
        let store = Some(open(&subject).await);
        Self { clock, subject, store, requests: AtomicU64::new(1) }
    }

    /// The open store.
    pub fn store(&self) -> &Arc<dyn Store> {
        self.store.as_ref().expect("the store is open between two calls")
    }

    /// Another handle beside the first, where the store can be shared; else the same.
    pub async fn second(&self) -> Arc<dyn Store> {
        if S::SHARED { open(&self.subject).await } else { self.store().clone() }
    }

    /// Ends the store and opens it again, as a restart does.
    pub async fn reopen(&mut self) {
        self.store = None;
        self.store = Some(open(&self.subject).await);
    }

    /// Ends the store, cuts its history, and opens it again.
    pub async fn cut(&mut self) {
        self.store = None;
        self.subject.cut().await;
        self.store = Some(open(&self.subject).await);
    }

    /// Accepts jobs that are all new.
    pub async fn add(&self, jobs: Vec<NewJob>) {
        let ids: Vec<JobId> = jobs.iter().map(|job| job.id).collect();
        let answers = self.store().enqueue(jobs).await.expect("enqueue");
        for (answer, id) in answers.iter().zip(&ids) {
            assert_eq!((answer.id, answer.deduplicated), (*id, false));
        }
        assert_eq!(answers.len(), ids.len(), "one answer per job");
    }

    /// A claim of worker `w` that was never asked before.
    pub fn request(&self, queues: &[&str], limit: u32) -> ClaimRequest {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        ClaimRequest {
            request_id: Uuid::from_u128(u128::from(number) << 64),
            worker: worker("w"),
            queues: queues.iter().map(|name| queue(name)).collect(),
            kinds: None,
            limit,
            lease_ms: None,
        }
    }

    /// Claims from queue `q`.
    pub async fn claim(&self, limit: u32) -> Vec<Leased> {
        self.claim_from(&["q"], limit).await
    }

    /// Claims from some queues.
    pub async fn claim_from(&self, queues: &[&str], limit: u32) -> Vec<Leased> {
        self.store().claim(self.request(queues, limit)).await.expect("claim").leases
    }

    /// Claims the one job of queue `q` that can be claimed.
    pub async fn claim_one(&self) -> LeaseRef {
        let leases = self.claim(10).await;
        assert_eq!(leases.len(), 1, "exactly one job can be claimed");
        leases[0].lease_ref()
    }

    /// The numbers of the jobs that a claim from `q` gives.
    pub async fn claimed(&self, limit: u32) -> Vec<u128> {
        self.claim(limit).await.iter().map(|leased| number(leased.job.id)).collect()
    }

    /// Ends an attempt.
    pub async fn settle(&self, lease: LeaseRef, outcome: Outcome) -> Written {
        let answers = self.store().settle(vec![Settlement { lease, outcome }]).await.expect("settle");
        assert_eq!(answers.len(), 1, "one answer per settlement");
        answers[0]
    }

    /// Ends an attempt that is still held.
    pub async fn end(&self, lease: LeaseRef, outcome: Outcome) {
        assert_eq!(self.settle(lease, outcome).await, Written::Done);
    }

    /// Stores a step.
    pub async fn step(&self, lease: LeaseRef, name: &str, output: &str) -> Written {
        let answers = self.store().store_steps(vec![step(lease, name, output)]).await.expect("store_steps");
        assert_eq!(answers.len(), 1, "one answer per step");
        answers[0]
    }

    /// Reports progress.
    pub async fn progress(&self, lease: LeaseRef, progress: &str) -> Written {
        let report = ProgressWrite { lease, progress: json(progress) };
        self.store().progress(vec![report]).await.expect("progress")[0]
    }

    /// A job that is there.
    pub async fn job(&self, n: u128) -> Job {
        self.find(n).await.unwrap_or_else(|| panic!("job {n} is there"))
    }

    /// A job that may be there.
    pub async fn find(&self, n: u128) -> Option<Job> {
        self.store().get(id(n)).await.expect("get")
    }

    /// Starts a new life of a job that is over.
    pub async fn retried(&self, n: u128) {
        assert_eq!(self.store().retry(id(n)).await.expect("retry"), RetryAnswer::Retried);
    }

    /// Lets all leases of the default length run out and takes them back, as soon as that may be.
    pub async fn crash(&self) -> Vec<u128> {
        self.clock.advance(20_000);
        assert!(self.expired().await.is_empty(), "a first look takes nothing");
        self.clock.advance(10_000);
        self.expired().await
    }

    /// Takes back all that has run out, whenever that was, in two looks.
    pub async fn taken_back(&self) -> Vec<u128> {
        self.expired().await;
        self.clock.advance(10_000);
        self.expired().await
    }

    /// Looks at the leases; answers which were taken back.
    pub async fn expired(&self) -> Vec<u128> {
        let expired = self.store().expire().await.expect("expire");
        expired.jobs.into_iter().map(number).collect()
    }

    /// Sets the policy of queue `q`.
    pub async fn policy(&self, change: impl FnOnce(&mut QueuePolicy)) {
        let mut policy = QueuePolicy::default();
        change(&mut policy);
        self.store().put_queue(queue("q"), policy).await.expect("put_queue");
    }
}

async fn open<S: Subject>(subject: &S) -> Arc<dyn Store> {
    match subject.open().await {
        Ok(store) => store,
        Err(error) => panic!("the {} store does not open: {error}", S::NAME),
    }
}

/// The job with this number: kind `k`, queue `q`, payload `{"n":…}`.
pub fn job(n: u128) -> NewJob {
    let payload = json(&format!("{{\"n\":{n}}}"));
    NewJob { id: id(n), spec: JobSpec::new(kind("k"), queue("q"), payload), start: Start::Now }
}

/// The job with this number, changed.
pub fn job_with(n: u128, change: impl FnOnce(&mut JobSpec)) -> NewJob {
    let mut job = job(n);
    change(&mut job.spec);
    job
}

/// The job with this number, started later.
pub fn job_at(n: u128, start: Start) -> NewJob {
    NewJob { start, ..job(n) }
}

/// A step to be stored.
pub fn step(lease: LeaseRef, name: &str, output: &str) -> StepWrite {
    StepWrite { lease, name: StepName::new(name).expect("a step's name"), output: json(output) }
}

/// A worker that says it is alive and works on queue `q`.
pub fn beat_of(name: &str) -> WorkerBeat {
    WorkerBeat {
        name: worker(name),
        queues: vec![queue("q")],
        kinds: None,
        slots: 4,
        running: 1,
        version: Some("test/1.2.3".to_owned()),
        host: Some("a.machine.example".to_owned()),
    }
}

/// Failed, with retries.
pub fn retry_with(error: &str) -> Outcome {
    Outcome::Retry { error: error.to_owned(), when: None }
}

/// Failed for good.
pub fn failed(error: &str) -> Outcome {
    Outcome::Failed { error: error.to_owned() }
}

/// A ladder.
pub fn ladder(text: &str) -> windlass_core::policy::ladder::Ladder {
    text.parse().expect("a ladder")
}

/// The length of a text such as `5m`.
pub fn ms(text: &str) -> u64 {
    text.parse::<Span>().expect("a length of time").ms()
}

/// A lease of the same job with another fence.
pub fn with_fence(lease: LeaseRef, fence: u64) -> LeaseRef {
    LeaseRef { fence, ..lease }
}

#[expect(missing_docs, reason = "short words for names")]
mod names {
    use super::*;
    use windlass_core::id::{DedupeKey, Key, Label, RecordKey, ShelfName};

    pub fn id(n: u128) -> JobId {
        JobId(Uuid::from_u128(n))
    }
    pub fn number(id: JobId) -> u128 {
        id.0.as_u128()
    }
    pub fn json(text: &str) -> Json {
        Json::payload(text).expect("JSON that passes the gate")
    }
    pub fn queue(name: &str) -> QueueName {
        QueueName::new(name).expect("a queue's name")
    }
    pub fn kind(name: &str) -> Kind {
        Kind::new(name).expect("a kind")
    }
    pub fn key(name: &str) -> Option<Key> {
        Some(Key::new(name).expect("a key"))
    }
    pub fn dedupe(name: &str) -> Option<DedupeKey> {
        Some(DedupeKey::new(name).expect("a dedupe key"))
    }
    pub fn budget(name: &str) -> BudgetName {
        BudgetName::new(name).expect("a budget's name")
    }
    pub fn worker(name: &str) -> WorkerName {
        WorkerName::new(name).expect("a worker's name")
    }
    pub fn shelf(name: &str) -> ShelfName {
        ShelfName::new(name).expect("a shelf's name")
    }
    pub fn record_key(name: &str) -> RecordKey {
        RecordKey::new(name).expect("a record's key")
    }
    pub fn record_label(name: &str) -> Label {
        Label::new(name).expect("a label")
    }
    pub fn schedule(name: &str) -> ScheduleName {
        ScheduleName::new(name).expect("a schedule's name")
    }
}
pub use names::*;
