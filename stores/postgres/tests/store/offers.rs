//! Claims of idle workers, made in the commit of the enqueue that brings the work.

use std::sync::{Arc, Mutex};

use windlass_core::error::StoreError;
use windlass_core::id::Key;
use windlass_core::json::Json;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::state::StateName;
use windlass_core::store::{CLAIM_MAX, ClaimAnswer, ClaimRequest, Offer, Source, Store};
use windlass_core::wake::Registration;
use windlass_postgres::PostgresStore;

use crate::scene::{Scene, job, queue, wish};

type Heard = Arc<Mutex<Vec<Result<ClaimAnswer, StoreError>>>>;

/// A worker that stands by once, with this claim.
fn stand_by(store: &PostgresStore, request: ClaimRequest) -> (Heard, Registration) {
    let heard = Heard::default();
    let ours = heard.clone();
    let waits = Mutex::new(Some(request));
    let registration = store.on_commit(Arc::new(move |_| {
        let request = waits.lock().expect("a lock").take()?;
        let ours = ours.clone();
        Some(Offer { request, answer: Box::new(move |answer| ours.lock().expect("a lock").push(answer)) })
    }));
    (heard, registration)
}

async fn state(store: &PostgresStore, n: u128) -> StateName {
    store.get(job(n).id).await.expect("get").expect("a job").state.name()
}

/// What an enqueue answers is durable with the claim of the worker that waited for it.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_claims_in_the_commit_of_the_enqueue() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    scene.watch_commits().await;
    let request = wish(1);
    let (heard, _registration) = stand_by(&store, request.clone());
    store.enqueue(vec![job(1), job(2)]).await.expect("two jobs");
    assert_eq!(scene.commits(None).await, 1, "accepted and started in one commit");
    assert_eq!(state(&store, 1).await, StateName::Running);
    assert_eq!(state(&store, 2).await, StateName::Queued);
    let given = heard.lock().expect("a lock").pop().expect("an answer").expect("leases").leases;
    assert_eq!(given.iter().map(|leased| leased.job.id).collect::<Vec<_>>(), [job(1).id]);
    // Asked again, the same claim gives the same lease.
    let again = store.claim(request).await.expect("claim").leases;
    assert_eq!(again.iter().map(|leased| leased.lease_ref()).collect::<Vec<_>>(), [given[0].lease_ref()]);
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// A claim that is refused is its own affair: the enqueue is answered, and its job waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_claim_leaves_the_enqueue_alone() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let (heard, _registration) = stand_by(&store, wish(CLAIM_MAX + 1));
    store.enqueue(vec![job(1)]).await.expect("a job");
    assert_eq!(state(&store, 1).await, StateName::Queued);
    let answer = heard.lock().expect("a lock").pop().expect("an answer");
    assert_eq!(answer.expect_err("a refusal").code(), "invalid");
}

/// An enqueue that is refused takes no claim with it: the worker hears that none was made.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_enqueue_claims_nothing() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue(vec![job(1)]).await.expect("a job");
    let (heard, _registration) = stand_by(&store, wish(1));
    let mut other = job(1);
    other.spec.payload = Json::payload("\"another\"").expect("JSON");
    let refused = store.enqueue(vec![other]).await.expect_err("another content");
    assert!(matches!(refused, StoreError::Conflict(_)), "{refused:?}");
    assert_eq!(state(&store, 1).await, StateName::Queued);
    assert!(heard.lock().expect("a lock").is_empty());
    assert_eq!(store.claim(wish(1)).await.expect("claim").leases.len(), 1);
}

/// A job with a key is claimed apart, so that keys are locked in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_keyed_job_is_not_claimed_in_its_own_commit() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let (heard, _registration) = stand_by(&store, wish(1));
    let mut keyed = job(1);
    keyed.spec.key = Some(Key::new("a").expect("a key"));
    store.enqueue(vec![keyed]).await.expect("a job");
    assert!(heard.lock().expect("a lock").is_empty());
    assert_eq!(state(&store, 1).await, StateName::Queued);
}

/// A claim that a limit bounds is not made in the commit of others: the worker is told to claim by itself, at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_bounded_claim_is_made_by_the_worker_itself() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let limit = QueuePolicy { limit: Some(1), ..QueuePolicy::default() };
    store.put_queue(queue(), limit).await.expect("a limit");
    let request = wish(1);
    let (heard, _registration) = stand_by(&store, request.clone());
    store.enqueue(vec![job(1), job(2)]).await.expect("two jobs");
    let answer = heard.lock().expect("a lock").pop().expect("an answer").expect("no error");
    assert_eq!((answer.leases.len(), answer.next_due_in_ms), (0, Some(0)));
    assert_eq!(state(&store, 1).await, StateName::Queued);
    let given = store.claim(request).await.expect("claim").leases;
    assert_eq!(given.iter().map(|leased| leased.job.id).collect::<Vec<_>>(), [job(1).id]);
}
