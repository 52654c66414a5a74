//! Documents: their status, and what is done again.

use futures::TryStreamExt;
use mongodb::bson::{Bson, DateTime, Document, doc};
use windlass_testkit::eventually::{answered_within, eventually};

use crate::scene::{Scene, hold, is_full};

const FIELD: &str = "metadata.listener";

async fn status(scene: &Scene, id: &str) -> Option<Document> {
    let document = scene.people().find_one(doc! { "_id": id }).await.unwrap()?;
    document.get_document("metadata").ok()?.get_document("listener").ok().cloned()
}

async fn complete(scene: &Scene, id: &str) -> Document {
    let ask = async || {
        status(scene, id).await.filter(|status| status.get_str("status").is_ok_and(|word| word == "complete"))
    };
    match answered_within(300, ask).await {
        Some(found) => found,
        None => panic!(
            "{id} is not complete: {:?}\n{}",
            scene.people().find_one(doc! { "_id": id }).await,
            scene.last_words()
        ),
    }
}

/// B13, B15: the seed's structure in the document, and a job that carries keys and no document.
#[tokio::test(flavor = "multi_thread")]
async fn b13_b15_a_document_tells_what_became_of_it() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "statusField": FIELD }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let big = "x".repeat(200_000);
    scene.people().insert_one(doc! { "_id": "x", "big": &big, "metadata": { "kept": 1 } }).await.unwrap();
    let found = complete(&scene, "x").await;
    let row = scene.rows("all").await.remove(0);
    assert_eq!(found.get_str("jobId").unwrap(), row.get_object_id("_id").unwrap().to_hex());
    assert_eq!(found.get_str("listenerId").unwrap(), "all");
    assert!(matches!(found.get("lastRun"), Some(Bson::DateTime(_))));
    assert!(row.to_vec().unwrap().len() < 2_000, "the job is small");
    let document = scene.people().find_one(doc! { "_id": "x" }).await.unwrap().unwrap();
    assert_eq!(
        document.get_document("metadata").unwrap().get_i32("kept").unwrap(),
        1,
        "nothing else is touched"
    );
    eventually("it is noted", async || {
        let history = scene.json(&["doc", "x"]).await;
        (history["history"][0]["what"] == "job").then_some(())
    })
    .await;
}

/// T17, B4, B8: one insert with three listeners makes three jobs, and then nothing more happens; an update of a
/// complete document makes one again.
#[tokio::test(flavor = "multi_thread")]
async fn t17_b04_b08_our_own_writes_trigger_nothing() {
    let scene = Scene::new().await;
    scene.listener("flat", doc! { "statusField": FIELD }).await;
    scene.listener("map", doc! { "statusField": "metadata.listeners.<id>" }).await;
    scene.listener("deep", doc! { "statusField": "state.of.it" }).await;
    let one = scene.start("one").await;
    scene.live(&["flat", "map", "deep"], &[&one]).await;
    scene.people().insert_one(doc! { "_id": "x" }).await.unwrap();
    complete(&scene, "x").await;
    for id in ["flat", "map", "deep"] {
        scene.until(id, 1).await;
    }
    eventually("all three have written", async || {
        let document = scene.people().find_one(doc! { "_id": "x" }).await.unwrap()?;
        let map = document.get_document("metadata").ok()?.get_document("listeners").ok()?.contains_key("map");
        (map && document.contains_key("state")).then_some(())
    })
    .await;
    scene
        .people()
        .update_one(doc! { "_id": "x" }, doc! { "$unset": { "metadata.listener": 1 } })
        .await
        .unwrap();
    if is_full() {
        hold(std::time::Duration::from_secs(60)).await;
    }
    // Another document goes all the way behind it, several rounds of recovery included.
    for n in 0..3 {
        scene.people().insert_one(doc! { "_id": format!("y{n}") }).await.unwrap();
        complete(&scene, &format!("y{n}")).await;
    }
    let of_x = async || scene.own("jobs").count_documents(doc! { "data.documentId": "x" }).await.unwrap();
    assert_eq!(of_x().await, 3);
    let writes = scene.ledger().await.iter().filter(|entry| entry.document == "x").count();
    assert_eq!(writes, 5, "the insert, three statuses, and the unset of the test");
    scene.people().update_one(doc! { "_id": "x" }, doc! { "$set": { "n": 1 } }).await.unwrap();
    eventually("an update of a complete document makes jobs again", async || {
        (of_x().await == 6).then_some(())
    })
    .await;
}

