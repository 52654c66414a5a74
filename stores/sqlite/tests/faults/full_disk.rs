//! A disk without room.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use windlass_core::error::StoreError;
use windlass_core::state::StateName;
use windlass_core::store::{CancelAnswer, Source, Store, Written};
use windlass_testkit::clock::FakeClock;

use crate::audit::audit;
use crate::scene::{claim, done, id, job, open, state};
use windlass_testkit::needs;
use windlass_testkit::small_disk::SmallDisk;

/// Fault 9: the disk is full. What was accepted stays, work can be finished
/// and canceled, nothing can be added; with room again, all is as before.
#[tokio::test]
async fn fault_09_a_full_disk_is_no_deadlock() {
    if !needs::root() {
        return;
    }
    let disk = SmallDisk::mount(6 << 20);
    let spare = disk.path().join("spare");
    std::fs::write(&spare, vec![1; 2 << 20]).expect("something that can be freed");
    let path = disk.path().join("w.db");
    let store = open(&path, &FakeClock::default()).await;
    store.accepts().await.expect("room");

    let mut accepted = 0;
    let error = loop {
        match store.enqueue(vec![job(accepted + 1, 20_000)]).await {
            Ok(_) => accepted += 1,
            Err(error) => break error,
        }
        assert!(accepted < 1_000, "the disk is never full");
    };
    assert!(matches!(error, StoreError::CannotWrite(_)), "{error}");
    assert!(error.to_string().contains("room"), "{error}");
    assert!(accepted > 20, "{accepted}");
    assert_eq!(store.accepts().await.expect_err("no room").code(), "store_cannot_write");

    let leases = claim(&store, 1, 5).await;
    assert_eq!(leases.len(), 5);
    let settled = store.settle(leases.iter().map(done).collect()).await.expect("a settlement");
    assert_eq!(settled, [Written::Done; 5]);
    assert_eq!(store.cancel(id(10)).await.expect("an answer"), CancelAnswer::Canceled);
    assert!(disk.path().join("w.db-ballast").exists(), "the ballast is still aboard");

    let junk = disk.path().join("junk");
    fill(&junk);
    let leases = claim(&store, 2, 3).await;
    let settled = store.settle(leases.iter().map(done).collect()).await.expect("a settlement");
    assert_eq!(settled, [Written::Done; 3]);
    assert!(!disk.path().join("w.db-ballast").exists(), "the ballast is given up");
    let again = store.enqueue(vec![job(9_999, 1)]).await.expect_err("no room");
    assert!(matches!(again, StoreError::CannotWrite(_)), "{again}");
    assert!(store.accepts().await.is_err(), "also without its ballast");

    std::fs::remove_file(&spare).expect("room again");
    std::fs::remove_file(&junk).expect("room again");
    store.accepts().await.expect("room again");
    store.enqueue(vec![job(10_000, 1)]).await.expect("room for a job");
    assert!(disk.path().join("w.db-ballast").exists(), "the ballast is back");
    for number in 1..=accepted {
        let expected = match number {
            1..=8 => StateName::Completed,
            10 => StateName::Canceled,
            _ => StateName::Queued,
        };
        assert_eq!(state(&store, id(number)).await, expected, "{number}");
    }
    assert_eq!(store.get(id(9_999)).await.expect("an answer"), None);
    drop(store);
    audit(&path);
}

/// Takes all the room that is left.
fn fill(path: &Path) {
    let mut file = File::create(path).expect("a file");
    let bite = vec![1; 4_096];
    while file.write_all(&bite).is_ok() {}
}
