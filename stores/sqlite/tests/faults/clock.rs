//! Clocks that jump, and machines that start anew.

use uuid::Uuid;
use windlass_core::id::{RecordKey, ShelfName};
use windlass_core::json::Json;
use windlass_core::record::{IfRev, Keep, Put, RecordBatch, RecordWrite, Scan};
use windlass_core::state::StateName;
use windlass_core::store::{Source, Store};
use windlass_core::timekeeper::STEP_MS_MIN;
use windlass_testkit::clock::FakeClock;

use crate::scene::{claim, id, job, open, state};

const TWO_HOURS_MS: i64 = 7_200_000;
const LEASE_MS: u64 = 30_000;

/// Fault 30: the wall clock jumps. No lease ends early, and none lives longer.
#[tokio::test]
async fn fault_30_leases_outlive_jumps_of_the_wall_clock() {
    for jump_ms in [TWO_HOURS_MS, -TWO_HOURS_MS] {
        let folder = tempfile::tempdir().expect("a folder");
        let clock = FakeClock::default();
        let store = open(&folder.path().join("w.db"), &clock).await;
        store.enqueue(vec![job(1, 1)]).await.expect("a job");
        let leases = claim(&store, 1, 1).await;
        let before = store.now().await.expect("the time");

        clock.jump_wall(jump_ms);
        assert_eq!(store.now().await.expect("the time"), before, "only expire follows");
        let expired = store.expire().await.expect("an expiry");
        assert!(expired.jobs.is_empty(), "{jump_ms}: {expired:?}");
        assert_eq!(expired.next_in_ms, Some(LEASE_MS / 3 * 2), "{jump_ms}");
        assert_eq!(store.now().await.expect("the time"), before.plus_ms(jump_ms));
        let renewed = store.renew(vec![leases[0].lease_ref()]).await.expect("a renewal");
        assert_eq!(renewed.renewed, [id(1)]);

        clock.advance(LEASE_MS / 3 * 2);
        assert_eq!(store.expire().await.expect("an expiry").marked, 1, "{jump_ms}");
        clock.jump_wall(-jump_ms);
        clock.advance(LEASE_MS / 3 - 1);
        assert!(store.expire().await.expect("an expiry").jobs.is_empty(), "{jump_ms}");
        clock.advance(1);
        assert_eq!(store.expire().await.expect("an expiry").jobs, [id(1)], "{jump_ms}");
    }
}

/// A jump too small to matter is not followed.
#[tokio::test]
async fn fault_30_small_drifts_are_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = FakeClock::default();
    let store = open(&folder.path().join("w.db"), &clock).await;
    let before = store.now().await.expect("the time");
    clock.jump_wall(STEP_MS_MIN - 1);
    store.expire().await.expect("an expiry");
    assert_eq!(store.now().await.expect("the time"), before);
}

/// After the clock was set back, a record that had expired is not there again.
#[tokio::test]
async fn fault_30_what_has_expired_stays_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = FakeClock::default();
    let store = open(&folder.path().join("w.db"), &clock).await;
    let shelf = || ShelfName::new("s").expect("a name");
    let put = |key: &str, ms| RecordWrite {
        shelf: shelf(),
        key: RecordKey::new(key).expect("a name"),
        if_rev: IfRev::Any,
        put: Some(Put { value: Json::null(), sort: 0, label: None, keep: Keep::ForMs(ms) }),
    };
    let writes = vec![put("short", 1_000), put("long", 86_400_000)];
    let records = store.records().expect("records");
    records.write(RecordBatch { writes, ..RecordBatch::new(Uuid::from_u128(1)) }).await.expect("a batch");
    clock.advance(1_000);
    clock.jump_wall(-TWO_HOURS_MS);
    store.expire().await.expect("an expiry");
    let there = records.scan(Scan::of(shelf())).await.expect("a page").records;
    assert_eq!(there.iter().map(|record| record.key.as_str()).collect::<Vec<_>>(), ["long"]);
}

