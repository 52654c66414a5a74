//! Many jobs that cannot run, before one that can.

use rusqlite::Connection;
use windlass_core::id::Key;
use windlass_core::job::Start;
use windlass_core::store::Store;
use windlass_testkit::clock::FakeClock;

use crate::scene::{claim, id, job, open};

const CROWD: u128 = 20_000;

/// Fault 44: jobs that wait behind a busy key, or for tomorrow, are not among
/// those that a claim looks at. (A claim reads the table "shown" and
/// the jobs that stand there, and nothing else; how long it takes is measured in `bench/`.)
#[tokio::test]
async fn fault_44_a_crowd_behind_a_key_costs_a_claim_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let store = open(&path, &FakeClock::default()).await;
    let mut first = true;
    for from in (1..=CROWD).step_by(10_000) {
        let crowd = (from..from + 10_000).map(|number| {
            let mut new = job(number, 1);
            if number % 2 == 0 {
                new.start = Start::AfterMs(86_400_000);
            } else {
                new.spec.key = Some(Key::new("shop").expect("a key"));
            }
            new
        });
        store.enqueue(crowd.collect()).await.expect("the crowd");
        if std::mem::take(&mut first) {
            assert_eq!(claim(&store, 1, 10).await.len(), 1, "one of the key runs");
        }
    }
    store.enqueue(vec![job(CROWD + 1, 1)]).await.expect("one more");
    let conn = Connection::open(&path).expect("the file");
    let ready: i64 = conn.query_row("SELECT count(*) FROM shown", [], |row| row.get(0)).expect("a count");
    assert_eq!(ready, 1, "a claim would look at {ready} jobs");
    let leases = claim(&store, 2, 10).await;
    assert_eq!(leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [id(CROWD + 1)]);
}