/// T18: setting the map to null makes one new job for each listener that matches, once.
#[tokio::test(flavor = "multi_thread")]
async fn t18_null_asks_for_it_again_once() {
    let scene = Scene::new().await;
    let field = doc! { "statusField": "metadata.listeners.<id>", "operationType": ["insert"] };
    scene.listener("one", field.clone()).await;
    let mut other = field.clone();
    other.extend(doc! { "filter": { "kind": "never" } });
    scene.listener("two", other).await;
    let mut third = field;
    third.extend(doc! { "statusField": FIELD });
    scene.listener("flat", third).await;
    let one = scene.start("one").await;
    scene.live(&["one", "two", "flat"], &[&one]).await;
    scene.people().insert_one(doc! { "_id": "x", "kind": "a" }).await.unwrap();
    scene.until("one", 1).await;
    complete(&scene, "x").await;
    for round in 2..=4 {
        eventually("it is complete", async || {
            let document = scene.people().find_one(doc! { "_id": "x" }).await.unwrap()?;
            let map = document.get_document("metadata").ok()?.get_document("listeners").ok()?;
            map.get_document("one").ok().map(drop)
        })
        .await;
        let nothing =
            doc! { "$set": { "metadata.listeners": Bson::Null, "metadata.listener.status": Bson::Null } };
        scene.people().update_one(doc! { "_id": "x" }, nothing).await.unwrap();
        scene.until("one", round).await;
        scene.until("flat", round).await;
    }
    complete(&scene, "x").await;
    scene.people().insert_one(doc! { "_id": "y", "kind": "a" }).await.unwrap();
    complete(&scene, "y").await;
    assert_eq!((scene.count("one").await, scene.count("two").await, scene.count("flat").await), (5, 0, 5));
}

/// B9, B10: recovery keeps to the filter, and what does not match is never looked at again.
#[tokio::test(flavor = "multi_thread")]
async fn b09_b10_recovery_keeps_to_the_filter() {
    let scene = Scene::new().await;
    scene
        .listener(
            "typed",
            doc! { "statusField": FIELD, "filter": { "kind": "a" }, "operationType": ["insert"] },
        )
        .await;
    let one = scene.start("one").await;
    scene.live(&["typed"], &[&one]).await;
    let people = scene.people();
    people
        .insert_one(doc! { "_id": "b", "kind": "b", "metadata": { "listener": { "status": Bson::Null } } })
        .await
        .unwrap();
    people.insert_one(doc! { "_id": "none", "kind": "b" }).await.unwrap();
    for n in 0..3 {
        people.insert_one(doc! { "_id": format!("a{n}"), "kind": "a" }).await.unwrap();
        complete(&scene, &format!("a{n}")).await;
        people
            .update_one(doc! { "_id": format!("a{n}") }, doc! { "$set": { FIELD: Bson::Null } })
            .await
            .unwrap();
        complete(&scene, &format!("a{n}")).await;
    }
    assert_eq!(scene.count("typed").await, 6);
    assert_eq!(
        scene
            .own("jobs")
            .count_documents(doc! { "data.documentId": { "$in": ["b", "none"] } })
            .await
            .unwrap(),
        0
    );
}

