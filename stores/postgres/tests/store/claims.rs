//! Claims behind locks, and over more gates than anybody would count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio_postgres::Client;
use uuid::Uuid;
use windlass_core::event::fitting;
use windlass_core::id::{BudgetName, Key, Kind};
use windlass_core::job::NewJob;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::store::{CancelAnswer, EVENTS_MAX, Source, Store, Written};

use windlass_core::transition::Outcome;
use windlass_postgres::PostgresStore;
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
                 AND wait_event_type = 'Lock' AND query ~ 'survey_1|claim_3'";
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

const KEYS: &str = "SELECT count(*) FROM windlass.ready WHERE key IS NOT NULL";

/// A job of another kind that has a key.
fn keyed(n: u128, kind: &str, key: &str) -> NewJob {
    let mut new = job(n);
    new.spec.kind = Kind::new(kind).expect("a kind");
    new.spec.key = Some(Key::new(key).expect("a key"));
    new
}

/// What the plain statement says of a claim: whether it is bounded, and how many jobs it gave.
async fn plainly(scene: &Scene) -> (bool, i64) {
    let claim = "SELECT bool_or(bounded), count(id) FROM windlass.claim_3(
                     NULL, gen_random_uuid(), 'w', '{q}', NULL, 10, NULL, 100, '', 1000000)";
    scene.client.batch_execute("BEGIN").await.expect("a transaction");
    let row = scene.client.query_one(claim, &[]).await.expect("a claim");
    scene.client.batch_execute("ROLLBACK").await.expect("rollback");
    (row.get(0), row.get(1))
}

/// One statement is a claim as long as nothing else bounds it: no limit, no budget that is defined, no key at two gates.
/// Where something does, it takes nothing and says so, and the claim of the store gives what core picks.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_nothing_bounds_is_one_statement() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let budget = || BudgetName::new("b").expect("a budget");
    let mut spends = job(1);
    spends.spec.budgets = vec![budget()];
    store.enqueue(vec![spends, job(2), keyed(3, "k", "a"), keyed(4, "k", "b")]).await.expect("enqueue");
    assert_eq!(plainly(&scene).await, (false, 4), "a budget that nobody defined");
    store
        .put_budget(budget(), BudgetPolicy { slots: Some(0), ..Default::default() })
        .await
        .expect("a budget");
    assert_eq!(plainly(&scene).await, (true, 0));
    store.delete_budget(budget()).await.expect("no budget");
    let limit = |limit| QueuePolicy { limit, ..QueuePolicy::default() };
    store.put_queue(queue(), limit(Some(1))).await.expect("a limit");
    assert_eq!(plainly(&scene).await, (true, 0));
    store.put_queue(queue(), limit(None)).await.expect("no limit");
    store.enqueue(vec![keyed(5, "j", "a")]).await.expect("enqueue");
    let ready: i64 = scene.client.query_one(KEYS, &[]).await.expect("a count").get(0);
    assert_eq!((ready, plainly(&scene).await), (3, (true, 0)), "a key at two gates");
    let given = store.claim(wish(10)).await.expect("claim").leases;
    let given: Vec<u128> = given.iter().map(|leased| leased.job.id.0.as_u128()).collect();
    assert_eq!(given, [1, 2, 3, 4]);
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// Who is gone between the two calls of a claim that is bounded has taken nothing, spent nothing, and holds up nobody.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_dies_between_survey_and_claim_leaves_nothing() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let budget = BudgetName::new("b").expect("a budget");
    let policy = BudgetPolicy { slots: Some(2), per_day: Some(2), ..BudgetPolicy::default() };
    store.put_budget(budget.clone(), policy).await.expect("a budget");
    let limit = QueuePolicy { limit: Some(2), ..QueuePolicy::default() };
    store.put_queue(queue(), limit).await.expect("a limit");
    let new = |n| {
        let mut new = if n > 3 { keyed(n, "k", "a") } else { job(n) };
        new.spec.budgets = vec![budget.clone()];
        new
    };
    store.enqueue((1..=5).map(new).collect()).await.expect("enqueue");
    let request = wish(5);
    let survey = "SELECT seqs FROM windlass.survey_1(NULL, $1, '', '{q}', NULL, 5, NULL, 100)";
    let mut dying = client(&scene.database.url()).await;
    let begun = dying.transaction().await.expect("a transaction");
    let heads: Vec<i64> = begun.query_one(survey, &[&request.request_id]).await.expect("a survey").get(0);
    assert_eq!(heads.len(), 4, "three jobs of one gate and one with a key of the other");
    let pid: i32 = begun.query_one("SELECT pg_backend_pid()", &[]).await.expect("its number").get(0);
    let ended: bool =
        scene.client.query_one("SELECT pg_terminate_backend($1)", &[&pid]).await.expect("an end").get(0);
    assert!(ended);
    drop(begun);
    let given = store.claim(request).await.expect("claim").leases;
    let given: Vec<u128> = given.iter().map(|leased| leased.job.id.0.as_u128()).collect();
    assert_eq!(given, [1, 2]);
    let budgets = store.budgets().await.expect("budgets");
    assert_eq!((budgets[0].slots_used, budgets[0].used.day), (2, 2));
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// Who freezes between the two calls of a claim that is bounded, and with it what bounds it, holds up the others for seconds and not
/// for as long as a call may take.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_freezes_between_survey_and_claim_is_not_waited_for() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let limit = QueuePolicy { limit: Some(2), ..QueuePolicy::default() };
    store.put_queue(queue(), limit).await.expect("a limit");
    store.enqueue((1..=3).map(job).collect()).await.expect("enqueue");
    let survey = "SELECT seqs FROM windlass.survey_1(NULL, $1, '', '{q}', NULL, 5, NULL, 100)";
    let mut frozen = client(&scene.database.url()).await;
    let begun = frozen.transaction().await.expect("a transaction");
    begun.query_one(survey, &[&Uuid::from_u128(1)]).await.expect("a survey");
    let pid: i32 = begun.query_one("SELECT pg_backend_pid()", &[]).await.expect("its number").get(0);
    let given = eventually("a claim", async || {
        store.claim(wish(5)).await.ok().map(|claimed| claimed.leases.len()).filter(|count| *count > 0)
    });
    assert_eq!(given.await, 2);
    let there = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)";
    let there: bool = scene.client.query_one(there, &[&pid]).await.expect("an answer").get(0);
    assert!(!there, "the server has given up on it");
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// Many who claim keys at several gates at once, where nothing is locked in between: each of them that gets nothing
/// while others are ready is told to ask again, so that nobody waits for a poll.
#[tokio::test(flavor = "multi_thread")]
async fn crossed_keys_are_divided_and_nobody_is_sent_away() {
    const JOBS: u128 = 120;
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let new = |n| keyed(n, if n % 2 == 0 { "k" } else { "j" }, &format!("key-{}", n / 3));
    store.enqueue((1..=JOBS).map(new).collect()).await.expect("enqueue");
    let claimers = (0..4).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut ended = 0;
            loop {
                let answer = store.claim(wish(7)).await.expect("claim");
                if answer.leases.is_empty() && answer.next_due_in_ms.is_none() {
                    return ended;
                }
                let held: Vec<_> = answer.leases.iter().map(|leased| leased.lease_ref()).collect();
                ended += held.len();
                store.settle(ends(&held, &Outcome::DONE)).await.expect("settle");
            }
        })
    });
    let mut ended = 0;
    for claimer in futures::future::join_all(claimers).await {
        ended += claimer.expect("no panic");
    }
    // Who found nothing had nothing to find: what others held at that moment, they have ended since.
    let rest = store.claim(wish(1_000)).await.expect("claim").leases.len();
    assert_eq!((ended + rest) as u128, JOBS);
    assert_eq!(rest, 0);
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// A job with a budget of its own, and with a key of its own, or none.
fn spending(n: u128, keys: bool) -> NewJob {
    let mut new = if keys { keyed(n, "k", &format!("key-{n}")) } else { job(n) };
    new.spec.budgets = vec![BudgetName::new(format!("b{n}")).expect("a budget")];
    new
}

