//! Long lines of keys, in which jobs come, go, fail and overtake each other.

use std::collections::BTreeMap;

use windlass_core::eligible::{Explanation, Hold};
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
    assert_eq!(store.prune().await.expect("a pruning"), 0, "nothing is old");
    let left = rusqlite::Connection::open(&path).expect("the file");
    let rows: i64 = left.query_row("SELECT count(*) FROM line", [], |row| row.get(0)).expect("a count");
    assert_eq!(rows, 0, "lines that have run empty are swept");
}

/// Fault 44: who leaves a line, or comes into the midst of it, is noticed by those who pass the key on.
#[tokio::test]
async fn fault_44_a_key_is_passed_on_to_those_who_still_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let store = open(&path, &FakeClock::default()).await;
    let keyed = |number, priority| {
        let mut new = job(number, 1);
        new.spec.key = Some(Key::new("shop").expect("a key"));
        new.spec.priority = priority;
        new
    };
    store.enqueue((1..=9).map(|number| keyed(number, 0)).collect()).await.expect("jobs");
    let mut request = 0;
    let mut next = async || {
        request += 1;
        let lease = claim(&store, request, 9).await.pop()?;
        let last = store.explain(id(9)).await.expect("an answer").expect("the job");
        if let Explanation::Held { holds } = &last {
            let has = Hold::KeyBusy { key: Key::new("shop").expect("a key"), job: lease.job.id };
            assert_eq!(*holds, [has]);
        } else {
            assert_eq!(lease.job.id, id(9), "{last:?}");
        }
        let end = Settlement { lease: lease.lease_ref(), outcome: Outcome::DONE };
        assert_eq!(store.settle(vec![end]).await.expect("a settlement"), [Written::Done]);
        audit(&path);
        Some(lease.job.id.0.as_u128())
    };
    assert_eq!((next().await, next().await), (Some(1), Some(2)));
    for gone in [3, 5] {
        // The heir, and one who waits behind it.
        store.cancel(id(gone)).await.expect("a cancel");
        audit(&path);
    }
    assert_eq!(next().await, Some(4));
    store.enqueue(vec![keyed(10, 5)]).await.expect("a job that comes before the heir");
    audit(&path);
    store.enqueue(vec![keyed(11, 3)]).await.expect("a job that comes behind the first");
    audit(&path);
    let rest: [_; 6] = [next().await, next().await, next().await, next().await, next().await, next().await];
    assert_eq!(rest, [Some(10), Some(11), Some(6), Some(7), Some(8), Some(9)]);
    assert_eq!(next().await, None);
}
