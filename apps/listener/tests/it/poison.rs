//! Poison: changes that can never be jobs. They are dead letters, and the rest goes on.

use mongodb::Collection;
use mongodb::bson::{Bson, RawDocumentBuf, doc};
use windlass_testkit::eventually::eventually;

use crate::ledger;
use crate::scene::Scene;

/// T20, B15: poison is alone: a large document with images, a row that is refused; the rest goes on.
#[tokio::test(flavor = "multi_thread")]
async fn t20_b15_poison_is_a_dead_letter_and_the_rest_goes_on() {
    let scene = Scene::new().await;
    let images = doc! { "create": "people", "changeStreamPreAndPostImages": { "enabled": true } };
    scene.db("a").run_command(images).await.unwrap();
    scene
        .listener("all", doc! { "operationType": ["insert", "update"], "preImages": true, "payload": "full", "statusField": "metadata.listener" })
        .await;
    scene.listener("other", doc! { "operationType": ["insert"] }).await;
    // A rule of the rows' owner that refuses some.
    let rule = doc! { "create": "jobs", "validator": { "data.documentId": { "$ne": "poison" } } };
    scene.client.database(&scene.home).run_command(rule).await.unwrap();
    let one = scene.start("one").await;
    scene.live(&["all", "other"], &[&one]).await;
    let people = scene.people();
    let many = (0..40).map(|n| doc! { "_id": if n == 17 { "poison".to_owned() } else { format!("p{n}") } });
    people.insert_many(many).await.unwrap();
    people.insert_one(doc! { "_id": "large", "big": "x".repeat(9_000_000) }).await.unwrap();
    people.update_one(doc! { "_id": "large" }, doc! { "$set": { "n": 1 } }).await.unwrap();
    scene.settled("all", &people).await;
    scene.settled("other", &people).await;
    let letters = scene
        .own("listener_dead")
        .count_documents(doc! { "document": "poison", "state": "dead" })
        .await
        .unwrap();
    assert_eq!(letters, 2, "one for each listener\n{}", scene.last_words());
    let told = eventually("the document is told", async || {
        let asked = doc! { "_id": "poison", "metadata.listener.error": { "$type": "string" } };
        people.find_one(asked).await.unwrap()
    })
    .await;
    let told = told.get_document("metadata").unwrap().get_document("listener").unwrap().clone();
    assert!(matches!(told.get("status"), Some(Bson::Null)), "{told}");
    assert!(
        told.get_datetime("lastError").is_ok() && told.get_str("listenerId").is_ok_and(|id| id == "all"),
        "{told}"
    );
    // Our own writes of the status are no changes.
    let entries = scene.ledger().await;
    let is_status = |entry: &ledger::Entry| {
        let update = entry.event.get_document("updateDescription").ok();
        update.is_some_and(|update| {
            update.get_document("updatedFields").unwrap().keys().all(|name| name.starts_with("metadata"))
        })
    };
    let entries: Vec<_> = entries.into_iter().filter(|entry| !is_status(entry)).collect();
    for listener in ["all", "other"] {
        let wanted: Vec<_> = entries
            .iter()
            .filter(|entry| {
                entry.collection == "people"
                    && entry.document != "poison"
                    && (listener == "all" || entry.operation == "insert")
            })
            .collect();
        ledger::exact(listener, &wanted, &scene.rows(listener).await);
    }
    let listed = scene.json(&["status"]).await;
    let dead: u64 =
        listed["lanes"].as_array().unwrap().iter().map(|lane| lane["dead_letters"].as_u64().unwrap()).sum();
    assert_eq!(dead, 2, "{listed}");
}

/// T20: an event that cannot be read, and one whose job would be larger than a document may be: both are dead letters of
/// their listener, and what comes behind them has its job.
#[tokio::test(flavor = "multi_thread")]
async fn t20_what_cannot_be_read_or_written_is_a_dead_letter() {
    let mut scene = Scene::new().await;
    scene.set("LISTENER_PAYLOAD_BYTES", "8000000");
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let large = doc! { "operationType": ["insert"], "collection": "large", "payload": "full", "metadata": { "pad": "x".repeat(9_000_000) } };
    scene.listener("large", large).await;
    let one = scene.start("one").await;
    scene.live(&["all", "large"], &[&one]).await;
    // Text that is none, which the server keeps as it is.
    let mut bytes = doc! { "_id": "unreadable", "text": "????" }.to_vec().unwrap();
    let at = bytes.windows(4).position(|part| part == b"????").unwrap();
    bytes[at..at + 4].copy_from_slice(&[0xff, 0xfe, 0xff, 0xfe]);
    let raw: Collection<RawDocumentBuf> = scene.people().clone_with_type();
    raw.insert_one(RawDocumentBuf::from_bytes(bytes).unwrap()).await.unwrap();
    let others = scene.db("a").collection("large");
    others.insert_one(doc! { "_id": "too-large", "big": "x".repeat(7_900_000) }).await.unwrap();
    others.insert_one(doc! { "_id": "small" }).await.unwrap();
    scene.settled("all", &scene.people()).await;
    scene.until("large", 1).await;
    for (listener, reason) in [("all", "unreadable"), ("large", "job")] {
        let letter = doc! { "listener": listener, "reason": reason, "state": "dead" };
        let found = scene.own("listener_dead").count_documents(letter).await.unwrap();
        assert_eq!(found, 1, "{listener}\n{}", scene.last_words());
    }
    assert_eq!(scene.own("listener_dead").count_documents(doc! {}).await.unwrap(), 2);
    assert_eq!((scene.count("all").await, scene.count("large").await), (1, 1));
    assert_eq!(scene.get(&one, "/healthz").await.unwrap().0, 200);
}