/// How many rows of "ready" a claim of one looks at, by a connection of its own, whose counters have nothing else; and
/// whether it gave one.
async fn looked_at(scene: &Scene) -> (i64, i64) {
    let mut own = client(&scene.database.url()).await;
    let own = own.transaction().await.expect("a transaction");
    let claim = "SELECT count(id) FROM windlass.claim_3(
                     NULL, gen_random_uuid(), 'w', '{q}', NULL, 1, NULL, 100, '', 1000000)";
    let given: i64 = own.query_one(claim, &[]).await.expect("a claim").get(0);
    let looked = "SELECT (seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_all_tables \
                  WHERE schemaname = 'windlass' AND relname = 'ready'";
    let looked: i64 = own.query_one(looked, &[]).await.expect("counters").get(0);
    own.rollback().await.expect("rollback");
    (looked, given)
}

/// Budgets that submitters invent, one for each job, make no gates: a claim looks at as many rows as with few of them.
#[tokio::test(flavor = "multi_thread")]
async fn budgets_that_nobody_defined_make_no_gates() {
    for keys in [false, true] {
        let scene = Scene::new().await;
        let store = scene.store(None).await;
        store.enqueue((1..=10).map(|n| spending(n, keys)).collect()).await.expect("enqueue");
        let few = looked_at(&scene).await;
        for from in (11..6_011).step_by(1_000) {
            store.enqueue((from..from + 1_000).map(|n| spending(n, keys)).collect()).await.expect("enqueue");
        }
        let many = looked_at(&scene).await;
        let gates = "SELECT count(DISTINCT (room, gate)) FROM windlass.ready";
        let gates: i64 = scene.client.query_one(gates, &[]).await.expect("a count").get(0);
        assert_eq!((gates, many), (1, few), "keys: {keys}");
        let leases = store.claim(wish(1_000)).await.expect("claim").leases;
        let held: Vec<_> = leases.iter().map(|leased| leased.lease_ref()).collect();
        assert_eq!(
            held.iter().map(|lease| lease.job_id.0.as_u128()).collect::<Vec<_>>(),
            (1..=1_000).collect::<Vec<_>>()
        );
        let answers = store.settle(ends(&held, &Outcome::DONE)).await.expect("settle");
        assert!(answers.iter().all(|written| *written == Written::Done));
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
    }
}

