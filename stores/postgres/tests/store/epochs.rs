//! Epochs: what a promotion, a restore or a start of the server does to fences, leases, jobs in line and events. On real
//! clusters where that is what counts, and otherwise by telling the store that its history is another.

use std::sync::Arc;

use uuid::Uuid;
use windlass_core::eligible::{Explanation, Hold};
use windlass_core::epoch::FLOOR_STEP;
use windlass_core::error::StoreError;
use windlass_core::id::{BudgetName, DedupeKey, JobId, Key};
use windlass_core::job::NewJob;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::store::{ClaimRequest, LeaseRef, Source, Spent, Store, Written};
use windlass_core::time::{Clock, Time};
use windlass_core::transition::Outcome;
use windlass_postgres::{Options, PostgresStore};
use windlass_testkit::clock::FakeClock;
use windlass_testkit::conformance::id_at;
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::Server;

use crate::scene::{Scene, client, ends, job, queue, wish};

/// Tells the store that its history is another, as after a promotion.
const TURN: &str = "UPDATE windlass.epoch SET history = split_part(history, '/', 1) || '/elsewhere'";
/// As after a restore: another server.
const RESTORE: &str = "UPDATE windlass.epoch SET history = '1/' || split_part(history, '/', 2)";

async fn clocked(url: &str, clock: &FakeClock) -> Arc<PostgresStore> {
    let options = Options { clock: Some(Arc::new(clock.clone())), ..Options::default() };
    PostgresStore::connect_with(url, options).await.expect("a store")
}

/// A job whose id was made at this moment, as clients make them.
fn made_at(at: Time, n: u128) -> NewJob {
    NewJob { id: id_at(at, n), ..job(n) }
}

fn ids(leases: &[windlass_core::store::Leased]) -> Vec<JobId> {
    leases.iter().map(|leased| leased.job.id).collect()
}