/// After the clock was set back, what was due before is due still, in its order.
#[tokio::test]
async fn fault_30_what_was_due_stays_due() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let store = open(&path, &clock).await;
    let keyed = |number, start, priority| {
        let mut new = job(number, 1);
        new.start = start;
        new.spec.priority = priority;
        new.spec.key = Some(windlass_core::id::Key::new("shop").expect("a key"));
        new
    };
    let long_ago = windlass_core::job::Start::At(windlass_core::time::Time::MIN);
    let now = windlass_core::job::Start::Now;
    store.enqueue(vec![keyed(1, now, 9), keyed(2, long_ago, 0)]).await.expect("two jobs");
    clock.jump_wall(-TWO_HOURS_MS);
    store.expire().await.expect("an expiry");
    crate::audit::audit(&path);
    let leases = claim(&store, 1, 10).await;
    assert_eq!(leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [id(1)]);
}

/// Fault 30: jobs that come in the very commit in which the store follows the clock are counted once.
#[tokio::test]
async fn fault_30_what_comes_with_a_jump_is_counted_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let store = open(&path, &clock).await;
    store.enqueue(vec![job(1, 1)]).await.expect("a job");
    clock.jump_wall(-TWO_HOURS_MS);
    // While another has the file, both calls gather behind it.
    let other = rusqlite::Connection::open(&path).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let let_go = async { other.execute_batch("COMMIT").expect("the end of it") };
    let (enqueued, expired, ()) = tokio::join!(store.enqueue(vec![job(2, 1)]), store.expire(), let_go);
    enqueued.expect("a job");
    expired.expect("an expiry");
    crate::audit::audit(&path);
    assert_eq!(claim(&store, 1, 10).await.len(), 2);
    crate::audit::audit(&path);
}

/// Fault 32: the machine starts anew; the store's time goes on, even when the
/// wall clock was lost, and the leases of before run out.
#[tokio::test]
async fn fault_32_time_goes_on_after_a_new_start() {
    for lost_ms in [0, 86_400_000] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("w.db");
        let clock = FakeClock::default();
        let store = open(&path, &clock).await;
        clock.advance(50_000);
        store.enqueue(vec![job(1, 1)]).await.expect("a job");
        assert_eq!(claim(&store, 1, 1).await.len(), 1);
        let before = store.now().await.expect("the time");
        drop(store);

        clock.reboot();
        clock.jump_wall(-lost_ms);
        let store = open(&path, &clock).await;
        assert_eq!(store.now().await.expect("the time"), before, "{lost_ms}");
        assert_eq!(state(&store, id(1)).await, StateName::Running);
        clock.advance(LEASE_MS / 3 * 2);
        assert_eq!(store.expire().await.expect("an expiry").marked, 1, "{lost_ms}");
        clock.advance(LEASE_MS / 3);
        assert_eq!(store.expire().await.expect("an expiry").jobs, [id(1)], "{lost_ms}");
    }
}

/// Fault 32: a machine that slept: the time of sleep counts, and whoever wakes first has a wait's time to renew.
#[tokio::test]
async fn fault_32_sleep_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = FakeClock::default();
    let store = open(&folder.path().join("w.db"), &clock).await;
    store.enqueue(vec![job(1, 1)]).await.expect("a job");
    let leases = claim(&store, 1, 1).await;
    clock.advance(8 * 3_600_000);
    assert_eq!(store.expire().await.expect("an expiry").marked, 1);
    let renewed = store.renew(vec![leases[0].lease_ref()]).await.expect("a renewal");
    assert_eq!(renewed.renewed, [id(1)]);
    for (ms, taken) in [(8 * 3_600_000, 0), (LEASE_MS / 3, 1)] {
        clock.advance(ms);
        assert_eq!(store.expire().await.expect("an expiry").jobs.len(), taken);
    }
    assert_eq!(store.renew(vec![leases[0].lease_ref()]).await.expect("a renewal").lost, [id(1)]);
}
