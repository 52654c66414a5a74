//! Claims of idle workers, made inside of the commit that brings the work.

use std::sync::{Arc, Mutex};

use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::id::{QueueName, WorkerName};
use windlass_core::state::StateName;
use windlass_core::store::{CLAIM_MAX, ClaimAnswer, ClaimRequest, Offer, Source, Store};
use windlass_core::wake::Registration;
use windlass_sqlite::SqliteStore;
use windlass_testkit::clock::FakeClock;

use crate::scene::{claim, id, job, open, state};

type Heard = Arc<Mutex<Vec<Result<ClaimAnswer, StoreError>>>>;

/// A worker that stands by once, with a claim of `limit` jobs.
fn stand_by(store: &SqliteStore, limit: u32) -> (Heard, Registration) {
    let heard = Heard::default();
    let ours = heard.clone();
    let waits = Mutex::new(true);
    let registration = store.on_commit(Arc::new(move |_| {
        let waited = std::mem::take(&mut *waits.lock().expect("a lock"));
        let request = ClaimRequest {
            request_id: Uuid::from_u128(77),
            worker: WorkerName::new("w").expect("a name"),
            queues: vec![QueueName::default()],
            kinds: None,
            limit,
            lease_ms: None,
        };
        let ours = ours.clone();
        let answer = Box::new(move |answer| ours.lock().expect("a lock").push(answer));
        waited.then_some(Offer { request, answer })
    }));
    (heard, registration)
}

/// What an enqueue answers is durable with the claim of the worker that waited for it.
#[tokio::test]
async fn an_idle_worker_claims_in_the_commit_of_the_enqueue() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let store = open(&path, &clock).await;
    let (heard, _registration) = stand_by(&store, 1);
    store.enqueue(vec![job(1, 1), job(2, 1)]).await.expect("two jobs");
    assert_eq!(state(&store, id(1)).await, StateName::Running);
    assert_eq!(state(&store, id(2)).await, StateName::Queued);
    drop(store);
    let answer = heard.lock().expect("a lock").pop().expect("an answer").expect("leases");
    assert_eq!(answer.leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [id(1)]);
    // Asked again after a restart, the same claim gives the same lease.
    let store = open(&path, &clock).await;
    let again = claim(&store, 77, 1).await;
    assert_eq!(
        again.iter().map(|lease| lease.lease_ref()).collect::<Vec<_>>(),
        [answer.leases[0].lease_ref()]
    );
}

/// A claim that is refused is its own affair: the enqueue is answered, and its job waits.
#[tokio::test]
async fn a_refused_claim_leaves_the_enqueue_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = open(&folder.path().join("w.db"), &FakeClock::default()).await;
    let (heard, _registration) = stand_by(&store, CLAIM_MAX + 1);
    store.enqueue(vec![job(1, 1)]).await.expect("a job");
    assert_eq!(state(&store, id(1)).await, StateName::Queued);
    let answer = heard.lock().expect("a lock").pop().expect("an answer");
    assert_eq!(answer.expect_err("a refusal").code(), "invalid");
    assert_eq!(claim(&store, 78, 10).await.len(), 1);
}