/// Row B: the standby never heard of the claim. Its fence is not handed out again, and who holds it settles nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_that_lost_a_claim_hands_out_no_fence_twice() {
    let clock = FakeClock::default();
    let primary = Server::own().await;
    let standby = Server::standby_of(&primary).await;
    let store = clocked(&primary.url("postgres"), &clock).await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    eventually("the standby has the job", async || {
        let rows =
            client(&standby.url("postgres")).await.query("SELECT FROM windlass.jobs", &[]).await.ok()?;
        (rows.len() == 1).then_some(())
    })
    .await;
    standby.stop().await;
    let lost = store.claim(wish(1)).await.expect("claim");
    let position = store.events_end().await.expect("a position");
    primary.stop().await;
    standby.start().await;
    standby.promote();
    let store = clocked(&standby.url("postgres"), &clock).await;
    let epoch = store.epoch().await.expect("an epoch");
    assert_eq!((epoch.epoch.number, epoch.epoch.lossy), (2, true));
    assert_ne!(Some(epoch.epoch.instance), lost.instance);
    // Whoever holds it in the lost history can do nothing here, and nobody else gets it until that lease is over.
    let ghost: Vec<LeaseRef> = lost.leases.iter().map(|leased| leased.lease_ref()).collect();
    assert_eq!(store.settle(ends(&ghost, &Outcome::DONE)).await.expect("settle"), [Written::Lost]);
    let answer = store.claim(wish(1)).await.expect("claim");
    assert_eq!((answer.leases.len(), answer.next_due_in_ms), (0, Some(30_000)));
    let held = Explanation::Held { holds: vec![Hold::EpochPause { until: clock.wall().plus_ms(30_000) }] };
    assert_eq!(store.explain(ghost[0].job_id).await.expect("explain"), Some(held));
    assert_eq!(epoch.paused_until, Some(clock.wall().plus_ms(30_000)));
    clock.advance(30_000);
    let again = store.claim(wish(1)).await.expect("claim").leases;
    assert_eq!(again[0].job.fence, epoch.epoch.floor);
    assert!(again[0].job.fence > ghost[0].fence && again[0].job.fence < 1 << 53);
    assert_eq!(store.settle(ends(&ghost, &Outcome::DONE)).await.expect("settle"), [Written::Lost]);
    assert_eq!(
        store.settle(ends(&[again[0].lease_ref()], &Outcome::DONE)).await.expect("settle"),
        [Written::Done]
    );
    // The position of the lost history is refused, with where to go on.
    let refused = store.events(Some(position), 10).await.expect_err("another epoch");
    let StoreError::AnotherEpoch(begin) = refused else { panic!("{refused}") };
    assert!(!store.events(Some(begin), 10).await.expect("events").is_empty());
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// Row E: a dump that is restored in another cluster goes on, and whoever kept a position is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_dump_goes_on_in_another_epoch() {
    let clock = FakeClock::default();
    let (old, new) = (Server::own().await, Server::own().await);
    let store = clocked(&old.url("postgres"), &clock).await;
    store.enqueue(vec![job(1), job(2), job(3)]).await.expect("enqueue");
    let held = store.claim(wish(2)).await.expect("claim").leases;
    let before = store.events(None, 10).await.expect("events");
    new.restore(&old.dump("postgres"), "postgres");
    let url = format!("{}?replication=synchronous", new.url("postgres"));
    let restored = clocked(&url, &clock).await;
    let epoch = restored.epoch().await.expect("an epoch").epoch;
    assert_eq!((epoch.number, epoch.lossy), (2, true), "a restore loses what came after the dump");
    let StoreError::AnotherEpoch(begin) =
        restored.events(Some(before[0].position), 10).await.expect_err("another epoch")
    else {
        panic!("not refused as such")
    };
    let kept = restored.events(Some(begin), 10).await.expect("events");
    assert_eq!(kept.len(), before.len(), "each that is kept is told once more");
    // A lease that the dump knows of goes on; what is renewed stands still if it stood still.
    let leases: Vec<LeaseRef> = held.iter().map(|leased| leased.lease_ref()).collect();
    let renewed = restored.renew(leases.clone()).await.expect("renew");
    assert_eq!(renewed.renewed.len(), 2);
    assert_eq!(renewed.still, leases.iter().map(|lease| (lease.job_id, 30_000)).collect::<Vec<_>>());
    assert_eq!(renewed.instance, Some(epoch.instance));
    assert_eq!(restored.settle(ends(&leases, &Outcome::DONE)).await.expect("settle"), [Written::Done; 2]);
    clock.advance(30_000);
    assert_eq!(restored.claim(wish(5)).await.expect("claim").leases.len(), 1);
    assert_eq!(restored.audit().await.expect("audit"), Vec::<String>::new());
}

/// A dump that is restored on the server that it was made on, beside the store or in its place, and a clone of the database: no
/// start of the server and no other cluster tells of it, and none hands out a fence that the store gave since.
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_or_a_clone_on_the_same_server_is_another_epoch() {
    let clock = FakeClock::default();
    let server = Server::own().await;
    server.sql("CREATE DATABASE app").await;
    let url = format!("{}?replication=synchronous", server.url("app"));
    let store = clocked(&url, &clock).await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    let dump = server.dump("app");
    drop(store);
    server.sql("CREATE DATABASE clone TEMPLATE app").await;
    server.sql("CREATE DATABASE beside").await;
    server.restore(&dump, "beside");
    let store = clocked(&url, &clock).await;
    let lost = store.claim(wish(1)).await.expect("claim").leases;
    let position = store.events_end().await.expect("a position");
    drop(store);
    client(&server.url("app"))
        .await
        .batch_execute("DROP SCHEMA windlass CASCADE")
        .await
        .expect("nothing is left");
    server.restore(&dump, "app");
    for name in ["beside", "clone", "app"] {
        let url = format!("{}?replication=synchronous", server.url(name));
        let store = clocked(&url, &clock).await;
        let epoch = store.epoch().await.expect("an epoch").epoch;
        assert_eq!((epoch.number, epoch.lossy), (2, true), "{name}");
        assert!(epoch.floor > lost[0].job.fence, "{name}");
        let refused = store.events(Some(position), 10).await;
        assert!(matches!(refused, Err(StoreError::AnotherEpoch(_))), "{name}: {refused:?}");
        let leases: Vec<LeaseRef> = lost.iter().map(|leased| leased.lease_ref()).collect();
        assert_eq!(
            store.settle(ends(&leases, &Outcome::DONE)).await.expect("settle"),
            [Written::Lost],
            "{name}"
        );
        let same = clocked(&url, &clock).await.epoch().await.expect("an epoch").epoch;
        assert_eq!(same, epoch, "{name}: who comes next finds it so");
    }
}

