//! A store, a client and a worker for one test; and a handler without a worker.

use std::sync::Arc;

use uuid::Uuid;
use windlass_core::id::{QueueName, WorkerName};
use windlass_core::memory::MemoryStore;
use windlass_core::policy::queue::LEASE_MS_RANGE;
use windlass_core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_core::state::StateName;
use windlass_core::store::{ClaimRequest, Source, Store};

use super::world::TestWorld;
use crate::client::Client;
use crate::context::{Context, Home};
use crate::failure::Failure;
use crate::handler::{AsyncHandler, HandlerResult};
use crate::job::Job;
use crate::request::JobRequest;
use crate::signal::Attempt;
use crate::slots::Slots;
use crate::worker::{GRACE_DEFAULT, Worker};
use crate::world::World;

/// A store in memory, a client of it, and a world whose time jumps.
#[derive(Clone)]
pub struct TestBench {
    /// The world: clock of the store, the client and the workers.
    pub world: TestWorld,
    /// The store.
    pub store: Arc<MemoryStore>,
    /// A client.
    pub client: Client,
}

impl Default for TestBench {
    fn default() -> Self {
        Self::new()
    }
}

impl TestBench {
    /// A bench with an empty store. The same each time.
    pub fn new() -> Self {
        let world = TestWorld::new(7);
        let store = Arc::new(MemoryStore::new(Arc::new(world.clone())));
        let client = Client::in_world(store.clone(), Arc::new(world.clone()));
        Self { world, store, client }
    }

    /// A worker on this bench, yet to be given handlers.
    pub fn worker(&self) -> Worker {
        Worker::new(self.store.clone()).in_world(Arc::new(self.world.clone())).name("test")
    }
}

/// Runs one attempt of a job with its handler, and gives what it returned.
pub async fn run_job<J, M, H>(handler: H, job: J) -> Result<J::Output, Failure>
where
    J: Job,
    H: AsyncHandler<J, (), M, Future: Future<Output: HandlerResult<J::Output>>>,
{
    run_job_with((), handler, job).await
}

/// Runs one attempt of a job with a handler that wants a state.
pub async fn run_job_with<J, S, M, H>(state: S, handler: H, job: J) -> Result<J::Output, Failure>
where
    J: Job,
    H: AsyncHandler<J, S, M, Future: Future<Output: HandlerResult<J::Output>>>,
{
    let TestBench { world, store, client } = TestBench::new();
    let request = JobRequest::of(&job);
    let queue = QueueName::new(J::QUEUE)?;
    client.enqueue(request).await?;
    let claim = ClaimRequest {
        request_id: Uuid::from_u64_pair(world.chance(), world.chance()),
        worker: WorkerName::new("test")?,
        queues: vec![queue],
        kinds: None,
        limit: 1,
        // Nobody renews it.
        lease_ms: Some(*LEASE_MS_RANGE.end()),
    };
    let leased = store.claim(claim).await?.leases.pop().ok_or("the job is not due: run it with a worker")?;
    let now_ms = windlass_core::time::Clock::boot_ms(&world);
    let lease_ms = u64::from(*LEASE_MS_RANGE.end());
    let attempt = Attempt::new(leased.lease_ref(), lease_ms, leased.job.spec.timeout_ms, now_ms, now_ms);
    let grace_ms = u64::try_from(GRACE_DEFAULT.as_millis()).unwrap_or(u64::MAX);
    let slot = Slots::new(1).take();
    let home = Home { source: store.clone(), store: Some(store), world: Arc::new(world) };
    let context = Context::new(leased.job, home, Arc::new(attempt), grace_ms, slot);
    handler.call(job, context.with_state(Arc::new(state))).await.into_result()
}

/// The jobs of a type that are queued, oldest first: what was enqueued and has not begun.
///
/// # Panics
///
/// When a payload of that kind is not of that type.
pub async fn enqueued<J: Job>(store: &Arc<impl Store + ?Sized>) -> Vec<J> {
    let kind = windlass_core::id::Kind::new(J::KIND).ok();
    let filter = JobFilter { states: vec![StateName::Queued], kind, ..JobFilter::default() };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let request = ListRequest { filter: filter.clone(), limit: PAGE_MAX, after };
        let page = store.list(request).await.expect("a store in memory answers");
        let read = |json: &windlass_core::json::Json| json.read().expect("the payload is of the job's type");
        found.extend(page.jobs.iter().map(|job| read(&job.spec.payload)));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    found.reverse();
    found
}
