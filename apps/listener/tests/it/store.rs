//! `JOBS_TARGET=windlass`: changes become jobs of the store, in the transaction of the positions.

use std::collections::BTreeMap;
use std::sync::Arc;

use mongodb::bson::{Document, doc};
use serde_json::Value;
use uuid::Uuid;
use windlass_engine::core::id::WorkerName;
use windlass_engine::core::job::{JobSpec, NewJob, Start};
use windlass_engine::core::json::Json;
use windlass_engine::core::query::{JobFilter, ListRequest, PAGE_MAX};
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{ClaimRequest, Leased, Settlement, Source, Store};
use windlass_engine::core::transition::Outcome;
use windlass_engine::{JobId, JobRecord, Kind, QueueName, QueuePolicy};
use windlass_mongo::MongoStore;
use windlass_testkit::eventually::{answered_within, eventually};

use crate::scene::Scene;

async fn scene() -> Scene {
    let mut scene = Scene::new().await;
    scene.set("JOBS_TARGET", "windlass");
    scene
}

async fn store(scene: &Scene) -> Arc<MongoStore> {
    MongoStore::connect(&scene.set.url(&scene.home)).await.unwrap()
}

async fn all(store: &MongoStore) -> Vec<JobRecord> {
    let mut request = ListRequest { filter: JobFilter::default(), limit: PAGE_MAX, after: None };
    let mut jobs = Vec::new();
    loop {
        let page = store.list(request.clone()).await.unwrap();
        jobs.extend(page.jobs);
        match page.next {
            Some(next) => request.after = Some(next),
            None => break,
        }
    }
    jobs.reverse();
    jobs
}

fn data(job: &JobRecord) -> Value {
    job.spec.payload.read().unwrap()
}

async fn until(scene: &Scene, store: &MongoStore, jobs: usize) {
    if answered_within(700, async || (all(store).await.len() >= jobs).then_some(())).await.is_none() {
        panic!("{} of {jobs} jobs\n{}", all(store).await.len(), scene.last_words());
    }
}

/// Exactly one job per change, whatever is killed; those of a document have one key and stand in its order.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_the_store_are_exact_over_kills() {
    let scene = scene().await;
    scene.listener("all", doc! { "priority": 3, "queue": "changes", "budgets": ["api"] }).await;
    let mut instance = scene.start("one").await;
    scene.live(&["all"], &[&instance]).await;
    let people = scene.people();
    let writing = tokio::spawn(async move {
        for n in 0..600_i32 {
            people.insert_one(doc! { "_id": n }).await.unwrap();
            people.update_one(doc! { "_id": n / 3 }, doc! { "$set": { "n": n } }).await.unwrap();
        }
    });
    for round in 0..3 {
        let store = store(&scene).await;
        until(&scene, &store, 100 + round * 200).await;
        instance.program.kill();
        instance = scene.start(&format!("again-{round}")).await;
    }
    writing.await.unwrap();
    let entries = scene.ledger().await;
    let store = store(&scene).await;
    until(&scene, &store, entries.len()).await;
    let jobs = all(&store).await;
    let tokens: Vec<String> =
        jobs.iter().map(|job| data(job)["token"].as_str().unwrap().to_owned()).collect();
    let wanted: Vec<String> = entries.iter().map(|entry| entry.token.clone()).collect();
    assert_eq!(tokens, wanted, "each change has one job, and they stand in the order of the history");
    let mut keys: BTreeMap<String, String> = BTreeMap::new();
    for job in &jobs {
        let document = data(job)["documentId"].as_str().unwrap().to_owned();
        let key = job.spec.key.as_ref().unwrap().to_string();
        assert_eq!(keys.entry(document).or_insert_with(|| key.clone()), &key);
        assert_eq!((job.spec.queue.as_str(), job.spec.priority, job.spec.budgets.len()), ("changes", 3, 1));
    }
    assert_eq!(store.audit().await.unwrap(), Vec::<String>::new());
}

/// This program runs them with the engine's retries; one that fails for good tells its document, which is tried again
/// by the ladder, given up, and done again when it is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_of_the_store_that_fails_tells_its_document() {
    let mut scene = scene().await;
    let config = scene.folder.path().join("listener.toml");
    std::fs::write(&config, "[jobs.job-all]\ncommand = [\"sh\", \"-c\", \"exit 3\"]\n").unwrap();
    scene.set("LISTENER_CONFIG", config.to_str().unwrap());
    scene.set("PATH", &std::env::var("PATH").unwrap());
    let store = store(&scene).await;
    let policy = QueuePolicy { ladder: "10ms".parse().unwrap(), ..QueuePolicy::default() };
    store.put_queue(QueueName::new("listener").unwrap(), policy).await.unwrap();
    scene.listener("all", doc! { "operationType": ["insert"], "statusField": "metadata.listener" }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    scene.people().insert_one(doc! { "_id": "x" }).await.unwrap();
    let given_up = async || {
        let letter =
            scene.own("listener_dead").find_one(doc! { "document": "x", "state": "dead" }).await.unwrap()?;
        Some(letter.get_i64("attempts").unwrap())
    };
    let attempts = answered_within(700, given_up).await;
    assert_eq!(attempts, Some(3), "two rungs, and the first try\n{}", scene.last_words());
    let jobs = all(&store).await;
    assert_eq!(jobs.len(), 3, "one job for the change, one for each rung");
    assert!(
        jobs.iter().all(|job| job.state.name() == StateName::Failed && job.attempt == 2),
        "the queue's ladder"
    );
    let told = doc! { "_id": "x", "metadata.listener.status": { "$type": 10 }, "metadata.listener.jobId": jobs[2].id.to_string() };
    let status = eventually("the document is told", async || {
        let document = scene.people().find_one(told.clone()).await.unwrap()?;
        Some(document.get_document("metadata").unwrap().get_document("listener").unwrap().clone())
    })
    .await;
    assert!(status.get_str("error").unwrap().contains('3'), "{status}");
    assert!(status.get_datetime("lastError").is_ok(), "{status}");
    // Another instance that starts books none of it once more.
    let two = scene.start("two").await;
    drop(one);
    scene.owned_by("all", "two").await;
    std::fs::write(&config, "[jobs.job-all]\ncommand = [\"true\"]\n").unwrap();
    drop(two);
    let three = scene.start("three").await;
    scene.live(&["all"], &[&three]).await;
    assert_eq!(scene.json(&["retry", "x"]).await["asked"], 1);
    eventually("it is done again", async || {
        let jobs = all(&store).await;
        (jobs.len() == 4 && jobs[3].state.name() == StateName::Completed).then_some(())
    })
    .await;
    let shown = scene.json(&["doc", "x"]).await;
    assert_eq!(shown["jobs"].as_array().unwrap().len(), 4, "{shown}");
}

