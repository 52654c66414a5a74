//! Small words for the tests.

use std::path::Path;
use std::sync::Arc;

use uuid::Uuid;
use windlass_core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::state::StateName;
use windlass_core::store::{ClaimRequest, Leased, Settlement, Source, Store};
use windlass_core::transition::Outcome;
use windlass_sqlite::{Options, SqliteStore};
use windlass_testkit::clock::FakeClock;

/// The options of a test.
pub fn options(clock: &FakeClock) -> Options {
    Options::new(Arc::new(clock.clone()))
}

/// A store that must open.
pub async fn open(path: &Path, clock: &FakeClock) -> Arc<SqliteStore> {
    SqliteStore::open_with(path, options(clock)).await.expect("a store that opens")
}

/// The id of a number.
pub fn id(number: u128) -> JobId {
    JobId(Uuid::from_u128(number))
}

/// A job whose payload has so many bytes.
pub fn job(number: u128, bytes: usize) -> NewJob {
    let payload = Json::payload(format!("\"{}\"", "x".repeat(bytes))).expect("a payload");
    let spec = JobSpec::new(Kind::new("k").expect("a kind"), QueueName::default(), payload);
    NewJob { id: id(number), spec, start: Start::Now }
}

/// A claim that must be answered.
pub async fn claim(store: &SqliteStore, request: u128, limit: u32) -> Vec<Leased> {
    let request = ClaimRequest {
        request_id: Uuid::from_u128(request),
        worker: WorkerName::new("w").expect("a name"),
        queues: vec![QueueName::default()],
        kinds: None,
        limit,
        lease_ms: None,
    };
    store.claim(request).await.expect("a claim").leases
}

/// A completion.
pub fn done(lease: &Leased) -> Settlement {
    Settlement { lease: lease.lease_ref(), outcome: Outcome::DONE }
}

/// The state of a job that must be there.
pub async fn state(store: &SqliteStore, id: JobId) -> StateName {
    store.get(id).await.expect("an answer").expect("the job").state.name()
}
