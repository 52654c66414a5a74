//! Programs of several versions on one journal: what an older one wrote is read, and what a newer one wrote is refused in words.

#[path = "../support/jobs.rs"]
mod jobs;

use jobs::{claim, job, queue};
use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, DateTime, Document, doc};
use windlass_core::error::StoreError;
use windlass_core::job::NewJob;
use windlass_core::store::{Source, Store};
use windlass_mongo::MongoStore;
use windlass_testkit::mongo::ReplicaSet;

async fn last_of(journal: &Collection<Document>) -> Document {
    journal.find_one(doc! {}).sort(doc! { "_id": -1 }).await.expect("an answer").expect("an entry")
}

/// Puts an entry behind the last one, as a program of that meaning writes it. Answers its number.
async fn write(journal: &Collection<Document>, meaning: i32, ops: String) -> i64 {
    let last = last_of(journal).await;
    let number = last.get_i64("_id").expect("a number") + 1;
    let body = Binary { subtype: BinarySubtype::Generic, bytes: ops.into_bytes() };
    let entry = doc! {
        "_id": number, "mark": ObjectId::new(), "after": last.get_object_id("mark").expect("a mark"),
        "at": DateTime::now(), "by": ObjectId::new(), "meaning": meaning, "body": body, "parts": 0,
    };
    journal.insert_one(entry).await.expect("an entry");
    number
}

/// Until meaning 5 every job of a batch was written in full; what is alike is written once now, in the same list.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_an_older_program_are_read_and_shared_with_ours() {
    let database = ReplicaSet::shared().await.fresh_database().await;
    let store = MongoStore::connect(&database.url()).await.expect("a store");
    let journal = database.open().collection::<Document>("windlass_journal");
    let whole = |NewJob { id, spec, .. }: NewJob| {
        format!(r#"{{"id":"{id}","spec":{},"start":"Now"}}"#, serde_json::to_string(&spec).expect("a spec"))
    };
    write(&journal, 4, format!(r#"[{{"Enqueue":[{},{}]}}]"#, whole(job(1)), whole(job(2)))).await;
    store.enqueue((3..103).map(job).collect()).await.expect("jobs of ours");
    let last = last_of(&journal).await;
    let bytes = last.get_binary_generic("body").expect("operations").len();
    assert!(bytes < 100 * 50, "{bytes} bytes for a hundred jobs that are alike");
    let fresh = MongoStore::connect(&database.url()).await.expect("another program");
    for number in 1..103 {
        let there = fresh.get(job(number).id).await.expect("an answer").expect("a job");
        assert_eq!((there.id, &there.spec), (job(number).id, &job(number).spec));
    }
    assert_eq!(fresh.audit().await.expect("an audit"), Vec::<String>::new());
    assert_eq!(fresh.claim(claim(1)).await.expect("a claim").leases.len(), 50);
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
}

/// A program that is older than an entry neither guesses what it says nor writes behind it.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_of_a_newer_program_is_refused_in_words() {
    let database = ReplicaSet::shared().await.fresh_database().await;
    let store = MongoStore::connect(&database.url()).await.expect("a store");
    store.enqueue(vec![job(1)]).await.expect("a job");
    let journal = database.open().collection::<Document>("windlass_journal");
    let meaning = last_of(&journal).await.get_i32("meaning").expect("a meaning") + 1;
    // It would be understood, too, if nobody looked at its meaning.
    let number = write(&journal, meaning, format!(r#"[{{"PauseQueue":["{}",true]}}]"#, queue())).await;
    for _ in 0..2 {
        let refused = store.enqueue(vec![job(2)]).await.expect_err("a refusal");
        assert!(
            matches!(&refused, StoreError::Schema(why) if why.contains("all programs be of one version")),
            "{refused}"
        );
    }
    assert!(store.queues().await.is_err() && MongoStore::connect(&database.url()).await.is_err());
    assert_eq!(last_of(&journal).await.get_i64("_id").expect("a number"), number);
}
