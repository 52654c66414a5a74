//! Races between calls, by the numbers of RELIABILITY.

use std::sync::Arc;

use windlass_core::error::StoreError;
use windlass_core::id::BudgetName;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::state::State;
use windlass_core::store::{LeaseRef, Source, Store, Written};
use windlass_core::transition::Outcome;
use windlass_postgres::{Options, PostgresStore};
use windlass_testkit::clock::FakeClock;

use crate::scene::{Scene, ends, job, queue, wish};

fn refs(leases: &[windlass_core::store::Leased]) -> Vec<LeaseRef> {
    leases.iter().map(|leased| leased.lease_ref()).collect()
}

/// Fault 20: callers that use up the connections do not cost a worker its lease.
#[tokio::test(flavor = "multi_thread")]
async fn fault_20_renewals_have_connections_of_their_own() {
    let mut scene = Scene::new().await;
    let options = Options { connections_max: 2, reserved_max: 1, wait_ms: 200, ..Options::default() };
    let store = scene.store_with(options).await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    let held = refs(&store.claim(wish(1)).await.expect("claim").leases);
    // Claims of a limited queue go one after the other.
    let limited = QueuePolicy { limit: Some(100), ..QueuePolicy::default() };
    store.put_queue(queue(), limited).await.expect("a limit");
    store.enqueue(vec![job(2)]).await.expect("enqueue");
    let lock = scene.client.transaction().await.expect("a transaction");
    lock.batch_execute("SELECT FROM windlass.queues FOR UPDATE").await.expect("a lock");
    let callers: Vec<_> = (0..50)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.claim(wish(1)).await })
        })
        .collect();
    let mut refused = 0;
    let mut waiting = Vec::new();
    for caller in callers {
        if waiting.len() < 2 && !caller.is_finished() {
            // Two of them have the connections and wait for the lock.
            waiting.push(caller);
            continue;
        }
        if let Err(StoreError::Busy(why)) = caller.await.expect("a caller") {
            assert!(why.contains("Nothing was changed"));
            refused += 1;
        }
        if refused == 1 {
            assert_eq!(store.renew(held.clone()).await.expect("renew").renewed, [held[0].job_id]);
            assert_eq!(store.settle(ends(&held, &Outcome::Released)).await.expect("settle"), [Written::Done]);
        }
        if refused == 40 {
            break;
        }
    }
    assert_eq!(refused, 40, "callers beyond the connections are refused");
    lock.rollback().await.expect("rollback");
    for caller in waiting {
        drop(caller.await.expect("a caller"));
    }
    assert!(store.claim(wish(1)).await.is_ok());
}

/// Fault 22: two programs open at once, and a newer schema is refused.
#[tokio::test(flavor = "multi_thread")]
async fn fault_22_one_migrates_and_a_newer_schema_is_refused() {
    let scene = Scene::new().await;
    let url = scene.database.url();
    let opening: Vec<_> = (0..6)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { PostgresStore::connect_with(&url, Options::default()).await })
        })
        .collect();
    for opened in opening {
        assert!(opened.await.expect("an opener").is_ok());
    }
    scene
        .client
        .batch_execute("INSERT INTO windlass.migrations VALUES (1000000)")
        .await
        .expect("a newer one");
    match PostgresStore::connect_with(&url, Options::default()).await {
        Err(StoreError::Schema(why)) => assert!(why.contains("1000000") && why.contains("newer"), "{why}"),
        other => panic!("a newer schema was taken: {:?}", other.err()),
    }
}

/// Fault 27: whoever takes back a lease and whoever settles it at the same
/// moment never both win.
#[tokio::test(flavor = "multi_thread")]
async fn fault_27_a_rescuer_and_a_settler_never_both_win() {
    let scene = Scene::new().await;
    let (early, late) = (FakeClock::default(), FakeClock::default());
    let (settler, rescuer) = (scene.store(Some(early)).await, scene.store(Some(late.clone())).await);
    let marker_time = FakeClock::default();
    let marker = scene.store(Some(marker_time.clone())).await;
    marker_time.advance(20_000);
    late.advance(30_000);
    for n in 1..=40 {
        settler.enqueue(vec![job(n)]).await.expect("enqueue");
        let leases = settler.claim(wish(1)).await.expect("claim").leases;
        let held = refs(&leases);
        assert_eq!(marker.expire().await.expect("a first look").marked, 1);
        let (settled, expired) = tokio::join!(settler.settle(ends(&held, &Outcome::DONE)), rescuer.expire());
        let (settled, expired) = (settled.expect("settle"), expired.expect("expire"));
        let job = settler.get(held[0].job_id).await.expect("get").expect("the job");
        match settled[0] {
            Written::Done => {
                assert!(expired.jobs.is_empty());
                assert!(matches!(job.state, State::Completed { .. }));
            }
            _ => {
                assert_eq!(expired.jobs, [job.id]);
                assert_eq!((job.state, job.crashes), (State::Queued, 1));
                rescuer.cancel(job.id).await.expect("out of the way");
            }
        }
    }
}