/// What a gap has lost is found, and nothing that has a job gets a second one.
#[tokio::test(flavor = "multi_thread")]
async fn backfill_makes_jobs_of_the_store() {
    let scene = scene().await;
    let people = scene.people();
    people.insert_many((0..50_i32).map(|n| doc! { "_id": n })).await.unwrap();
    scene.listener("all", doc! { "backfill": true, "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    people.insert_many((50..60_i32).map(|n| doc! { "_id": n })).await.unwrap();
    let store = store(&scene).await;
    until(&scene, &store, 60).await;
    let filled = doc! { "_id": "all", "backfilledAt": { "$type": "date" } };
    eventually("the scan is over", async || {
        scene.own("listener_positions").find_one(filled.clone()).await.unwrap().map(drop)
    })
    .await;
    let mut found: Vec<Document> = Vec::new();
    for job in all(&store).await {
        found.push(doc! { "id": data(&job)["documentId"].as_str().unwrap() });
    }
    assert_eq!(found.len(), 60);
}

/// A name that cannot be a kind is refused when the listener is made, and poison that was written past that is alone.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_job_of_the_store_is_refused_or_a_dead_letter() {
    let scene = scene().await;
    let refused = scene.run(&["add", "--collection", "people", "--job", "not\ta kind"]).await;
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("kind"));
    scene.listener("bad", doc! { "jobName": "not\ta kind" }).await;
    scene.listener("good", doc! {}).await;
    let one = scene.start("one").await;
    scene.live(&["bad", "good"], &[&one]).await;
    scene.people().insert_many((0..20_i32).map(|n| doc! { "_id": n })).await.unwrap();
    let store = store(&scene).await;
    until(&scene, &store, 20).await;
    eventually("the others are dead letters", async || {
        let dead = scene.own("listener_dead").count_documents(doc! { "listener": "bad" }).await.unwrap();
        (dead == 20).then_some(())
    })
    .await;
    assert_eq!(all(&store).await.len(), 20);
}

/// A job of a listener that failed is noticed, however many jobs of others have failed since.
#[tokio::test(flavor = "multi_thread")]
async fn failed_jobs_of_others_hide_none_of_ours() {
    const OTHERS: u128 = 10_200;
    let scene = scene().await;
    let store = store(&scene).await;
    scene.listener("all", doc! { "operationType": ["insert"], "statusField": "metadata.listener" }).await;
    let one = scene.start_with("one", &[("LISTENER_RECOVERY_SECONDS", "3600")]);
    scene.live(&["all"], &[&one]).await;
    scene.people().insert_one(doc! { "_id": "x" }).await.unwrap();
    until(&scene, &store, 1).await;
    fail(&store, "listener", 1, 0).await;
    for first in (0..OTHERS).step_by(600) {
        let job = |number: u128| {
            let spec =
                JobSpec::new(Kind::new("other").unwrap(), QueueName::new("others").unwrap(), Json::null());
            NewJob { id: JobId(Uuid::from_u128(number + 1)), spec, start: Start::Now }
        };
        store.enqueue((first..first + 600).map(job).collect()).await.unwrap();
        fail(&store, "others", 600, first + 1).await;
    }
    drop(one);
    let two = scene.start("two").await;
    scene.live(&["all"], &[&two]).await;
    eventually("the document is told", async || {
        let told = doc! { "_id": "x", "metadata.listener.error": "planted" };
        scene.people().find_one(told).await.unwrap()
    })
    .await;
}

/// Takes as many jobs of a queue, and lets them fail for good.
async fn fail(store: &MongoStore, queue: &str, jobs: u32, round: u128) {
    let request = ClaimRequest {
        request_id: Uuid::from_u128(round),
        worker: WorkerName::new("failing").unwrap(),
        queues: vec![QueueName::new(queue).unwrap()],
        kinds: None,
        limit: jobs,
        lease_ms: None,
    };
    let leases = store.claim(request).await.unwrap().leases;
    assert_eq!(leases.len(), jobs as usize);
    let end = |leased: &Leased| Settlement {
        lease: leased.lease_ref(),
        outcome: Outcome::Failed { error: "planted".to_owned() },
    };
    store.settle(leases.iter().map(end).collect()).await.unwrap();
}
