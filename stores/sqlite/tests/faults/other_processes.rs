//! Other processes that have the file open.

use std::collections::HashSet;
use std::sync::Arc;

use rusqlite::Connection;
use windlass_core::error::StoreError;
use windlass_core::id::Key;
use windlass_core::job::NewJob;
use windlass_core::store::{Source, Store};
use windlass_sqlite::SqliteStore;
use windlass_testkit::clock::FakeClock;

use crate::audit::audit;
use crate::scene::{claim, done, id, job, open, options};

/// Fault 8: two that share a file work together: all is done, and nothing twice.
#[tokio::test(flavor = "multi_thread")]
async fn fault_08_two_share_a_file() {
    const JOBS: u128 = 400;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let stores = [open(&path, &clock).await, open(&path, &clock).await];
    let enqueue = stores.clone().into_iter().enumerate().map(|(at, store)| {
        tokio::spawn(async move {
            for number in (1..=JOBS).filter(|number| number % 2 == at as u128) {
                store.enqueue(vec![job(number, 10)]).await.expect("a job");
            }
        })
    });
    for task in enqueue.collect::<Vec<_>>() {
        task.await.expect("a task");
    }
    let work = stores.clone().into_iter().enumerate().map(|(at, store)| {
        tokio::spawn(async move {
            let mut ran = Vec::new();
            for request in 1.. {
                let leases = claim(&store, request * 2 + at as u128, 7).await;
                if leases.is_empty() {
                    break;
                }
                ran.extend(leases.iter().map(|lease| lease.job.id));
                store.settle(leases.iter().map(done).collect()).await.expect("a settlement");
            }
            ran
        })
    });
    let mut ran = Vec::new();
    for task in work.collect::<Vec<_>>() {
        ran.extend(task.await.expect("a task"));
    }
    assert_eq!(ran.len() as u128, JOBS);
    assert_eq!(ran.iter().collect::<HashSet<_>>().len() as u128, JOBS);
    drop(stores);
    audit(&path);
}

/// Fault 8: what one process sets, the other goes by.
#[tokio::test]
async fn fault_08_policies_reach_the_other() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let (one, two) = (open(&path, &clock).await, open(&path, &clock).await);
    one.enqueue(vec![job(1, 1), job(2, 1)]).await.expect("two jobs");
    assert_eq!(claim(&two, 1, 1).await.len(), 1);
    one.pause_queue(Default::default(), true).await.expect("a pause");
    assert!(claim(&two, 2, 1).await.is_empty());
    one.pause_queue(Default::default(), false).await.expect("an end of the pause");
    assert_eq!(claim(&two, 3, 1).await.len(), 1);
}

fn keyed(number: u128, priority: i16) -> NewJob {
    let mut new = job(number, 1);
    new.spec.key = Some(Key::new("shop").expect("a key"));
    new.spec.priority = priority;
    new
}

/// Fault 8: what one process remembers of a line, the other may have changed: it cancels the next, and puts
/// others before and behind those that wait.
#[tokio::test]
async fn fault_08_a_line_that_the_other_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let (one, two) = (open(&path, &clock).await, open(&path, &clock).await);
    one.enqueue((1..=8).map(|number| keyed(number, 0)).collect()).await.expect("jobs");
    let mut request = 0;
    let mut work = async |store: &SqliteStore| {
        request += 1;
        let leases = claim(store, request, 9).await;
        assert_eq!(leases.len(), 1, "one at a time");
        store.settle(vec![done(&leases[0])]).await.expect("a settlement");
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
        leases[0].job.id.0.as_u128()
    };
    assert_eq!((work(&one).await, work(&one).await), (1, 2));
    // 3 is the heir by now.
    two.cancel(id(3)).await.expect("a cancel");
    two.cancel(id(5)).await.expect("a cancel");
    assert_eq!((work(&one).await, work(&two).await), (4, 6));
    two.enqueue(vec![keyed(20, 9), keyed(21, 0)]).await.expect("jobs");
    assert_eq!((work(&one).await, work(&one).await, work(&two).await), (20, 7, 8));
    two.cancel(id(21)).await.expect("a cancel");
    assert!(claim(&one, 99, 9).await.is_empty());
    one.enqueue(vec![keyed(22, 0)]).await.expect("a job");
    assert_eq!(work(&one).await, 22);
    drop((one, two));
    audit(&path);
}

/// Fault 14: a process that holds the file for too long is waited for, but not
/// for ever; nothing is changed, and afterwards all is well.
#[tokio::test]
async fn fault_14_a_busy_file_is_an_error_with_an_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let mut impatient = options(&clock);
    impatient.busy_ms = 20;
    let store = SqliteStore::open_with(&path, impatient).await.expect("a store");
    let other = Connection::open(&path).expect("the file");
    other.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
    let error = store.enqueue(vec![job(1, 1)]).await.expect_err("a busy file");
    assert!(matches!(error, StoreError::Unavailable(_)) && error.is_transient(), "{error}");
    assert_eq!(store.get(id(1)).await.expect("reads go on"), None);
    other.execute_batch("COMMIT").expect("the end of it");
    store.enqueue(vec![job(1, 1)]).await.expect("a job");
}

/// Fault 14: many callers in two processes; each call is answered, and none by "busy".
#[tokio::test(flavor = "multi_thread")]
async fn fault_14_many_callers_in_two_processes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let stores = [open(&path, &clock).await, open(&path, &clock).await];
    let caller = |caller: u128| {
        let store = Arc::clone(&stores[(caller % 2) as usize]);
        tokio::spawn(async move {
            for at in 0..50 {
                store.enqueue(vec![job(1 + caller * 1_000 + at, 50)]).await.expect("a job");
            }
        })
    };
    for task in (0..8).map(caller).collect::<Vec<_>>() {
        task.await.expect("a task");
    }
    let queues = stores[0].queues().await.expect("the queues");
    assert_eq!(queues[0].queued, 400);
}