/// A budget that is defined when jobs that name it are ready binds them from then on, wherever they stand, and the others
/// pass them by; when it is deleted, they are free again.
#[tokio::test(flavor = "multi_thread")]
async fn budgets_that_are_defined_late_bind() {
    for keys in [false, true] {
        let scene = Scene::new().await;
        let store = scene.store(None).await;
        let budget = || BudgetName::new("late").expect("a budget");
        let new = |n: u128| {
            let mut new = spending(n, keys);
            new.spec.budgets.extend((n <= 2_500).then(budget));
            new
        };
        store.enqueue((1..=2_600).map(new).collect()).await.expect("enqueue");
        let policy = BudgetPolicy { slots: Some(1), ..BudgetPolicy::default() };
        store.put_budget(budget(), policy).await.expect("a budget");
        let mut given = Vec::new();
        loop {
            let answer = store.claim(wish(10)).await.expect("claim");
            given.extend(answer.leases.iter().map(|leased| leased.job.id.0.as_u128()));
            if answer.leases.is_empty() && answer.next_due_in_ms.is_none() {
                break;
            }
        }
        assert_eq!(given.len(), 101, "keys: {keys}");
        assert_eq!(given.iter().filter(|n| **n <= 2_500).collect::<Vec<_>>(), [&1]);
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
        store.delete_budget(budget()).await.expect("no budget");
        let rest = store.claim(wish(2_600)).await.expect("claim").leases.len();
        assert_eq!(rest, 2_499, "keys: {keys}");
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
    }
}

/// Claims and ends jobs until all of them are over.
async fn work_off(store: Arc<PostgresStore>, over: Arc<AtomicUsize>, jobs: usize) {
    while over.load(Ordering::SeqCst) < jobs {
        let leases = store.claim(wish(5)).await.expect("claim").leases;
        let held: Vec<_> = leases.iter().map(|leased| leased.lease_ref()).collect();
        let written = store.settle(ends(&held, &Outcome::DONE)).await.expect("settle");
        assert!(written.iter().all(|written| *written == Written::Done));
        over.fetch_add(held.len(), Ordering::SeqCst);
    }
}

/// Budgets are defined and deleted while programs claim what names them, with keys and without, and others are canceled:
/// jobs move from gate to gate under their hands, and none is lost or given twice.
#[tokio::test(flavor = "multi_thread")]
async fn budgets_that_come_and_go_lose_no_job() {
    const JOBS: u128 = 600;
    let scene = Scene::new().await;
    let stores = [scene.store(None).await, scene.store(None).await];
    let budget = |n: u128| BudgetName::new(format!("b{}", n % 3)).expect("a budget");
    let new = |n: u128| {
        let mut new = if n.is_multiple_of(2) { keyed(n, "k", &format!("key-{}", n % 50)) } else { job(n) };
        new.spec.budgets = (0..n % 3).map(budget).collect();
        new
    };
    for from in (1..=JOBS).step_by(100) {
        stores[0].enqueue((from..from + 100).map(new).collect()).await.expect("enqueue");
    }
    let over = Arc::new(AtomicUsize::new(0));
    let claimers: Vec<_> = (0..4)
        .map(|n| tokio::spawn(work_off(Arc::clone(&stores[n % 2]), Arc::clone(&over), JOBS as usize)))
        .collect();
    let policy = BudgetPolicy { slots: Some(20), per_second: Some(200), ..BudgetPolicy::default() };
    let mut n = 0;
    while over.load(Ordering::SeqCst) < JOBS as usize {
        n += 1;
        stores[1].put_budget(budget(n), policy).await.expect("a budget");
        let canceled = stores[0].cancel_all(vec![job(JOBS + 1 - n).id]).await.expect("cancel");
        over.fetch_add(usize::from(canceled == [CancelAnswer::Canceled]), Ordering::SeqCst);
        stores[0].delete_budget(budget(n + 1)).await.expect("no budget");
        n %= JOBS - 1;
    }
    for claimer in claimers {
        claimer.await.expect("no panic");
    }
    assert_eq!(over.load(Ordering::SeqCst) as u128, JOBS);
    assert_eq!(stores[0].audit().await.expect("audit"), Vec::<String>::new());
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
