//! Claims behind locks, and over more gates than anybody would count.

use std::sync::Arc;

use tokio_postgres::Client;
use windlass_core::event::fitting;
use windlass_core::id::BudgetName;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::store::{EVENTS_MAX, Source, Store};
use windlass_core::transition::Outcome;
use windlass_testkit::eventually::eventually;

use crate::scene::{Scene, client, ends, job, queue, wish};

/// A lease begins when the claim has all that it waited for, and not when it was asked for: otherwise it may have
/// run out when it arrives, and what was counted before it seems to run beside it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_begins_after_the_locks_of_its_claim() {
    for held in ["budgets", "queues"] {
        let mut scene = Scene::new().await;
        let store = scene.store(None).await;
        let budget = BudgetName::new("b").expect("a budget");
        let policy = BudgetPolicy { slots: Some(5), per_second: Some(5), ..BudgetPolicy::default() };
        store.put_budget(budget.clone(), policy).await.expect("a budget");
        let limit = QueuePolicy { limit: Some(5), ..QueuePolicy::default() };
        store.put_queue(queue(), limit).await.expect("a limit");
        let mut new = job(1);
        new.spec.budgets = vec![budget];
        store.enqueue(vec![new]).await.expect("enqueue");
        let watcher = client(&scene.database.url()).await;
        let lock = scene.client.transaction().await.expect("a transaction");
        lock.batch_execute(&format!("SELECT FROM windlass.{held} FOR UPDATE")).await.expect("a lock");
        let claiming = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.claim(wish(1)).await }
        });
        waiting(&watcher, 1).await;
        let clock = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
        let until: i64 = lock.query_one(clock, &[]).await.expect("the time").get(0);
        lock.rollback().await.expect("rollback");
        let leases = claiming.await.expect("no panic").expect("claim").leases;
        let lease = leases[0].job.lease().expect("a lease");
        assert!(lease.started_at.ms() >= until, "began {} ms too early", until - lease.started_at.ms());
        assert_eq!(lease.expires_at.ms() - lease.started_at.ms(), i64::from(lease.lease_ms), "{held}");
    }
}

/// Until so many claims wait for a lock.
async fn waiting(watcher: &Client, claims: i64) {
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                 AND wait_event_type = 'Lock' AND query LIKE '%claim_2%'";
    let ask = async || {
        let waiting: i64 = watcher.query_one(waits, &[]).await.expect("a look").get(0);
        (waiting == claims).then_some(())
    };
    eventually("claims wait for the lock", ask).await;
}

/// A claim that is asked again, through another server, while the first still waits: both are answered the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_asked_again_while_it_waits() {
    let mut scene = Scene::new().await;
    let stores = [scene.store(None).await, scene.store(None).await];
    let limit = QueuePolicy { limit: Some(1), ..QueuePolicy::default() };
    stores[0].put_queue(queue(), limit).await.expect("a limit");
    stores[0].enqueue(vec![job(1), job(2)]).await.expect("enqueue");
    let watcher = client(&scene.database.url()).await;
    let lock = scene.client.transaction().await.expect("a transaction");
    lock.batch_execute("SELECT FROM windlass.queues FOR UPDATE").await.expect("a lock");
    let request = wish(1);
    let mut asking = Vec::new();
    for (store, before) in stores.into_iter().zip(1..) {
        let request = request.clone();
        asking.push(tokio::spawn(async move { store.claim(request).await }));
        waiting(&watcher, before).await;
    }
    lock.rollback().await.expect("rollback");
    let mut leases = Vec::new();
    for asked in asking {
        leases.push(asked.await.expect("no panic").expect("claim").leases);
    }
    assert_eq!(leases[0].len(), 1);
    assert_eq!(leases[0], leases[1]);
}

/// Budgets that submitters invent, one for each job: as many gates, and claims go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_budget_for_every_job_stops_nobody() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    for from in (0..33_000).step_by(5_500) {
        let new = |n: u128| {
            let mut new = job(n + 1);
            new.spec.budgets = vec![BudgetName::new(format!("b{n}")).expect("a budget")];
            new
        };
        store.enqueue((from..from + 5_500).map(new).collect()).await.expect("enqueue");
    }
    let leases = store.claim(wish(1_000)).await.expect("claim").leases;
    let held: Vec<_> = leases.iter().map(|leased| leased.lease_ref()).collect();
    assert_eq!(
        held.iter().map(|lease| lease.job_id.0.as_u128()).collect::<Vec<_>>(),
        (1..=1_000).collect::<Vec<_>>()
    );
    let answers = store.settle(ends(&held, &Outcome::DONE)).await.expect("settle");
    assert!(answers.iter().all(|written| *written == windlass_core::store::Written::Done));
}

/// A page of events is bounded in bytes, and the next one goes on from it.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_events_is_bounded_in_bytes() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let many = "INSERT INTO windlass.events (at_ms, what, queue, jobs) \
                SELECT 0, 0, 'q', (SELECT array_agg(gen_random_uuid()) FROM generate_series(1, 10000 + n)) \
                  FROM generate_series(1, 100) AS n";
    scene.client.batch_execute(many).await.expect("events");
    let (mut since, mut told, mut pages) = (None, 0, 0);
    loop {
        let page = store.events(since, EVENTS_MAX).await.expect("events");
        let Some(last) = page.last() else { break };
        since = Some(last.position);
        assert_eq!(fitting(page.iter()), page.len());
        told += page.len();
        pages += 1;
    }
    assert_eq!((told, pages), (100, 2));
}
