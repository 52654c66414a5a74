//! Jobs within a transaction of the caller's.

#[path = "../support/jobs.rs"]
mod jobs;

use std::sync::Arc;

use jobs::{claim, job};
use mongodb::bson::{Document, doc};
use windlass_core::id::JobId;
use windlass_core::job::NewJob;
use windlass_core::store::{Source, Store};
use windlass_mongo::{MongoStore, Options, WithinError};
use windlass_testkit::mongo::{Database, ReplicaSet};

/// Another program that has the store open.
async fn open(database: &Database) -> Arc<MongoStore> {
    let options = Options { snapshot_bytes_min: 20_000, ..Options::default() };
    MongoStore::connect_with(&database.url(), options).await.expect("a store")
}

struct Scene {
    database: Database,
    store: Arc<MongoStore>,
    rows: mongodb::Collection<Document>,
}

async fn scene() -> Scene {
    let database = ReplicaSet::shared().await.fresh_database().await;
    let store = MongoStore::of(&database.open(), Options::default()).await.expect("a store");
    let rows = database.open().collection("rows");
    // A transaction of 6.0 may make a collection, and is slower and conflicts then.
    rows.insert_one(doc! { "_id": "first" }).await.expect("a row");
    Scene { database, store, rows }
}

impl Scene {
    /// A transaction with a row and jobs; made again as long as others are first. Answers how often it was.
    async fn write(&self, row: &str, new: &[NewJob]) -> usize {
        for made in 1.. {
            let mut session = self.database.open().client().start_session().await.expect("a session");
            session.start_transaction().await.expect("a transaction");
            self.rows.insert_one(doc! { "_id": row }).session(&mut session).await.expect("a row");
            match self.store.enqueue_within(&mut session, new.to_vec()).await {
                Ok(within) => match session.commit_transaction().await {
                    Ok(()) => {
                        within.committed();
                        return made;
                    }
                    // Others were first after all: all of it is made again.
                    Err(error) if error.contains_label(mongodb::error::TRANSIENT_TRANSACTION_ERROR) => {}
                    Err(error) => panic!("a commit: {error}"),
                },
                Err(WithinError::Raced) => session.abort_transaction().await.expect("an end"),
                Err(other) => panic!("{other}"),
            }
        }
        unreachable!("numbers do not end")
    }
}

/// Jobs are there with the commit, for this program at once and for others, and a worker gets them.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_come_with_the_commit() {
    let scene = scene().await;
    scene.write("a", &[job(1), job(2)]).await;
    for store in [scene.store.clone(), open(&scene.database).await] {
        assert!(store.get(JobId(uuid::Uuid::from_u128(2))).await.expect("an answer").is_some());
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    }
    assert_eq!(scene.store.claim(claim(1)).await.expect("a claim").leases.len(), 2);
}

/// A transaction that is aborted leaves nothing, and the store goes on.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_comes_without_the_commit() {
    let scene = scene().await;
    let mut session = scene.database.open().client().start_session().await.expect("a session");
    session.start_transaction().await.expect("a transaction");
    scene.rows.insert_one(doc! { "_id": "a" }).session(&mut session).await.expect("a row");
    let within = scene.store.enqueue_within(&mut session, vec![job(1)]).await.expect("room");
    drop(within);
    session.abort_transaction().await.expect("an end");
    scene.store.enqueue(vec![job(2)]).await.expect("the store goes on");
    let ids: Vec<JobId> =
        scene.store.claim(claim(1)).await.expect("a claim").leases.iter().map(|lease| lease.job.id).collect();
    assert_eq!(ids, [job(2).id]);
}

/// What is known already is left out, also when the same ids come with another content.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_known_is_left_out() {
    let scene = scene().await;
    scene.write("a", &[job(1)]).await;
    let mut other = job(1);
    other.spec.priority = 7;
    scene.write("b", &[other, job(2), job(2)]).await;
    let leases = scene.store.claim(claim(1)).await.expect("a claim").leases;
    assert_eq!(leases.iter().map(|lease| lease.job.id).collect::<Vec<_>>(), [job(1).id, job(2).id]);
    assert_eq!(leases[0].job.spec.priority, 0);
}

/// A store that is full refuses, and says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_refuses() {
    let database = ReplicaSet::shared().await.fresh_database().await;
    let options = Options { jobs_max: 1, ..Options::default() };
    let store = MongoStore::of(&database.open(), options).await.expect("a store");
    let mut session = database.open().client().start_session().await.expect("a session");
    session.start_transaction().await.expect("a transaction");
    let refused = store.enqueue_within(&mut session, vec![job(1), job(2)]).await.err();
    assert!(matches!(refused, Some(WithinError::Store(windlass_core::error::StoreError::Full(_)))));
}

/// Others write all the time: each row has its jobs, and each job its row.
#[tokio::test(flavor = "multi_thread")]
async fn rows_and_jobs_are_one_under_contention() {
    const ROUNDS: u128 = 60;
    let scene = Arc::new(scene().await);
    let other = open(&scene.database).await;
    let noise = tokio::spawn(async move {
        for number in 0..ROUNDS * 2 {
            other.enqueue(vec![job(1_000_000 + number)]).await.expect("an enqueue");
        }
    });
    let mut races = 0;
    for round in 0..ROUNDS {
        races += scene.write(&format!("row-{round}"), &[job(round * 2), job(round * 2 + 1)]).await - 1;
    }
    noise.await.expect("the other ends");
    println!("{races} races");
    let fresh = open(&scene.database).await;
    for number in (0..ROUNDS * 2).chain(1_000_000..1_000_000 + ROUNDS * 2) {
        assert!(fresh.get(job(number).id).await.expect("an answer").is_some(), "{number}");
    }
    assert_eq!(fresh.audit().await.expect("an audit"), Vec::<String>::new());
    assert_eq!(scene.store.audit().await.expect("an audit"), Vec::<String>::new());
}
