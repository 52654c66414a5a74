//! Records in the document: how many, in which form, and files of before.

use std::sync::Arc;

use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::id::{RecordKey, ShelfName};
use windlass_core::json::Json;
use windlass_core::record::{BatchAnswer, IfRev, Keep, Put, RecordBatch, RecordWrite};
use windlass_core::store::{Source, Store};
use windlass_json::{JsonStore, Options};
use windlass_testkit::conformance::scene::{id, job};

use super::opening::Foreign;
use super::{Place, read, write};

fn record(key: &str, put: bool) -> RecordWrite {
    let value = Json::payload(format!("{{\"key\":\"{key}\"}}")).expect("JSON");
    let put = put.then_some(Put { value, sort: 0, label: None, keep: Keep::Forever });
    let (shelf, key) = (ShelfName::new("s").expect("a name"), RecordKey::new(key).expect("a name"));
    RecordWrite { shelf, key, if_rev: IfRev::Any, put }
}

async fn put(store: &JsonStore, number: u128, writes: Vec<RecordWrite>) -> Result<BatchAnswer, StoreError> {
    store.records()?.write(RecordBatch { writes, ..RecordBatch::new(Uuid::from_u128(number)) }).await
}

async fn there(store: &JsonStore, key: &str) -> bool {
    let keys = vec![RecordKey::new(key).expect("a name")];
    let shelf = ShelfName::new("s").expect("a name");
    store.records().expect("records").read(shelf, keys).await.expect("read")[0].is_some()
}

/// Fault 7: above its limit a store refuses new records, whole batches, and says so.
#[tokio::test]
async fn fault_7_records_have_a_limit() {
    let place = Place::new();
    let options = Options { records_max: 2, ..place.options() };
    let store = JsonStore::open_with(place.file(), options).await.expect("the store opens");
    put(&store, 1, vec![record("a", true)]).await.expect("write");
    let error = put(&store, 2, vec![record("b", true), record("c", true)]).await.expect_err("a refusal");
    assert!(matches!(&error, StoreError::Full(why) if why.contains("SQLite")), "{error}");
    assert!(!there(&store, "b").await, "all or none");
    put(&store, 3, vec![record("b", true)]).await.expect("write");
    put(&store, 4, vec![record("a", true)]).await.expect("what is there already takes no room");
    put(&store, 5, vec![record("a", false), record("c", true)]).await.expect("one goes, one comes");
    assert!(matches!(put(&store, 6, vec![record("d", true)]).await, Err(StoreError::Full(_))));
}

/// A file from before there were records is read, and one with records is read again.
#[tokio::test]
async fn fault_22_a_file_without_shelves_is_read() {
    let place = Place::new();
    let store = place.opened().await;
    store.enqueue(vec![job(1)]).await.expect("enqueue");
    drop(store);
    let before = read(&place.file());
    let text = String::from_utf8(before.clone()).expect("text");
    assert!(!text.contains("shelves") && !text.contains("next_rev"), "as it was written before: {text}");
    let store = place.opened().await;
    let BatchAnswer::Done { revs, .. } = put(&store, 1, vec![record("a", true)]).await.expect("write") else {
        panic!("not written")
    };
    drop(store);
    let store = place.opened().await;
    assert!(there(&store, "a").await && store.get(id(1)).await.expect("get").is_some());
    let again = put(&store, 1, vec![record("a", true)]).await.expect("write");
    assert!(matches!(again, BatchAnswer::Done { revs: same, .. } if same == revs), "the batch is remembered");
    drop(store);
    // The older one again, as a backup that is put back.
    write(&place.file(), &before);
    assert!(!there(&*place.opened().await, "a").await);
}

/// A form of the document that has no place for records says so, instead of losing them.
#[tokio::test]
async fn a_form_without_shelves_keeps_no_records() {
    let place = Place::new();
    let options = Options { layout: Arc::new(Foreign), ..place.options() };
    let store = JsonStore::open_with(place.file(), options).await.expect("the store opens");
    let error = put(&store, 1, vec![record("a", true)]).await.expect_err("a refusal");
    assert!(
        matches!(error, StoreError::Unsupported(_)) && error.to_string().contains("sqlite:FILE"),
        "{error}"
    );
}

/// After the clock was set back, a record that had expired is not there again.
#[tokio::test]
async fn fault_30_what_has_expired_stays_so() {
    let place = Place::new();
    let store = place.opened().await;
    let mut short = record("short", true);
    short.put.as_mut().expect("a record").keep = Keep::ForMs(1_000);
    put(&store, 1, vec![short, record("long", true)]).await.expect("write");
    place.clock.advance(1_000);
    place.clock.jump_wall(-7_200_000);
    store.expire().await.expect("expire");
    assert!(!there(&store, "short").await && there(&store, "long").await);
}