/// Fault 28: a renewal never revives a finished job, however the two interleave.
#[tokio::test(flavor = "multi_thread")]
async fn fault_28_a_renewal_does_not_revive() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    for n in 1..=40 {
        store.enqueue(vec![job(n)]).await.expect("enqueue");
        let held = refs(&store.claim(wish(1)).await.expect("claim").leases);
        let (settled, renewed) =
            tokio::join!(store.settle(ends(&held, &Outcome::DONE)), store.renew(held.clone()));
        assert_eq!(settled.expect("settle"), [Written::Done]);
        drop(renewed.expect("renew"));
        let job = store.get(held[0].job_id).await.expect("get").expect("the job");
        assert!(matches!(job.state, State::Completed { .. }));
        assert_eq!(store.renew(held.clone()).await.expect("renew").lost, [held[0].job_id]);
    }
}

/// Fault 40: eight claimers at once never take more than the limit of 3.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fault_40_concurrent_claimers_keep_a_limit() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let policy = QueuePolicy { limit: Some(3), ..QueuePolicy::default() };
    store.put_queue(queue(), policy).await.expect("a limit");
    store.enqueue((1..=400).map(job).collect()).await.expect("enqueue");
    let claimers: Vec<_> = (0..8)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let mut taken = 0;
                for _ in 0..30 {
                    let held = refs(&store.claim(wish(2)).await.expect("claim").leases);
                    taken += held.len();
                    let running = store.queues().await.expect("queues")[0].running;
                    assert!(running <= 3, "{running} are running");
                    store.settle(ends(&held, &Outcome::DONE)).await.expect("settle");
                }
                taken
            })
        })
        .collect();
    let mut taken = 0;
    for claimer in claimers {
        taken += claimer.await.expect("a claimer");
    }
    assert!(taken >= 30, "the limit did not stop the work: {taken}");
}

/// Fault 41: a slot that is given back twice is one slot.
#[tokio::test(flavor = "multi_thread")]
async fn fault_41_a_slot_is_not_given_back_twice() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let budget = BudgetName::new("b").expect("a budget");
    let policy = BudgetPolicy { slots: Some(1), ..BudgetPolicy::default() };
    store.put_budget(budget.clone(), policy).await.expect("a budget");
    let mut jobs: Vec<_> = (1..=4).map(job).collect();
    for job in &mut jobs {
        job.spec.budgets = vec![budget.clone()];
    }
    store.enqueue(jobs).await.expect("enqueue");
    let held = refs(&store.claim(wish(4)).await.expect("claim").leases);
    assert_eq!(held.len(), 1);
    for _ in 0..3 {
        assert_eq!(store.settle(ends(&held, &Outcome::DONE)).await.expect("settle"), [Written::Done]);
    }
    assert_eq!(store.claim(wish(4)).await.expect("claim").leases.len(), 1);
    assert_eq!(store.claim(wish(4)).await.expect("claim").leases.len(), 0);
}

/// A renewal stays on its page: none of the indexes is touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_is_a_hot_update() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue((1..=50).map(job).collect()).await.expect("enqueue");
    let held = refs(&store.claim(wish(50)).await.expect("claim").leases);
    // The updates of this very transaction: nothing has to be waited for.
    // A few of them, since what a page has no room for moves to another.
    let held = &held[..5];
    let ids: Vec<uuid::Uuid> = held.iter().map(|lease| lease.job_id.0).collect();
    let fences: Vec<i64> = held.iter().map(|lease| lease.fence as i64).collect();
    scene.client.batch_execute("VACUUM windlass.runs").await.expect("room on the pages");
    scene.client.batch_execute("BEGIN").await.expect("a transaction");
    scene
        .client
        .query("SELECT * FROM windlass.renew_1(NULL, $1, $2)", &[&ids, &fences])
        .await
        .expect("renew");
    let counted = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_all_tables \
                   WHERE relid = 'windlass.runs'::regclass";
    let row = scene.client.query_one(counted, &[]).await.expect("counters");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (5, 5));
    scene.client.batch_execute("COMMIT").await.expect("commit");
}
