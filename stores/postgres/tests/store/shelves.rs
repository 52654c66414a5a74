//! Records on Postgres: batches that come at once, and how they are found.

use futures::future::join_all;
use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::id::{Key, RecordKey, ShelfName};
use windlass_core::json::Json;
use windlass_core::record::{BatchAnswer, IfRev, Keep, Put, RecordBatch, RecordWrite};
use windlass_core::store::{LeaseRef, Source, Store};

use crate::scene::{Scene, job, wish};

fn batch(number: u128) -> RecordBatch {
    let put = Put { value: Json::payload("[1]").expect("JSON"), sort: 0, label: None, keep: Keep::Forever };
    let write = RecordWrite {
        shelf: ShelfName::new("s").expect("a name"),
        key: RecordKey::new(number.to_string()).expect("a name"),
        if_rev: IfRev::Absent,
        put: Some(put),
    };
    RecordBatch { writes: vec![write], ..RecordBatch::new(Uuid::from_u128(number)) }
}

fn is_done(answer: &Result<BatchAnswer, StoreError>) -> bool {
    matches!(answer, Ok(BatchAnswer::Done { .. }))
}

/// Batches that come at once share commits, and each has its own answer: a conflict, a lost lease and a job that is
/// another are no business of the others.
#[tokio::test]
async fn batches_that_come_at_once_share_commits() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let records = store.records().expect("records");
    store.enqueue(vec![job(1_000), job(1_001)]).await.expect("jobs");
    let leases = store.claim(wish(2)).await.expect("a claim").leases;
    assert!(is_done(&records.write(batch(500)).await));

    let mut batches: Vec<RecordBatch> = (0..60).map(batch).collect();
    batches[10].lease = Some(leases[0].lease_ref());
    batches[11].lease = Some(LeaseRef { fence: 9, ..leases[1].lease_ref() });
    batches[12].writes[0].key = RecordKey::new("500").expect("a name");
    batches[13].jobs = vec![job(2_000)];
    let answers = join_all(batches.into_iter().map(|batch| records.write(batch))).await;
    for (at, answer) in answers.iter().enumerate() {
        let as_it_should = match at {
            11 => matches!(answer, Ok(BatchAnswer::LeaseLost)),
            12 => matches!(answer, Ok(BatchAnswer::Conflict { write: 0, rev: Some(_) })),
            _ => is_done(answer),
        };
        assert!(as_it_should, "{at}: {answer:?}");
    }
    let commits = "SELECT count(DISTINCT xmin::text) FROM windlass.records WHERE key <> '500'";
    let commits: i64 = scene.client.query_one(commits, &[]).await.expect("a number").get(0);
    assert!(commits <= 30, "58 batches in {commits} commits");

    // One that is refused with an error spoils none of the others; one whose jobs have keys goes alone.
    let mut batches: Vec<RecordBatch> = (100..120).map(batch).collect();
    let mut another = job(2_000);
    another.spec.payload = Json::payload("7").expect("JSON");
    batches[5].jobs = vec![another];
    let mut keyed = job(3_000);
    keyed.spec.key = Some(Key::new("k").expect("a key"));
    batches[6].jobs = vec![keyed];
    let answers = join_all(batches.into_iter().map(|batch| records.write(batch))).await;
    for (at, answer) in answers.iter().enumerate() {
        match at {
            5 => assert!(matches!(answer, Err(StoreError::Conflict(_))), "{answer:?}"),
            _ => assert!(is_done(answer), "{at}: {answer:?}"),
        }
    }
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
}
