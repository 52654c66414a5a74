//! Streams: exactly one job for each change that matches.

use std::time::Duration;

use futures::TryStreamExt;
use futures::future::join_all;
use mongodb::bson::{Bson, Document, doc};
use mongodb::options::ReturnDocument;
use windlass_testkit::eventually::eventually;

use crate::ledger::{self, Entry};
use crate::scene::{Scene, is_full};

fn of(entries: &[Entry], wanted: impl Fn(&Entry) -> bool) -> Vec<&Entry> {
    entries.iter().filter(|entry| entry.collection == "people" && wanted(entry)).collect()
}

/// T1: ten thousand mixed writes, three listeners with different operations and filters.
#[tokio::test(flavor = "multi_thread")]
async fn t01_mixed_writes_are_exact_and_in_order() {
    let scene = Scene::new().await;
    scene.listener("all", doc! {}).await;
    scene.listener("kinds", doc! { "operationType": ["insert"], "filter": { "kind": { "$in": ["a", "b"] }, "n": { "$gte": 100 } } }).await;
    scene.listener("gone", doc! { "operationType": ["delete"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all", "kinds", "gone"], &[&one]).await;
    let people = scene.people();
    let writers = (0..8).map(|writer| {
        let people = people.clone();
        tokio::spawn(async move {
            let mut chance = fastrand::Rng::with_seed(writer);
            for n in 0..1_250_i32 {
                let id = format!("{writer}-{}", chance.u32(0..200));
                let kind = ["a", "b", "c"][chance.usize(0..3)];
                match chance.u32(0..10) {
                    0..=4 => {
                        let _ = people.insert_one(doc! { "_id": &id, "kind": kind, "n": n }).await;
                    }
                    5..=6 => drop(
                        people.update_one(doc! { "_id": &id }, doc! { "$set": { "n": n, "x.y": n } }).await,
                    ),
                    7 => drop(
                        people
                            .replace_one(doc! { "_id": &id }, doc! { "kind": kind, "n": n, "whole": true })
                            .await,
                    ),
                    _ => drop(people.delete_one(doc! { "_id": &id }).await),
                }
            }
        })
    });
    join_all(writers).await;
    scene.settled("all", &people).await;
    let entries = scene.ledger().await;
    assert!(entries.len() > 4_000, "{}", entries.len());
    ledger::exact("all", &of(&entries, |_| true), &scene.rows("all").await);
    let matches = |entry: &Entry| {
        let document = entry.event.get_document("fullDocument").unwrap();
        entry.operation == "insert"
            && ["a", "b"].contains(&document.get_str("kind").unwrap())
            && document.get_i32("n").is_ok_and(|n| n >= 100)
    };
    ledger::exact(
        "kinds",
        &of(&entries, |entry| entry.operation == "insert" && matches(entry)),
        &scene.rows("kinds").await,
    );
    let deletes = of(&entries, |entry| entry.operation == "delete");
    assert!(deletes.len() > 100);
    ledger::exact("gone", &deletes, &scene.rows("gone").await);
}

/// How soon a write is heard, whatever became of its collection before.
const HEARD: Duration = Duration::from_secs(1);

/// T8, B6: dropped, re-created and renamed collections, and databases, go on being heard without a restart.
#[tokio::test(flavor = "multi_thread")]
async fn t08_b06_dropped_and_renamed_collections_are_heard_again() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    let write = async |id: &str| {
        people.insert_one(doc! { "_id": id }).await.unwrap();
        scene.row_within(id, HEARD).await;
    };
    write("1").await;
    people.drop().await.unwrap();
    write("2").await;
    let rename = doc! { "renameCollection": format!("{}a.people", scene.prefix), "to": format!("{}a.others", scene.prefix) };
    scene.client.database("admin").run_command(rename).await.unwrap();
    write("3").await;
    scene.db("a").drop().await.unwrap();
    write("4").await;
    people.drop().await.unwrap();
    scene.db("a").create_collection("people").await.unwrap();
    write("again").await;
    // The renamed one is heard under its name only when somebody asks for it.
    scene.db("a").collection::<Document>("others").insert_one(doc! { "_id": "5" }).await.unwrap();
    scene.settled("all", &people).await;
    assert_eq!(scene.count("all").await, 6);
    assert!(scene.get(&one, "/healthz").await.unwrap().0 == 200);
}

/// T13: events before an edit follow the old filter, those after it the new one, and none is lost.
#[tokio::test(flavor = "multi_thread")]
async fn t13_an_edited_filter_holds_from_its_own_moment() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "operationType": ["insert"], "filter": { "kind": "a" } }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    let writing = {
        let people = people.clone();
        tokio::spawn(async move {
            for n in 0..1_000_i32 {
                let kind = if n % 2 == 0 { "a" } else { "b" };
                people.insert_one(doc! { "_id": n, "kind": kind }).await.unwrap();
            }
        })
    };
    eventually("some were written", async || {
        (people.count_documents(doc! {}).await.unwrap() > 200).then_some(())
    })
    .await;
    let changed = scene
        .own("listeners")
        .update_one(doc! { "_id": "all" }, doc! { "$set": { "filter.kind": "b" } })
        .await;
    changed.unwrap();
    writing.await.unwrap();
    people.insert_one(doc! { "_id": "last", "kind": "b" }).await.unwrap();
    eventually("the last has its job", async || {
        scene.own("jobs").find_one(doc! { "data.documentId": "last" }).await.unwrap().map(drop)
    })
    .await;
    let edits = ledger::read(&scene.client, &scene.home, scene.since).await;
    let edit = edits.iter().find(|entry| {
        let update = entry.event.get_document("updateDescription").ok();
        entry.collection == "listeners"
            && update.is_some_and(|update| {
                update.get_document("updatedFields").unwrap().contains_key("filter.kind")
            })
    });
    let edit = edit.expect("the edit").token.clone();
    let entries = scene.ledger().await;
    let wanted = of(&entries, |entry| {
        let kind = entry.event.get_document("fullDocument").unwrap().get_str("kind").unwrap();
        kind == if entry.token < edit { "a" } else { "b" }
    });
    ledger::exact("all", &wanted, &scene.rows("all").await);
}

