//! The write-ahead log stays short.

use std::path::{Path, PathBuf};

use rusqlite::Connection;
use windlass_core::id::ScheduleName;
use windlass_core::policy::schedule::SchedulePolicy;
use windlass_core::query::ListRequest;
use windlass_core::store::{Source, Store};
use windlass_sqlite::SqliteStore;
use windlass_testkit::clock::FakeClock;

use crate::scene::{claim, done, id, job, open, options};

const WAL_PAGES: u32 = 100;
const PAGE_BYTES: u64 = 4_096;

fn log_bytes(path: &Path) -> u64 {
    let log = PathBuf::from(format!("{}-wal", path.display()));
    std::fs::metadata(log).map_or(0, |meta| meta.len())
}

async fn churn(store: &SqliteStore, path: &Path, rounds: std::ops::Range<u128>) -> u64 {
    let mut longest = 0;
    for round in rounds {
        store.enqueue((1..=20).map(|at| job(round * 100 + at, 500)).collect()).await.expect("jobs");
        let leases = claim(store, round + 1, 20).await;
        store.settle(leases.iter().map(done).collect()).await.expect("a settlement");
        let page = ListRequest { filter: Default::default(), limit: 200, after: None };
        store.list(page).await.expect("a page");
        longest = longest.max(log_bytes(path));
    }
    longest
}

/// Fault 13: the log stays short while our own readers read; one that a
/// foreign reader held back is cut when the reader is gone.
#[tokio::test]
async fn fault_13_the_log_stays_short() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let mut short = options(&FakeClock::default());
    short.wal_pages = WAL_PAGES;
    let store = SqliteStore::open_with(&path, short).await.expect("a store");
    let allowed = u64::from(WAL_PAGES) * PAGE_BYTES * 4;
    let longest = churn(&store, &path, 0..100).await;
    assert!(longest < allowed, "{longest} bytes, {allowed} allowed");

    let reader = Connection::open(&path).expect("the file");
    reader.execute_batch("BEGIN; SELECT count(*) FROM jobs;").expect("a reader");
    let held_back = churn(&store, &path, 100..140).await;
    assert!(held_back > allowed, "the reader holds back nothing: {held_back} bytes");
    reader.execute_batch("COMMIT").expect("the end of the reader");
    churn(&store, &path, 140..150).await;
    assert!(log_bytes(&path) < allowed, "{} bytes", log_bytes(&path));
}

/// Schedules that are not due write nothing, however many they are and however often they are looked at.
#[tokio::test]
async fn a_schedule_that_is_not_due_writes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let store = open(&path, &clock).await;
    for n in 0..50 {
        let policy = SchedulePolicy {
            cron: "0 * * * *".into(),
            zone: "UTC".into(),
            overlap: Default::default(),
            missed: Default::default(),
            paused: n % 2 == 1,
            job: job(1, 10).spec,
        };
        let name = ScheduleName::new(format!("s{n}")).expect("a name");
        store.put_schedule(name, policy).await.expect("a schedule");
    }
    clock.advance(3_600_000);
    assert_eq!(store.fire_schedules().await.expect("fired").runs.len(), 25);
    let bytes = log_bytes(&path);
    for _ in 0..20 {
        clock.advance(1_000);
        let fired = store.fire_schedules().await.expect("fired");
        assert!(fired.runs.is_empty() && fired.next_in_ms.is_some_and(|ms| ms <= 3_600_000), "{fired:?}");
    }
    assert_eq!(log_bytes(&path), bytes);
}

/// A clean stop leaves one file, and a plain copy of it is the whole store; also when another program has it open.
#[tokio::test]
async fn a_clean_stop_leaves_one_whole_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("w.db"), folder.path().join("copy.db"));
    let clock = FakeClock::default();
    let store = open(&path, &clock).await;
    store.enqueue(vec![job(1, 10)]).await.expect("a job");
    assert!(store.get(id(1)).await.expect("a read").is_some());
    assert!(log_bytes(&path) > 0);
    let other = open(&path, &clock).await;
    assert!(other.get(id(1)).await.expect("a read").is_some());
    drop(store);
    assert_eq!(log_bytes(&path), 0);
    drop(other);
    assert!(!folder.path().join("w.db-wal").exists());
    std::fs::copy(&path, &copy).expect("a copy");
    assert!(open(&copy, &clock).await.get(id(1)).await.expect("a read").is_some());
}