/// A job that fails for good is told to its document, tried again by the ladder, given up, and done again when asked.
#[tokio::test(flavor = "multi_thread")]
async fn b20_failed_jobs_come_back_once_by_the_ladder_and_end_as_dead_letters() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "statusField": FIELD, "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    scene.people().insert_one(doc! { "_id": "x" }).await.unwrap();
    complete(&scene, "x").await;
    // As Agenda marks a job that failed.
    let fail_all = async || {
        let rows: Vec<Document> = scene
            .own("jobs")
            .find(doc! { "failedAt": { "$exists": false } })
            .await
            .unwrap()
            .try_collect()
            .await
            .unwrap();
        for row in rows {
            let now = DateTime::from_millis(row.get_datetime("nextRunAt").unwrap().timestamp_millis() + 1);
            let failed = doc! { "$set": { "failedAt": now, "lastFinishedAt": now, "lastRunAt": now, "failCount": 1, "failReason": "canary said no", "nextRunAt": Bson::Null, "lockedAt": Bson::Null } };
            scene
                .own("jobs")
                .update_one(doc! { "_id": row.get_object_id("_id").unwrap() }, failed)
                .await
                .unwrap();
        }
    };
    fail_all().await;
    eventually("the document is told", async || {
        status(&scene, "x")
            .await
            .filter(|status| status.get_str("error").is_ok_and(|why| why == "canary said no"))
            .map(drop)
    })
    .await;
    // Two rungs, then the end.
    for jobs in 2..=3 {
        scene.until("all", jobs).await;
        complete(&scene, "x").await;
        fail_all().await;
    }
    eventually("it is given up", async || {
        scene
            .own("listener_dead")
            .find_one(doc! { "document": "x", "state": "dead" })
            .await
            .unwrap()
            .map(drop)
    })
    .await;
    let found = eventually("the document is told", async || {
        status(&scene, "x").await.filter(|status| status.get_str("error").is_ok())
    })
    .await;
    assert!(matches!(found.get("status"), Some(Bson::Null)), "{found}");
    assert!(matches!(found.get("lastError"), Some(Bson::DateTime(_))), "{found}");
    let asked = scene.json(&["retry", "--all-failed"]).await;
    assert_eq!(asked["asked"], 1);
    complete(&scene, "x").await;
    assert_eq!(scene.count("all").await, 4);
    assert!(
        status(&scene, "x").await.unwrap().get("error").is_none(),
        "an old error is gone when it went through"
    );
}

/// `once = "document"`: one job for a document's life, until it is asked for again.
#[tokio::test(flavor = "multi_thread")]
async fn once_per_document() {
    let scene = Scene::new().await;
    scene.listener("once", doc! { "statusField": FIELD, "once": "document" }).await;
    let one = scene.start("one").await;
    scene.live(&["once"], &[&one]).await;
    let people = scene.people();
    people.insert_one(doc! { "_id": "x" }).await.unwrap();
    for n in 0..20 {
        people.update_one(doc! { "_id": "x" }, doc! { "$set": { "n": n } }).await.unwrap();
    }
    scene.settled("once", &people).await;
    let of_x = async || scene.own("jobs").count_documents(doc! { "data.documentId": "x" }).await.unwrap();
    assert_eq!(of_x().await, 1);
    complete(&scene, "x").await;
    people.update_one(doc! { "_id": "x" }, doc! { "$set": { FIELD: Bson::Null } }).await.unwrap();
    eventually("asked for, it is done again", async || (of_x().await == 2).then_some(())).await;
}