/// T14: a paused or deleted listener makes no jobs; what came meanwhile is skipped or caught up, as it says.
#[tokio::test(flavor = "multi_thread")]
async fn t14_pause_resume_and_delete() {
    let scene = Scene::new().await;
    scene.listener("skips", doc! { "operationType": ["insert"] }).await;
    scene.listener("catches", doc! { "operationType": ["insert"], "onResume": "catch-up" }).await;
    let one = scene.start("one").await;
    scene.live(&["skips", "catches"], &[&one]).await;
    let people = scene.people();
    let write = async |id: &str| drop(people.insert_one(doc! { "_id": id }).await.unwrap());
    write("1").await;
    scene.until("skips", 1).await;
    scene.until("catches", 1).await;
    for id in ["skips", "catches"] {
        assert!(scene.run(&["pause", id]).await.status.success());
        eventually("the lock is released", async || scene.owner(id).await.is_none().then_some(())).await;
    }
    write("2").await;
    scene.listener("watch", doc! { "operationType": ["insert"] }).await;
    scene.live(&["watch"], &[&one]).await;
    scene.settled("watch", &people).await;
    assert_eq!((scene.count("skips").await, scene.count("catches").await), (1, 1));
    for id in ["skips", "catches"] {
        assert!(scene.run(&["resume", id]).await.status.success());
    }
    scene.live(&["skips", "catches"], &[&one]).await;
    write("3").await;
    scene.settled("skips", &people).await;
    scene.settled("catches", &people).await;
    let ids = async |listener: &str| {
        let rows = scene.rows(listener).await;
        let id = |row: &Document| row.get_document("data").unwrap().get_str("documentId").unwrap().to_owned();
        let mut ids: Vec<String> = rows.iter().map(id).filter(|id| !id.starts_with("marker")).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids("skips").await, ["1", "3"]);
    assert_eq!(ids("catches").await, ["1", "2", "3"]);
    assert!(scene.run(&["rm", "skips"]).await.status.success());
    eventually("nobody has it", async || {
        scene
            .own("listener_positions")
            .find_one(doc! { "_id": "skips" })
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    let before = scene.count("skips").await;
    write("4").await;
    scene.settled("watch", &people).await;
    assert_eq!(scene.count("skips").await, before);
}

/// A listener that was deleted while it was paused, and made anew under its id, begins where it was made.
#[tokio::test(flavor = "multi_thread")]
async fn t14_a_listener_that_is_made_anew_begins_anew() {
    let scene = Scene::new().await;
    let caught = doc! { "operationType": ["insert"], "onResume": "catch-up" };
    scene.listener("all", caught.clone()).await;
    scene.listener("watch", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all", "watch"], &[&one]).await;
    let people = scene.people();
    assert!(scene.run(&["pause", "all"]).await.status.success());
    eventually("the lock is released", async || scene.owner("all").await.is_none().then_some(())).await;
    people.insert_one(doc! { "_id": "before" }).await.unwrap();
    scene.own("listeners").delete_one(doc! { "_id": "all" }).await.unwrap();
    people.insert_one(doc! { "_id": "between" }).await.unwrap();
    scene.settled("watch", &people).await;
    scene.listener("all", caught).await;
    scene.live(&["all"], &[&one]).await;
    people.insert_one(doc! { "_id": "behind" }).await.unwrap();
    scene.settled("all", &people).await;
    let old = doc! { "data.listenerId": "all", "data.documentId": { "$in": ["before", "between"] } };
    assert_eq!(scene.own("jobs").count_documents(old).await.unwrap(), 0, "{}", scene.last_words());
    assert_eq!(scene.count("all").await, 2);
}

/// T15, B17: the first write to a tenant that did not exist has its job.
#[tokio::test(flavor = "multi_thread")]
async fn t15_b17_a_new_tenant_is_heard_from_its_first_write() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    for tenant in 0..20 {
        let people = scene.db(&format!("new{tenant}")).collection::<Document>("people");
        people.insert_one(doc! { "_id": "first" }).await.unwrap();
    }
    scene.until("all", 20).await;
    let entries = scene.ledger().await;
    ledger::exact("all", &of(&entries, |_| true), &scene.rows("all").await);
    let row = &scene.rows("all").await[0];
    assert!(row.get_document("data").unwrap().get_str("workspaceId").is_ok(), "{row}");
}

/// T16, B14: many writers on one document, two instances, and jobs that clear the status. In the long form fifty with two
/// hundred updates each.
#[tokio::test(flavor = "multi_thread")]
async fn t16_b14_one_document_under_contention() {
    let scene = Scene::new().await;
    let field = doc! { "statusField": "metadata.listeners.<id>", "operationType": ["update"] };
    scene.listener("one", field.clone()).await;
    scene.listener("two", field).await;
    let people = scene.people();
    people.insert_one(doc! { "_id": "x", "n": 0 }).await.unwrap();
    let (a, b) = (scene.start("a").await, scene.start("b").await);
    scene.live(&["one", "two"], &[&a, &b]).await;
    let (writers, each) = if is_full() { (50, 200) } else { (20, 100) };
    let changes = writers * each;
    let writers = (0..writers).map(|_| {
        let people = people.clone();
        tokio::spawn(async move {
            for _ in 0..each {
                let raised = people.find_one_and_update(doc! { "_id": "x" }, doc! { "$inc": { "n": 1 } });
                raised.return_document(ReturnDocument::After).await.unwrap();
            }
        })
    });
    // Beside them a job clears the status of all, as the original's do, each time that it was taken up.
    const CLEARED: usize = 5;
    let clearing = async {
        let mut rounds = 0;
        while rounds < CLEARED {
            let clear = doc! { "$set": { "metadata.listeners": Bson::Null } };
            people.update_one(doc! { "_id": "x" }, clear).await.unwrap();
            rounds += 1;
            eventually("both have taken it up", async || {
                let again = async |id: &str| {
                    let of_it = doc! { "data.listenerId": id, "data.cause": "again" };
                    scene.own("jobs").count_documents(of_it).await.unwrap() as usize
                };
                (again("one").await >= rounds && again("two").await >= rounds).then_some(())
            })
            .await;
        }
    };
    tokio::join!(join_all(writers), clearing);
    scene.until("one", changes).await;
    scene.until("two", changes).await;
    let entries = scene.ledger().await;
    let raised = of(&entries, |entry| {
        let update = entry.event.get_document("updateDescription").ok();
        update.is_some_and(|update| update.get_document("updatedFields").unwrap().contains_key("n"))
    });
    assert_eq!(raised.len() as u64, changes);
    for listener in ["one", "two"] {
        let rows = scene.rows(listener).await;
        let (of_events, again): (Vec<Document>, Vec<Document>) =
            rows.into_iter().partition(|row| row.get_document("data").unwrap().contains_key("token"));
        ledger::exact(listener, &raised, &of_events);
        assert_eq!(again.len(), CLEARED, "one for each time that it was cleared");
    }
}

/// T21: a transaction of a thousand writes, the same document among them twice: all are told apart.
#[tokio::test(flavor = "multi_thread")]
async fn t21_writes_of_one_transaction_are_told_apart() {
    let scene = Scene::new().await;
    scene.listener("all", doc! {}).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    people.insert_one(doc! { "_id": "twice", "n": 0 }).await.unwrap();
    let mut session = scene.client.start_session().await.unwrap();
    session.start_transaction().await.unwrap();
    let many = (0..998).map(|n| doc! { "_id": n });
    people.insert_many(many).session(&mut session).await.unwrap();
    for n in 1..=2 {
        people
            .update_one(doc! { "_id": "twice" }, doc! { "$set": { "n": n } })
            .session(&mut session)
            .await
            .unwrap();
    }
    session.commit_transaction().await.unwrap();
    scene.until("all", 1_001).await;
    let entries = scene.ledger().await;
    let wanted = of(&entries, |_| true);
    assert_eq!(wanted.len(), 1_001);
    ledger::exact("all", &wanted, &scene.rows("all").await);
}

/// Streams of the program that are open at the server, whether one is being read at the moment or not.
async fn cursors(scene: &Scene) -> usize {
    let ours = doc! { "appName": "windlass-listener", "cursor.tailable": true };
    let stages = [doc! { "$currentOp": { "idleCursors": true } }, doc! { "$match": ours }];
    let found = scene.client.database("admin").aggregate(stages).await.unwrap();
    found.try_collect::<Vec<Document>>().await.unwrap().len()
}

/// T25, B21: many tenants and many listeners on one instance, each matched in process; in the long form five hundred
/// listeners of a hundred tenants.
#[tokio::test(flavor = "multi_thread")]
async fn t25_b21_many_listeners_are_matched_in_process() {
    let scene = Scene::on(std::sync::Arc::new(windlass_testkit::mongo::ReplicaSet::one().await)).await;
    let (many, tenants) = if is_full() { (500, 100) } else { (60, 20) };
    for n in 0..many {
        let more = doc! { "operationType": ["insert"], "filter": { "n": n }, "databasePrefix": Bson::Null, "database": format!("{}{}", scene.prefix, n % tenants) };
        scene.listener(&format!("l{n}"), more).await;
    }
    let one = scene.start("one").await;
    let ids: Vec<String> = (0..many).map(|n| format!("l{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    scene.live(&ids, &[&one]).await;
    for n in 0..many {
        let people = scene.db(&format!("{}", n % tenants)).collection::<Document>("people");
        people.insert_one(doc! { "n": n }).await.unwrap();
    }
    for id in &ids {
        scene.until(id, 1).await;
    }
    assert_eq!(
        scene.own("jobs").count_documents(doc! {}).await.unwrap(),
        many as u64,
        "each is matched by one listener"
    );
    eventually("all of them cost the server one cursor", async || (cursors(&scene).await == 1).then_some(()))
        .await;
}

/// B18: an update is judged by what it wrote, also when the document has moved on before it was looked at.
#[tokio::test(flavor = "multi_thread")]
async fn b18_a_quick_change_hides_no_edge() {
    let scene = Scene::new().await;
    scene.listener("edge", doc! { "operationType": ["update"], "filter": { "status": "received", "kind": "a" }, "trigger": "edge" }).await;
    let one = scene.start("one").await;
    scene.live(&["edge"], &[&one]).await;
    let people = scene.people();
    people.insert_one(doc! { "_id": "x", "kind": "a", "status": "new" }).await.unwrap();
    let set = async |change: Document| {
        drop(people.update_one(doc! { "_id": "x" }, doc! { "$set": change }).await.unwrap())
    };
    set(doc! { "status": "received" }).await;
    set(doc! { "status": "done" }).await;
    set(doc! { "status": "received" }).await;
    set(doc! { "note": 1 }).await;
    set(doc! { "note": 2 }).await;
    set(doc! { "status": "done" }).await;
    people.insert_one(doc! { "_id": "y", "kind": "a", "status": "new" }).await.unwrap();
    people.update_one(doc! { "_id": "y" }, doc! { "$set": { "status": "received" } }).await.unwrap();
    eventually("the last has its job", async || {
        scene.own("jobs").find_one(doc! { "data.documentId": "y" }).await.unwrap().map(drop)
    })
    .await;
    assert_eq!(scene.count("edge").await, 3, "two edges of x, one of y, none of the notes");
}
