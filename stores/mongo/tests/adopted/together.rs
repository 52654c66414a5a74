//! One collection, worked by Node's Agenda and by us: each version that is in use.

use std::collections::HashMap;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, Document, doc};
use serde_json::json;
use windlass_core::store::{Source, Written};
use windlass_core::transition::Outcome;
use windlass_testkit::eventually::eventually;

use crate::node::{Node, VERSIONS, id};
use crate::scene::{Scene, dates, request, row_of_lease};

/// Runs a test for each version, so that a failure names it.
macro_rules! for_each_version {
    ($($test:ident)*) => {$(
        mod $test {
            #[tokio::test(flavor = "multi_thread")]
            async fn agenda_4() {
                super::$test(super::VERSIONS[0]).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn agenda_5() {
                super::$test(super::VERSIONS[1]).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn hokify() {
                super::$test(super::VERSIONS[2]).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn agenda_6() {
                super::$test(super::VERSIONS[3]).await;
            }
        }
    )*};
}

for_each_version! {
    our_rows_are_run_by_node
    their_rows_are_run_by_us
    a_shared_queue_runs_each_row_once
    a_lock_of_a_killed_node_is_taken_back
    a_lock_of_ours_is_taken_back_by_node
    a_run_of_node_that_outlives_its_lock_is_never_written_over
    rows_repeat_as_node_repeats_them
}

/// Waits until a row is free and finished.
async fn finished(scene: &Scene, id: ObjectId) -> Document {
    eventually("the row is finished", async || {
        let row = scene.row(id).await;
        (row.get_datetime("lastFinishedAt").is_ok() && row.get_datetime("lockedAt").is_err()).then_some(row)
    })
    .await
}

async fn our_rows_are_run_by_node(version: &str) {
    let scene = Scene::new(600_000).await;
    let ids = scene.rows("mail", 12).await;
    let mut node = Node::open(version, &scene, "0.2 seconds");
    node.define("mail", 600_000, "end");
    node.start();
    let ran: HashMap<ObjectId, i64> =
        ids.iter().map(|_| node.run()).map(|(id, data)| (id, data["n"].as_i64().unwrap())).collect();
    for (at, id) in ids.iter().enumerate() {
        assert_eq!(ran.get(id), Some(&(at as i64)), "each has its data");
        finished(&scene, *id).await;
    }
    assert_eq!(node.runs_so_far(), [], "and runs once");
}

async fn their_rows_are_run_by_us(version: &str) {
    let scene = Scene::new(600_000).await;
    let mut node = Node::open(version, &scene, "0.2 seconds");
    // It only writes; another that runs shows what a row of its own looks like in the end.
    let ok = id(&node.ask(json!({ "command": "now", "name": "mail", "data": { "to": "a", "n": 7 } })));
    let bad = id(&node.ask(json!({ "command": "now", "name": "fax", "data": null })));
    let mut leases = scene.claim(10).await;
    leases.sort_by_key(|leased| row_of_lease(leased) != ok);
    assert_eq!(leases.iter().map(row_of_lease).collect::<Vec<_>>(), [ok, bad]);
    let payload: serde_json::Value = leases[0].job.spec.payload.read().unwrap();
    assert_eq!(payload, json!({ "to": "a", "n": 7 }));
    assert_eq!(scene.settle(&leases[0], Outcome::DONE).await, Written::Done);
    let failed = Outcome::Failed { error: "as was wished".to_owned() };
    assert_eq!(scene.settle(&leases[1], failed).await, Written::Done);

    let mut theirs = Node::open(version, &scene, "0.2 seconds");
    theirs.define("mail", 600_000, "end");
    theirs.define("fax", 600_000, "fail");
    theirs.start();
    let their_ok = id(&node.ask(json!({ "command": "now", "name": "mail", "data": { "to": "b" } })));
    let their_bad = id(&node.ask(json!({ "command": "now", "name": "fax", "data": null })));
    for (ours, theirs) in [(ok, their_ok), (bad, their_bad)] {
        let (ours, theirs) = (scene.row(ours).await, finished(&scene, theirs).await);
        assert_eq!(dates(&ours), dates(&theirs), "{ours}\n{theirs}");
        for key in ["failReason", "failCount", "type", "priority", "name", "disabled", "progress"] {
            assert_eq!(said(&ours, key), said(&theirs, key), "{key}: {ours}\n{theirs}");
        }
    }
    let mut dashboard = Node::open("6", &scene, "1 hour");
    let states = dashboard.ask(json!({ "command": "states" }));
    assert_eq!(states[ok.to_hex()], "completed");
    assert_eq!(states[bad.to_hex()], "failed");
    assert_eq!(theirs.runs_so_far().len(), 2, "what we have finished is not run again");
}

/// What a row says of a field; null and absent are the same to Agenda.
fn said<'a>(row: &'a Document, key: &str) -> Option<&'a Bson> {
    row.get(key).filter(|value| **value != Bson::Null)
}

async fn a_shared_queue_runs_each_row_once(version: &str) {
    const WAVES: usize = 12;
    let scene = Scene::new(600_000).await;
    let mut node = Node::open(version, &scene, "0.2 seconds");
    node.define("wave", 600_000, "end");
    node.start();
    let (mut ids, mut ours) = (Vec::new(), Vec::new());
    for wave in 0..WAVES {
        // Node locks all that it sees, so that there is something for both only while rows come.
        let rows: Vec<Document> = scene.fresh_rows("wave", wave * 20..wave * 20 + 20).await;
        ids.extend(rows.iter().map(|row| row.get_object_id("_id").unwrap()));
        scene.rows.insert_many(rows).await.unwrap();
        for leased in scene.agenda.claim(request(1, 7)).await.unwrap().leases {
            ours.push(row_of_lease(&leased));
            assert_eq!(scene.settle(&leased, Outcome::DONE).await, Written::Done);
        }
    }
    eventually("all rows have run", async || {
        let open = doc! { "$or": [{ "lastFinishedAt": Bson::Null }, { "lockedAt": { "$ne": Bson::Null } }] };
        (scene.rows.count_documents(open).await.unwrap() == 0).then_some(())
    })
    .await;
    assert!(!ours.is_empty() && ours.len() < ids.len(), "both have worked: {} are ours", ours.len());
    let mut runs = HashMap::new();
    for id in node.runs_so_far().into_iter().chain(ours) {
        *runs.entry(id).or_insert(0) += 1;
    }
    for id in ids {
        assert_eq!(runs.get(&id), Some(&1), "{id}");
    }
}

async fn a_lock_of_a_killed_node_is_taken_back(version: &str) {
    let scene = Scene::new(2_000).await;
    let row = scene.rows("mail", 1).await[0];
    let mut node = Node::open(version, &scene, "0.2 seconds");
    node.define("mail", 600_000, "wait");
    node.start();
    node.run();
    // Its run is written down before it begins, in all versions.
    assert!(scene.claim(10).await.is_empty(), "its lock is valid");
    node.kill();
    assert!(scene.claim(10).await.is_empty(), "nobody knows that it died");
    scene.take_back(row).await;
    let leased = scene.claim_one().await;
    assert_eq!(leased.job.crashes, 0, "it was no crash of ours");
    assert_eq!(scene.settle(&leased, Outcome::DONE).await, Written::Done);
}

async fn a_lock_of_ours_is_taken_back_by_node(version: &str) {
    let scene = Scene::new(600_000).await;
    let mut node = Node::open(version, &scene, "0.2 seconds");
    node.define("mail", 5_000, "end");
    let row = scene.rows("mail", 1).await[0];
    let leased = scene.claim_one().await;
    node.start();
    // Renewed, it stays ours for longer than Node's lifetime.
    let began = scene.now().await.timestamp_millis();
    eventually("we touch it for a while", async || {
        assert!(scene.is_held(leased.lease_ref()).await);
        (scene.now().await.timestamp_millis() > began + 7_000).then_some(())
    })
    .await;
    assert_eq!(node.runs_so_far(), []);
    assert_eq!(node.run().0, row, "then we stand still");
    let before = finished(&scene, row).await;
    assert!(!scene.is_held(leased.lease_ref()).await);
    assert_eq!(scene.settle(&leased, Outcome::Failed { error: "late".to_owned() }).await, Written::Lost);
    assert_eq!(scene.row(row).await, before);
}

/// Versions 4 and 5 write the whole row back as they read it, the others its state. It cannot be helped that both
/// run; what Node writes at its end is noticed as a lost lease.
async fn a_run_of_node_that_outlives_its_lock_is_never_written_over(version: &str) {
    let scene = Scene::new(1_000).await;
    let row = scene.rows("mail", 1).await[0];
    // It looks for work once, when it starts, and does not take its own lock back.
    let mut node = Node::open(version, &scene, "1 hour");
    node.define("mail", 600_000, "wait");
    node.start();
    node.run();
    scene.take_back(row).await;
    let leased = scene.claim_one().await;
    assert!(scene.is_held(leased.lease_ref()).await);
    node.ask(json!({ "command": "end", "id": row.to_hex() }));
    let theirs = finished(&scene, row).await;
    assert!(!scene.is_held(leased.lease_ref()).await, "noticed");
    assert_eq!(scene.settle(&leased, Outcome::Failed { error: "ours".to_owned() }).await, Written::Lost);
    assert_eq!(scene.row(row).await, theirs, "never written over");
}

async fn rows_repeat_as_node_repeats_them(version: &str) {
    let scene = Scene::new(600_000).await;
    let mut node = Node::open(version, &scene, "0.2 seconds");
    node.start();
    let lines = [
        ("3 minutes", json!({})),
        ("one hour and 30 minutes", json!({})),
        ("17 4 * * *", json!({ "timezone": "America/New_York" })),
        ("30 6 1 * 1", json!({ "timezone": "Europe/Berlin" })),
    ];
    for (at, (interval, options)) in lines.iter().enumerate() {
        let mut run = HashMap::new();
        for whose in ["ours", "theirs"] {
            let name = format!("{whose} {at}");
            if whose == "theirs" {
                node.define(&name, 600_000, "end");
            }
            let row = id(&node
                .ask(json!({ "command": "every", "interval": interval, "name": name, "options": options })));
            // A cron line may be due much later; here it is due.
            let due = mongodb::bson::DateTime::from_millis(scene.now().await.timestamp_millis() - 1_000);
            scene.set(row, doc! { "nextRunAt": due }).await;
            if whose == "ours" {
                let leased = scene.claim_one().await;
                assert_eq!(scene.settle(&leased, Outcome::DONE).await, Written::Done);
            } else {
                node.run();
            }
            run.insert(whose, finished(&scene, row).await);
        }
        let next = |whose: &str| run[whose].get_datetime("nextRunAt").unwrap().timestamp_millis();
        let last = |whose: &str| run[whose].get_datetime("lastRunAt").unwrap().timestamp_millis();
        let same = match interval.contains('*') {
            true => next("ours") == next("theirs"),
            false => (next("ours") - last("ours")).abs_diff(next("theirs") - last("theirs")) < 2_000,
        };
        assert!(same, "{interval}: {}\n{}", run["ours"], run["theirs"]);
        assert_eq!(dates(&run["ours"]), dates(&run["theirs"]));
    }
}