/// A base backup that is recovered to a point in time goes on in another epoch, also where replication is synchronous: what was
/// committed after the point is lost, whoever has heard of it.
#[tokio::test(flavor = "multi_thread")]
async fn a_recovery_to_a_point_in_time_is_another_epoch() {
    let clock = FakeClock::default();
    let primary = Server::own().await;
    let url = |server: &Server| format!("{}?replication=synchronous", server.url("postgres"));
    let store = clocked(&url(&primary), &clock).await;
    store.enqueue(vec![job(1), job(2)]).await.expect("enqueue");
    let backup = primary.backup();
    let kept = store.claim(wish(1)).await.expect("claim").leases[0].lease_ref();
    primary.sql("SELECT pg_create_restore_point('before the accident')").await;
    let lost = store.claim(wish(1)).await.expect("claim").leases[0].lease_ref();
    store.enqueue(vec![job(3)]).await.expect("enqueue");
    let position = store.events_end().await.expect("a position");
    primary.sql("SELECT pg_switch_wal()").await;
    primary.stop().await;
    let recovered = backup.recovered_to("before the accident", &primary).await;
    let store = eventually("it takes writes", async || {
        let options = Options { clock: Some(Arc::new(clock.clone())), ..Options::default() };
        PostgresStore::connect_with(&url(&recovered), options).await.ok()
    })
    .await;
    let epoch = store.epoch().await.expect("an epoch").epoch;
    assert_eq!((epoch.number, epoch.lossy), (2, true));
    assert!(store.get(job(3).id).await.expect("get").is_none(), "what was accepted after the point is gone");
    assert_eq!(store.settle(ends(&[lost], &Outcome::DONE)).await.expect("settle"), [Written::Lost]);
    let renewed = store.renew(vec![kept]).await.expect("renew");
    assert_eq!((renewed.renewed.len(), renewed.still), (1, vec![(kept.job_id, 30_000)]));
    assert_eq!(store.settle(ends(&[kept], &Outcome::DONE)).await.expect("settle"), [Written::Done]);
    assert!(store.claim(wish(9)).await.expect("claim").leases.is_empty(), "until the lost lease is over");
    clock.advance(30_000);
    let again = store.claim(wish(9)).await.expect("claim").leases;
    assert_eq!((again.len(), again[0].job.id, again[0].job.fence), (1, lost.job_id, epoch.floor));
    assert!(epoch.floor > lost.fence);
    assert!(matches!(store.events(Some(position), 9).await, Err(StoreError::AnotherEpoch(_))));
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// A snapshot of a disk comes back with the same history: only the start of the server tells.
#[tokio::test(flavor = "multi_thread")]
async fn a_start_of_the_server_lifts_the_floor_and_nothing_else() {
    let clock = FakeClock::default();
    let server = Server::own().await;
    let store = clocked(&server.url("postgres"), &clock).await;
    store.enqueue(vec![job(1), job(2), job(3)]).await.expect("enqueue");
    let held = store.claim(wish(1)).await.expect("claim").leases;
    assert_eq!(held[0].job.fence, 1);
    let before = store.epoch().await.expect("an epoch").epoch;
    let position = store.events_end().await.expect("a position");
    server.restart().await;
    let next = eventually("it answers again", async || store.claim(wish(1)).await.ok()).await.leases;
    let after = store.epoch().await.expect("an epoch").epoch;
    assert_eq!((after.number, after.instance, after.lossy), (before.number, before.instance, false));
    assert!(after.floor >= FLOOR_STEP && next[0].job.fence == after.floor);
    assert!(store.events(Some(position), 10).await.is_ok());
    let leases = [held[0].lease_ref(), next[0].lease_ref()];
    assert_eq!(store.settle(ends(&leases, &Outcome::DONE)).await.expect("settle"), [Written::Done; 2]);
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// In a pause all start at once that nobody in the lost history can hold.
#[tokio::test]
async fn what_nobody_can_hold_starts_at_once() {
    let clock = FakeClock::default();
    let scene = Scene::new().await;
    let store = clocked(&scene.database.url(), &clock).await;
    let slots = BudgetName::new("slots").expect("a name");
    let policy = BudgetPolicy { slots: Some(5), ..BudgetPolicy::default() };
    store.put_budget(slots.clone(), policy).await.expect("a budget");
    let per_second = BudgetName::new("fast").expect("a name");
    let policy = BudgetPolicy { per_second: Some(3), ..BudgetPolicy::default() };
    store.put_budget(per_second.clone(), policy).await.expect("a budget");
    store.enqueue(vec![made_at(clock.wall(), 1)]).await.expect("enqueue");
    clock.advance(1_000);
    scene.client.batch_execute(TURN).await.expect("turn");
    let now = clock.wall();
    let (mut keyed, mut deduped, mut slotted, mut paced) =
        (made_at(now, 4), made_at(now, 5), made_at(now, 6), made_at(now, 7));
    keyed.spec.key = Some(Key::new("k").expect("a key"));
    deduped.spec.dedupe_key = Some(DedupeKey::new("d").expect("a key"));
    slotted.spec.budgets = vec![slots];
    paced.spec.budgets = vec![per_second];
    let fresh = made_at(now, 2);
    let repeated = made_at(now.plus_ms(-500), 3);
    let (free, paced_id) = (fresh.id, paced.id);
    store.enqueue(vec![fresh, repeated, keyed, deduped, slotted, paced]).await.expect("enqueue");
    // Many that are alike, of which some may be held.
    store
        .enqueue(vec![made_at(now, 8), made_at(now.plus_ms(-1), 9), made_at(now, 10)])
        .await
        .expect("enqueue");
    let started = store.claim(wish(100)).await.expect("claim");
    let expected = [free, made_at(now, 8).id, made_at(now, 10).id];
    assert_eq!(ids(&started.leases), expected, "a second that may have been used up is taken for full");
    assert!(started.leases.iter().all(|leased| leased.job.fence >= FLOOR_STEP));
    clock.advance(1_100);
    assert_eq!(ids(&store.claim(wish(100)).await.expect("claim").leases), [paced_id]);
    // What has failed since is tried again at once; what comes to a queue with a limit waits.
    let failed = Outcome::Retry { error: "x".to_owned(), when: Some(windlass_core::job::Start::Now) };
    store.settle(ends(&[started.leases[0].lease_ref()], &failed)).await.expect("settle");
    let again = store.claim(wish(100)).await.expect("claim").leases;
    assert_eq!(ids(&again), [free]);
    assert_eq!(again[0].job.fence, started.leases[0].job.fence + 1);
    let policy = QueuePolicy { limit: Some(50), ..QueuePolicy::default() };
    store.put_queue(queue(), policy).await.expect("a queue");
    store.enqueue(vec![made_at(clock.wall(), 11)]).await.expect("enqueue");
    assert_eq!(store.claim(wish(100)).await.expect("claim").leases, []);
    clock.advance(28_899);
    assert_eq!(store.claim(wish(100)).await.expect("claim").leases, []);
    clock.advance(1);
    assert_eq!(store.claim(wish(100)).await.expect("claim").leases.len(), 7);
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// By the server's own clock: what is enqueued by SQL starts at once, what a caller may have repeated waits.
#[tokio::test]
async fn an_enqueue_by_sql_need_not_wait() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    scene.client.batch_execute(TURN).await.expect("turn");
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    let row = scene.client.query_one("SELECT windlass.enqueue('k', 'null', '{\"queue\": \"q\"}')", &[]);
    let by_sql: Uuid = row.await.expect("enqueue by SQL").get(0);
    assert_eq!(ids(&store.claim(wish(100)).await.expect("claim").leases), [JobId(by_sql)]);
}

/// The pause is as long as the longest lease that was claimed lately, and no longer than a setting says.
#[tokio::test]
async fn a_pause_is_as_long_as_the_longest_lease() {
    for (setting, pause_ms) in [("", 120_000), ("?pause_max=90s", 90_000), ("?replication=synchronous", 0)] {
        let clock = FakeClock::default();
        let scene = Scene::new().await;
        let store = clocked(&format!("{}{setting}", scene.database.url()), &clock).await;
        store.enqueue(vec![job(1), job(2)]).await.expect("enqueue");
        let long = ClaimRequest { lease_ms: Some(120_000), ..wish(1) };
        let held = store.claim(long).await.expect("claim").leases[0].lease_ref();
        clock.advance(1_000);
        scene.client.batch_execute(TURN).await.expect("turn");
        let status = store.epoch().await.expect("an epoch");
        let until = (pause_ms > 0).then(|| clock.wall().plus_ms(pause_ms));
        assert_eq!(status.paused_until, until, "{setting}");
        // Its beginning counts as a renewal.
        let job = store.get(held.job_id).await.expect("get").expect("the job");
        assert_eq!(job.lease().map(|lease| lease.expires_at), Some(clock.wall().plus_ms(120_000)));
        let free = store.claim(wish(1)).await.expect("claim").leases.len();
        assert_eq!(free, usize::from(pause_ms == 0), "{setting}");
    }
    let scene = Scene::new().await;
    let clock = FakeClock::default();
    let store = clocked(&format!("{}?replication=synchronous", scene.database.url()), &clock).await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    scene.client.batch_execute(RESTORE).await.expect("turn");
    assert!(store.epoch().await.expect("an epoch").epoch.lossy, "whatever is said of promotions");
}

/// What the first program says that starts after a change of history counts for that change; what none says stays.
#[tokio::test]
async fn settings_count_for_the_epoch_that_begins_with_them() {
    for (said, lossy) in [("", false), ("?replication=asynchronous", true)] {
        let scene = Scene::new().await;
        let url = scene.database.url();
        let clock = FakeClock::default();
        drop(clocked(&format!("{url}?replication=synchronous"), &clock).await);
        scene.client.batch_execute(TURN).await.expect("turn");
        let store = clocked(&format!("{url}{said}"), &clock).await;
        let epoch = store.epoch().await.expect("an epoch").epoch;
        assert_eq!((epoch.number, epoch.lossy), (2, lossy), "{said}");
    }
}

/// A promotion that loses nothing does not end the pause after a restore that may have.
#[tokio::test]
async fn an_epoch_without_loss_keeps_the_pause_of_the_one_before() {
    let clock = FakeClock::default();
    let scene = Scene::new().await;
    let store = clocked(&format!("{}?replication=synchronous", scene.database.url()), &clock).await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    let turned = async |by: &str| {
        scene.client.batch_execute(by).await.expect("turn");
        store.epoch().await.expect("an epoch").epoch.lossy
    };
    assert!(turned(RESTORE).await);
    clock.advance(5_000);
    assert!(turned(TURN).await, "somebody may still hold what was lost");
    assert!(store.claim(wish(1)).await.expect("claim").leases.is_empty());
    clock.advance(900_000);
    assert!(!turned(TURN).await, "it is over");
}

/// A call that begins an epoch by spending finds the second full, as every other does.
#[tokio::test]
async fn a_spend_that_begins_an_epoch_finds_the_second_full() {
    let clock = FakeClock::default();
    let scene = Scene::new().await;
    let store = clocked(&scene.database.url(), &clock).await;
    let budget = BudgetName::new("fast").expect("a name");
    let policy = BudgetPolicy { per_second: Some(3), ..BudgetPolicy::default() };
    store.put_budget(budget.clone(), policy).await.expect("a budget");
    scene.client.batch_execute(TURN).await.expect("turn");
    let spent = store.spend(budget.clone(), 1).await.expect("spend");
    assert!(matches!(spent, Spent::Wait { .. }), "{spent:?}");
    clock.advance(1_100);
    assert_eq!(store.spend(budget, 1).await.expect("spend"), Spent::Granted);
}

/// Whoever has lost all that it held hears of the epoch all the same.
#[tokio::test]
async fn who_holds_nothing_any_more_hears_of_the_epoch() {
    let clock = FakeClock::default();
    let scene = Scene::new().await;
    let store = clocked(&scene.database.url(), &clock).await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    let held = store.claim(wish(1)).await.expect("claim").leases[0].lease_ref();
    store.settle(ends(&[held], &Outcome::DONE)).await.expect("settle");
    let answer = store.renew(vec![held]).await.expect("renew");
    let instance = store.epoch().await.expect("an epoch").epoch.instance;
    assert_eq!((answer.lost, answer.instance), (vec![held.job_id], Some(instance)));
}

/// A mark of another epoch is none, and a lease has its whole length in the new one.
#[tokio::test]
async fn an_epoch_takes_nobody_for_dead() {
    let clock = FakeClock::default();
    let scene = Scene::new().await;
    let store = clocked(&scene.database.url(), &clock).await;
    store.enqueue(vec![job(1), job(2)]).await.expect("enqueue");
    let held = store.claim(wish(2)).await.expect("claim").leases;
    // One of them has a row of its own.
    store.renew(vec![held[0].lease_ref()]).await.expect("renew");
    clock.advance(25_000);
    assert_eq!(store.expire().await.expect("expire").marked, 2);
    clock.advance(6_000);
    scene.client.batch_execute(TURN).await.expect("turn");
    let expired = store.expire().await.expect("expire");
    assert_eq!((expired.jobs, expired.marked), (vec![], 0));
    clock.advance(19_999);
    assert_eq!(store.expire().await.expect("expire").marked, 0);
    clock.advance(1);
    assert_eq!(store.expire().await.expect("expire").marked, 2);
    clock.advance(10_000);
    assert_eq!(store.expire().await.expect("expire").jobs.len(), 2);
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// A transaction that stays open hides its own events and no others, and what it writes is told when it commits.
#[tokio::test]
async fn a_long_transaction_silences_nobody() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let start = store.events_end().await.expect("a position");
    scene.client.batch_execute("BEGIN; SELECT windlass.enqueue('late', 'null')").await.expect("enqueue");
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    let heard = store.events(Some(start), 10).await.expect("events");
    assert_eq!(heard.len(), 1, "what is committed is told at once");
    scene.client.batch_execute("COMMIT").await.expect("commit");
    let then = store.events(Some(heard[0].position), 10).await.expect("events");
    assert_eq!(then.iter().map(|event| event.queue.as_str()).collect::<Vec<_>>(), ["default"]);
    assert!(then[0].position.follows(heard[0].position), "numbered without gaps");
}

/// Whoever comes back late sees by the numbers that events were pruned meanwhile, also those that nobody ever read.
#[tokio::test]
async fn pruned_events_leave_a_gap_that_shows() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    let first = store.events(None, 10).await.expect("events");
    let many = "INSERT INTO windlass.events (at_ms, what, queue, jobs) \
                SELECT 1, 0, 'q', '{}' FROM generate_series(1, 20005)";
    scene.client.batch_execute(many).await.expect("events");
    store.prune().await.expect("prune");
    let next = store.events(Some(first[0].position), 1).await.expect("events");
    assert_eq!(next[0].position.place, first[0].position.place + 6);
}
