//! 25: many write at once, and nobody misses a change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use uuid::Uuid;
use windlass_core::record::{
    BatchAnswer, IfRev, Keep, Order, Put, RecordBatch, RecordWrite, Scan, ScanCursor,
};
use windlass_core::store::Store;

use super::scene::*;
use crate::subject::Subject;

/// How many write at once.
const WRITERS: usize = 6;
/// How many batches each of them writes.
const BATCHES: usize = 25;
/// On how many records.
const KEYS: usize = 7;

fn write_of(key: &str, value: usize, if_rev: IfRev) -> RecordWrite {
    let put = Put { value: json(&value.to_string()), sort: 0, label: None, keep: Keep::Forever };
    RecordWrite { shelf: shelf("s"), key: record_key(key), if_rev, put: Some(put) }
}

/// Two handles, where the store can be shared.
async fn handles<S: Subject>(scene: &Scene<S>) -> [Arc<dyn Store>; 2] {
    [scene.store().clone(), scene.second().await]
}

/// Whoever follows the revisions of a shelf sees the last write of every record, whatever was written at once and
/// in whatever order it became durable: no revision turns up behind one that was seen.
pub async fn p25_a_follower_misses_no_change<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let handles = handles(&scene).await;
    let left = Arc::new(AtomicUsize::new(WRITERS));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (store, left) = (handles[writer % 2].clone(), left.clone());
        writers.push(tokio::spawn(async move {
            for number in 0..BATCHES {
                let id = Uuid::from_u128((writer * BATCHES + number + 1) as u128);
                let mut batch = RecordBatch::new(id);
                // Each batch writes two records, and another shelf, so that they wait for each other.
                for offset in 0..2 {
                    let key = format!("k{}", (writer + number + offset) % KEYS);
                    batch.writes.push(write_of(&key, writer * BATCHES + number, IfRev::Any));
                }
                batch.writes.push(RecordWrite { shelf: shelf("t"), ..batch.writes[0].clone() });
                let answer = store.records().expect("records").write(batch).await;
                assert!(matches!(answer, Ok(BatchAnswer::Done { .. })), "{answer:?}");
            }
            left.fetch_sub(1, Ordering::SeqCst);
        }));
    }
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let (mut after, mut turn) = (None, 0);
    loop {
        let is_over = left.load(Ordering::SeqCst) == 0;
        turn += 1;
        let store = &handles[turn % 2];
        let scan = Scan { order: Order::Rev, after: after.clone(), limit: 3, ..Scan::of(shelf("s")) };
        let page = store.records().expect("records").scan(scan).await.expect("scan");
        for record in &page.records {
            seen.insert(record.key.to_string(), record.rev);
            after = Some(ScanCursor { at: record.rev.cast_signed(), key: String::new() });
        }
        if page.records.is_empty() {
            if is_over {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    for writer in writers {
        writer.await.expect("a writer");
    }
    let all = scene.store().records().expect("records").scan(Scan::of(shelf("s"))).await.expect("scan");
    let there: BTreeMap<String, u64> =
        all.records.into_iter().map(|record| (record.key.to_string(), record.rev)).collect();
    assert_eq!(there.len(), KEYS);
    assert_eq!(seen, there, "the follower saw other last revisions than there are");
}

/// Of those who change what they have read, one is first, and the others are told: a number that many count up
/// is counted up as often as somebody was told that it was.
pub async fn p25_no_change_is_lost<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let handles = handles(&scene).await;
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let store = handles[writer % 2].clone();
        writers.push(tokio::spawn(async move {
            let (mut number, mut done) = (0_u128, 0);
            while done < BATCHES {
                number += 1;
                let records = store.records().expect("records");
                let read = records.read(shelf("s"), vec![record_key("n")]).await.expect("read").remove(0);
                let (value, if_rev) = match &read {
                    None => (0, IfRev::Absent),
                    Some(record) => (record.value.read().expect("a number"), IfRev::Is(record.rev)),
                };
                // Long enough for another to read the same.
                tokio::task::yield_now().await;
                let id = Uuid::from_u128((writer as u128 + 1) << 64 | number);
                let writes = vec![write_of("n", value + 1, if_rev)];
                match records.write(RecordBatch { writes, ..RecordBatch::new(id) }).await.expect("write") {
                    BatchAnswer::Done { .. } => done += 1,
                    BatchAnswer::Conflict { rev, .. } => {
                        assert_ne!(rev, read.map(|record| record.rev), "a conflict without a reason");
                    }
                    BatchAnswer::LeaseLost => panic!("there is no lease"),
                }
            }
        }));
    }
    for writer in writers {
        writer.await.expect("a writer");
    }
    let read = scene.store().records().expect("records").read(shelf("s"), vec![record_key("n")]).await;
    let value = read.expect("read").remove(0).expect("the record").value;
    assert_eq!(value.as_str(), (WRITERS * BATCHES).to_string());
}
