//! Rows with a key: one of them at a time, in their order, and nobody waits for another's key.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, doc};
use windlass_core::store::{Settlement, Source, Written};
use windlass_core::transition::Outcome;
use windlass_mongo::agenda::Options;

use crate::scene::{Scene, request, row_of_lease};

async fn scene() -> Scene {
    Scene::with(Options { key: vec!["data.who".to_owned()], ..Options::default() }).await
}

/// Rows of these keys, due in this order.
async fn rows(scene: &Scene, whose: &[&str]) -> Vec<ObjectId> {
    let mut rows = scene.fresh_rows("mail", 0..whose.len()).await;
    for (row, who) in rows.iter_mut().zip(whose) {
        row.insert("data", doc! { "who": who });
    }
    let ids = rows.iter().map(|row| row.get_object_id("_id").unwrap()).collect();
    scene.rows.insert_many(rows).await.unwrap();
    ids
}

async fn claimed(scene: &Scene, limit: u32) -> Vec<ObjectId> {
    scene.claim(limit).await.iter().map(row_of_lease).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_row_of_a_key_runs_at_a_time() {
    let scene = scene().await;
    let ids = rows(&scene, &["ann", "ann", "bob", "ann", "bob"]).await;
    scene.rows("fax", 1).await;
    let first = scene.claim(10).await;
    let taken: Vec<ObjectId> = first.iter().map(row_of_lease).collect();
    assert_eq!(taken.len(), 3, "the first of each, and the one without a key");
    assert!(taken.contains(&ids[0]) && taken.contains(&ids[2]));
    assert!(claimed(&scene, 10).await.is_empty());
    let ann = first.iter().find(|leased| row_of_lease(leased) == ids[0]).unwrap();
    assert_eq!(scene.settle(ann, Outcome::DONE).await, Written::Done);
    assert_eq!(claimed(&scene, 10).await, [ids[1]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_was_released_or_failed_lets_go_of_its_key() {
    let scene = scene().await;
    let ids = rows(&scene, &["ann", "ann"]).await;
    let first = scene.claim_one().await;
    scene.settle(&first, Outcome::Released).await;
    let again = scene.claim_one().await;
    assert_eq!(row_of_lease(&again), ids[0]);
    scene.settle(&again, Outcome::Failed { error: "no".to_owned() }).await;
    assert_eq!(claimed(&scene, 10).await, [ids[1]]);
}

/// Rows that wait for their key are in nobody's way, however many they are.
#[tokio::test(flavor = "multi_thread")]
async fn many_rows_of_one_key_hold_up_no_other() {
    let scene = scene().await;
    let mut whose = vec!["ann"; 300];
    whose.extend(["bob", "cid", "dan"]);
    let ids = rows(&scene, &whose).await;
    assert_eq!(claimed(&scene, 2).await, [ids[0], ids[300]]);
    assert_eq!(claimed(&scene, 5).await, [ids[301], ids[302]]);
}

/// A row that a worker of Node has locked holds its key until that lock is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_node_runs_holds_its_key() {
    let scene = scene().await;
    let ids = rows(&scene, &["ann", "ann"]).await;
    scene.set(ids[0], doc! { "lockedAt": scene.now().await, "nextRunAt": Bson::Null }).await;
    assert!(claimed(&scene, 10).await.is_empty());
    scene.set(ids[0], doc! { "lockedAt": Bson::Null, "lastFinishedAt": scene.now().await }).await;
    assert_eq!(claimed(&scene, 10).await, [ids[1]]);
}

/// A lease that nobody will ever end (its row was deleted, or Node has taken it) does not keep its key.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_nobody_holds_any_more_is_let_go() {
    let scene = scene().await;
    let ids = rows(&scene, &["ann", "ann", "bob", "bob"]).await;
    let first = scene.claim(10).await;
    assert_eq!(first.len(), 2);
    scene.rows.delete_one(doc! { "_id": ids[0] }).await.unwrap();
    scene.set(ids[2], doc! { "lockedAt": Bson::Null, "nextRunAt": Bson::Null }).await;
    // The first claim meets the old leases, and gives its rows back as they were.
    assert!(claimed(&scene, 10).await.is_empty());
    let row = scene.row(ids[1]).await;
    assert!(row.get_datetime("nextRunAt").is_ok() && row.get("lockedAt") == Some(&Bson::Null), "{row}");
    assert_eq!(claimed(&scene, 10).await, [ids[1], ids[3]]);
    for leased in &first {
        assert_eq!(scene.settle(leased, Outcome::DONE).await, Written::Lost);
    }
}

#[derive(Default)]
struct Runs {
    inside: HashMap<String, usize>,
    order: BTreeMap<String, Vec<ObjectId>>,
}

/// Claimers of several programs that look at the same moment never hold two rows of a key, and keep their order.
#[tokio::test(flavor = "multi_thread")]
async fn claimers_at_once_keep_keys_apart() {
    const ROWS: usize = 120;
    let scene = scene().await;
    let names = ["ann", "bob", "cid"];
    let whose: Vec<&str> = (0..ROWS).map(|at| names[at % names.len()]).collect();
    let ids = rows(&scene, &whose).await;
    let who_of: Arc<HashMap<ObjectId, String>> =
        Arc::new(ids.iter().zip(&whose).map(|(id, who)| (*id, (*who).to_owned())).collect());
    let runs = Arc::new(Mutex::new(Runs::default()));
    let claimers = (1..=6).map(|worker| {
        let (agenda, runs, who_of) = (scene.agenda.clone(), runs.clone(), who_of.clone());
        tokio::spawn(async move {
            loop {
                let leases = agenda.claim(request(worker, 10)).await.expect("a claim").leases;
                for leased in &leases {
                    let id = row_of_lease(leased);
                    let mut runs = runs.lock().unwrap();
                    let inside = runs.inside.entry(who_of[&id].clone()).or_default();
                    *inside += 1;
                    assert_eq!(*inside, 1, "two rows of one key");
                    runs.order.entry(who_of[&id].clone()).or_default().push(id);
                }
                for leased in &leases {
                    *runs.lock().unwrap().inside.get_mut(&who_of[&row_of_lease(leased)]).unwrap() -= 1;
                    let settlement = Settlement { lease: leased.lease_ref(), outcome: Outcome::DONE };
                    assert_eq!(agenda.settle(vec![settlement]).await.unwrap(), [Written::Done]);
                }
                if runs.lock().unwrap().order.values().map(Vec::len).sum::<usize>() >= ROWS {
                    return;
                }
            }
        })
    });
    for claimer in claimers.collect::<Vec<_>>() {
        claimer.await.expect("a claimer");
    }
    for (at, name) in names.iter().enumerate() {
        let wanted: Vec<ObjectId> = ids.iter().skip(at).step_by(names.len()).copied().collect();
        assert_eq!(runs.lock().unwrap().order[*name], wanted, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_a_key_are_checked() {
    let scene = scene().await;
    for key in ["", "data..who", "data.$where"] {
        let options = Options { key: vec![key.to_owned()], ..Options::default() };
        let refused =
            windlass_mongo::agenda::AgendaRows::connect(&scene.database.url(), "jobs", options).await;
        assert!(refused.is_err_and(|why| why.to_string().contains("key")), "{key}");
    }
}
