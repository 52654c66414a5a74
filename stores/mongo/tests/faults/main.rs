//! The store, while the replica set under it is killed, steps down and comes back.

#[path = "../support/jobs.rs"]
mod jobs;

use std::collections::HashSet;
use std::sync::Arc;

use jobs::{claim, job};
use mongodb::bson::doc;
use windlass_core::job::NewJob;
use windlass_core::store::{Settlement, Source, Store, Written};
use windlass_core::transition::Outcome;
use windlass_mongo::{MongoStore, Options};
use windlass_testkit::eventually::{answered_within, eventually};
use windlass_testkit::mongo::ReplicaSet;

async fn open(set: &ReplicaSet) -> Arc<MongoStore> {
    let options = Options { snapshot_bytes_min: 20_000, ..Options::default() };
    MongoStore::connect_with(&set.url("store"), options).await.expect("a store")
}

/// Asks again with the same ids until there is an answer, as every caller may.
async fn until_answered<T>(
    what: &str,
    ask: impl AsyncFn() -> Result<T, windlass_core::error::StoreError>,
) -> T {
    eventually(what, async || ask().await.ok()).await
}

/// Two programs enqueue through a step-down and a kill of the primary; then each job is there once and runs once.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_primary_loses_no_job_and_doubles_none() {
    const JOBS: u128 = 600;
    let set = Arc::new(ReplicaSet::three().await);
    let stores = [open(&set).await, open(&set).await];
    let writer = async |at: usize| {
        let numbers: Vec<u128> = (0..JOBS).filter(|number| *number as usize % 2 == at).collect();
        for some in numbers.chunks(5) {
            let jobs: Vec<NewJob> = some.iter().map(|number| job(*number)).collect();
            until_answered("the jobs are accepted", async || stores[at].enqueue(jobs.clone()).await).await;
        }
    };
    let faults = async {
        set.step_down(20).await;
        let second = set.primary().await;
        set.kill(second).await;
        set.primary().await;
        set.start(second).await;
    };
    futures::join!(writer(0), writer(1), faults);
    let mut ran = HashSet::new();
    for number in 1.. {
        let store = &stores[number as usize % 2];
        let leases = until_answered("a claim", async || store.claim(claim(number)).await).await.leases;
        if leases.is_empty() {
            break;
        }
        for leased in &leases {
            assert!(ran.insert(leased.job.id), "{} was given twice", leased.job.id);
        }
        let settle = |leased: &windlass_core::store::Leased| Settlement {
            lease: leased.lease_ref(),
            outcome: Outcome::DONE,
        };
        let ends: Vec<Settlement> = leases.iter().map(settle).collect();
        let written = until_answered("a settlement", async || store.settle(ends.clone()).await).await;
        assert!(written.iter().all(|written| *written == Written::Done));
    }
    assert_eq!(ran.len(), JOBS as usize);
    for store in stores.iter().chain([&open(&set).await]) {
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    }
}

/// A snapshot is written beside the work of the store: while the server takes its time for one, jobs come and are given.
#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_holds_up_nothing() {
    let arguments = ["--setParameter", "enableTestCommands=1"].map(str::to_owned).to_vec();
    let set = ReplicaSet::with(windlass_testkit::mongo::Options { arguments, ..Default::default() }).await;
    let store = open(&set).await;
    let client = set.client().await;
    let slow = doc! {
        "failCommands": ["insert"], "namespace": "store.windlass_chunks", "blockConnection": true, "blockTimeMS": 20_000,
    };
    let point = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": slow };
    client.database("admin").run_command(point).await.expect("a fault");
    for batch in 0..4 {
        let jobs: Vec<NewJob> = (0..200).map(|number| job(batch * 200 + number)).collect();
        store.enqueue(jobs).await.expect("far more bytes than are kept without a snapshot");
    }
    assert_eq!(store.claim(claim(1)).await.expect("a claim").leases.len(), 50);
    let chunks = client.database("store").collection::<mongodb::bson::Document>("windlass_chunks");
    let written = async || chunks.estimated_document_count().await.expect("a count");
    assert_eq!(written().await, 0, "the snapshot waits for the server, and nobody for the snapshot");
    let point = doc! { "configureFailPoint": "failCommand", "mode": "off" };
    client.database("admin").run_command(point).await.expect("no fault");
    answered_within(60, async || (written().await > 0).then_some(())).await.expect("the snapshot is written");
    assert_eq!(open(&set).await.audit().await.expect("an audit"), Vec::<String>::new());
}
