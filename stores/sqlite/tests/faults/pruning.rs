//! Pruning holds nobody up: it goes in bites, and whoever waits comes between two of them.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use uuid::Uuid;
use windlass_core::id::QueueName;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::store::{Source, Store};
use windlass_core::time::{Clock, Time};
use windlass_sqlite::{Options, SqliteStore};
use windlass_testkit::clock::FakeClock;

use crate::scene::{claim, done, job};

const KEPT: u64 = 1;

/// A millisecond passes with each look at it.
struct SlowClock(FakeClock);

impl Clock for SlowClock {
    fn wall(&self) -> Time {
        self.0.wall()
    }

    fn boot_ms(&self) -> u64 {
        self.0.advance(1);
        self.0.boot_ms()
    }

    fn boot_id(&self) -> Uuid {
        self.0.boot_id()
    }
}

fn jobs_in(path: &Path) -> u64 {
    let conn = Connection::open(path).expect("the file");
    let count: i64 =
        conn.query_row("SELECT count(*) FROM past WHERE state = 2", [], |row| row.get(0)).expect("a number");
    count.unsigned_abs()
}

/// Prunes finished jobs, and enqueues one as soon as that is under way; answers how many of the finished are
/// gone when the enqueue is answered.
async fn gone_before_an_enqueue(jobs: u64, clock: Arc<dyn Clock>) -> u64 {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let store = SqliteStore::open_with(&path, Options::new(clock)).await.expect("a store");
    store.enqueue((0..u128::from(jobs)).map(|at| job(at, 10)).collect()).await.expect("jobs");
    let leases = claim(&store, 1, 10_000).await;
    store.settle(leases.iter().map(done).collect()).await.expect("a settlement");
    let policy = QueuePolicy { finished_max: KEPT, ..QueuePolicy::default() };
    store.put_queue(QueueName::default(), policy).await.expect("a policy");
    assert_eq!(jobs_in(&path), jobs);

    // One task: while the number is read, no further bite is asked for.
    let (pruned, left) = tokio::join!(store.prune(), async {
        store.enqueue(vec![job(1_000_000, 10)]).await.expect("a job");
        jobs_in(&path)
    });
    assert_eq!(pruned.expect("a pruning"), jobs - KEPT, "the bites together are all of it");
    assert_eq!(jobs_in(&path), KEPT);
    jobs - left
}

#[tokio::test]
async fn an_enqueue_waits_for_a_bite_of_pruning_and_not_for_all() {
    let gone = gone_before_an_enqueue(2_000, Arc::new(FakeClock::default())).await;
    assert!((1..=1_000).contains(&gone), "{gone} jobs were deleted before it");
}

#[tokio::test]
async fn a_bite_of_pruning_ends_by_the_clock() {
    let gone = gone_before_an_enqueue(200, Arc::new(SlowClock(FakeClock::default()))).await;
    assert!((1..=20).contains(&gone), "{gone} jobs were deleted before it");
}