/// Backfill: what was there before the listener, and matches, has one job.
#[tokio::test(flavor = "multi_thread")]
async fn backfill_takes_what_was_there() {
    let scene = Scene::new().await;
    let people = scene.people();
    let many = (0..1_200).map(|n| doc! { "_id": n, "kind": if n % 3 == 0 { "a" } else { "b" } });
    people.insert_many(many).await.unwrap();
    scene
        .listener("fills", doc! { "filter": { "kind": "a" }, "backfill": true, "operationType": ["insert"] })
        .await;
    scene.listener("none", doc! { "filter": { "kind": "a" }, "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["fills", "none"], &[&one]).await;
    people.insert_one(doc! { "_id": "later", "kind": "a" }).await.unwrap();
    scene.until("fills", 401).await;
    eventually("it is done", async || {
        let position = scene.own("listener_positions").find_one(doc! { "_id": "fills" }).await.unwrap()?;
        position.contains_key("backfilledAt").then_some(())
    })
    .await;
    assert_eq!((scene.count("fills").await, scene.count("none").await), (401, 1));
}

/// `payload = "full"` carries the event up to a cap.
#[tokio::test(flavor = "multi_thread")]
async fn b15_a_full_payload_has_a_cap() {
    let mut scene = Scene::new().await;
    scene.set("LISTENER_PAYLOAD_BYTES", "20000");
    scene.listener("full", doc! { "payload": "full", "operationType": ["insert", "update"] }).await;
    let one = scene.start("one").await;
    scene.live(&["full"], &[&one]).await;
    let people = scene.people();
    people.insert_one(doc! { "_id": "small", "a": 1 }).await.unwrap();
    people.insert_one(doc! { "_id": "large", "a": "x".repeat(50_000) }).await.unwrap();
    scene.until("full", 2).await;
    let data = async |id: &str| {
        let row = scene.own("jobs").find_one(doc! { "data.documentId": id }).await.unwrap().unwrap();
        row.get_document("data").unwrap().clone()
    };
    let small = data("small").await;
    assert_eq!(
        small.get_document("change").unwrap().get_document("fullDocument").unwrap().get_i32("a").unwrap(),
        1
    );
    let large = data("large").await;
    assert!(large.get("change").is_none() && large.get_i64("changeTooLarge").unwrap() > 50_000);
}

/// T24: a change that comes while the job of an earlier one runs has a job of its own, due behind it; the running one
/// is not touched.
#[tokio::test(flavor = "multi_thread")]
async fn t24_a_change_while_its_job_runs_has_a_job_of_its_own() {
    let scene = Scene::new().await;
    scene.listener("all", doc! {}).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    people.insert_one(doc! { "_id": "x" }).await.unwrap();
    scene.until("all", 1).await;
    let first = scene.rows("all").await.remove(0);
    let id = first.get_object_id("_id").unwrap();
    // As Agenda marks a job that runs.
    let due = *first.get_datetime("nextRunAt").unwrap();
    let running = doc! { "$set": { "lockedAt": due, "lastRunAt": due, "nextRunAt": Bson::Null } };
    scene.own("jobs").update_one(doc! { "_id": id }, running).await.unwrap();
    let before = scene.own("jobs").find_one(doc! { "_id": id }).await.unwrap();
    people.update_one(doc! { "_id": "x" }, doc! { "$set": { "n": 1 } }).await.unwrap();
    scene.until("all", 2).await;
    assert_eq!(scene.own("jobs").find_one(doc! { "_id": id }).await.unwrap(), before);
    let rows = scene.rows("all").await;
    let second = rows.iter().find(|row| row.get_object_id("_id").unwrap() != id).unwrap();
    assert!(*second.get_datetime("nextRunAt").unwrap() > due);
}

/// A listener without a status writes nothing into its documents, and their history is told all the same; so are deletes,
/// which have no document to write into.
#[tokio::test(flavor = "multi_thread")]
async fn a_document_without_a_status_has_a_history() {
    let scene = Scene::new().await;
    scene.listener("all", doc! {}).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    people.insert_one(doc! { "_id": "x" }).await.unwrap();
    for n in 0..30 {
        people.update_one(doc! { "_id": "x" }, doc! { "$set": { "n": n } }).await.unwrap();
    }
    people.delete_one(doc! { "_id": "x" }).await.unwrap();
    people.insert_one(doc! { "_id": "y" }).await.unwrap();
    scene.until("all", 33).await;
    let shown = eventually("all of it is noted", async || {
        let shown = scene.json(&["doc", "x"]).await;
        (shown["history"][0]["operationType"] == "delete").then_some(shown)
    })
    .await;
    let entries = shown["history"].as_array().unwrap();
    assert_eq!(entries.len(), 20, "the last twenty: {shown}");
    let rows: std::collections::HashSet<String> =
        scene.rows("all").await.iter().map(|row| row.get_object_id("_id").unwrap().to_hex()).collect();
    for entry in entries {
        assert!(entry["what"] == "job" && entry["document"] == "x" && entry["listener"] == "all", "{entry}");
        assert!(rows.contains(entry["jobId"].as_str().unwrap()), "{entry}");
        assert!(entry["instance"].as_str().unwrap().starts_with("one-"), "{entry}");
    }
    assert!(entries[1..].iter().all(|entry| entry["operationType"] == "update"), "{shown}");
    // It is noted beside what is written next, a moment later.
    let other = eventually("that of the other is noted", async || {
        let shown = scene.json(&["doc", "y"]).await;
        (shown["history"] != serde_json::json!([])).then_some(shown)
    })
    .await;
    assert_eq!(other["history"].as_array().unwrap().len(), 1, "{other}");
    let said = scene.run(&["doc", "y"]).await;
    let said = String::from_utf8(said.stdout).unwrap();
    let (id, name) = (other["history"][0]["jobId"].as_str().unwrap(), "job-all");
    assert!(said.contains("What happened") && said.contains(id), "{said}");
    let row = said.lines().find(|line| line.contains(name)).unwrap_or_else(|| panic!("{said}"));
    assert!(row.starts_with(id) && row.contains("queued"), "{said}");
    assert!(!said.contains('{'), "for people, no JSON: {said}");
}
