//! Long lines of keys, in which jobs come, go, fail and overtake each other.

use std::collections::BTreeMap;

use windlass_core::id::{Key, Kind};
use windlass_core::job::{NewJob, Start};
use windlass_core::store::{Leased, Settlement, Source, Store, Written};
use windlass_core::transition::Outcome;
use windlass_testkit::clock::FakeClock;

use crate::audit::audit;
use crate::scene::{claim, id, job, open};

const KEYS: u128 = 3;
const ROUNDS: u128 = 400;

fn keyed(number: u128) -> NewJob {
    let mut new = job(number, 1);
    new.spec.key = Some(Key::new(format!("key-{}", number % KEYS)).expect("a key"));
    new.spec.priority = if number.is_multiple_of(11) { 5 } else { 0 };
    new.spec.kind = Kind::new(if number.is_multiple_of(7) { "other" } else { "k" }).expect("a kind");
    new
}

/// Some are completed, some fail for good, some are given back, some are parked for a while.
fn outcome(number: u128, attempt: u32) -> Outcome {
    match number % 13 {
        3 => Outcome::Failed { error: "no".into() },
        5 if attempt < 3 => Outcome::Retry { error: "again".into(), when: Some(Start::Now) },
        8 if attempt < 2 => Outcome::Retry { error: "later".into(), when: Some(Start::AfterMs(40)) },
        _ => Outcome::DONE,
    }
}

/// Fault 44: whatever comes before, between and behind those that wait, every key runs one at a time, in
/// order, and the rows that were left behind mislead nobody.
#[tokio::test]
async fn fault_44_long_lines_stay_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let store = open(&path, &clock).await;
    let mut held: BTreeMap<u128, Leased> = BTreeMap::new();
    let mut done = 0;
    for round in 1_u128.. {
        clock.advance(1);
        if round <= ROUNDS {
            store.enqueue((1..=3).map(|at| keyed(round * 3 + at)).collect()).await.expect("jobs");
        }
        if round.is_multiple_of(17) {
            store.cancel(id(round * 2)).await.expect("a cancel");
        }
        if round.is_multiple_of(19) {
            store.retry(id(round)).await.expect("a retry");
        }
        for lease in claim(&store, round, 2).await {
            let number = lease.job.id.0.as_u128();
            assert!(held.insert(number % KEYS, lease).is_none(), "{number} beside another of its key");
        }
        let ends = held.values().filter(|lease| (lease.job.seq + round as u64).is_multiple_of(2));
        let ends: Vec<Settlement> = ends
            .map(|lease| {
                let outcome = outcome(lease.job.id.0.as_u128(), lease.job.attempt);
                Settlement { lease: lease.lease_ref(), outcome }
            })
            .collect();
        held.retain(|_, lease| ends.iter().all(|end| end.lease.job_id != lease.job.id));
        let written = store.settle(ends).await.expect("a settlement");
        assert!(written.iter().all(|written| *written == Written::Done));
        done += written.len();
        if round.is_multiple_of(25) {
            audit(&path);
        }
        let queues = store.queues().await.expect("the queues");
        if round > ROUNDS && queues.iter().all(|queue| queue.queued + queue.running == 0) {
            break;
        }
        assert!(round < ROUNDS * 10, "{queues:?}");
    }
    assert!(done as u128 > ROUNDS * 3);
    audit(&path);
    let left = rusqlite::Connection::open(&path).expect("the file");
    let rows: i64 = left.query_row("SELECT count(*) FROM line", [], |row| row.get(0)).expect("a count");
    assert_eq!(rows, 0, "lines that have run empty are swept");
}
