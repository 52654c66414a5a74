//! Recovery: what is poison, what asks, and who waits for whom.

use mongodb::bson::{Bson, DateTime, Document, doc};
use windlass_testkit::eventually::{answered_within, eventually};

use crate::scene::Scene;

const FIELD: &str = "metadata.listener";

async fn status(scene: &Scene, id: &str) -> Option<Document> {
    let document = scene.people().find_one(doc! { "_id": id }).await.unwrap()?;
    document.get_document("metadata").ok()?.get_document("listener").ok().cloned()
}

async fn complete(scene: &Scene, id: &str) {
    let ask = async || {
        status(scene, id).await.filter(|status| status.get_str("status").is_ok_and(|word| word == "complete"))
    };
    if answered_within(300, ask).await.is_none() {
        let found = scene.people().find_one(doc! { "_id": id }).await;
        panic!("{id} is not complete: {found:?}\n{}", scene.last_words());
    }
}

/// A rule of the rows' owner that refuses those of one document.
async fn refuse_poison(scene: &Scene) {
    let rule = doc! { "create": "jobs", "validator": { "data.documentId": { "$ne": "a-poison" } } };
    scene.client.database(&scene.home).run_command(rule).await.unwrap();
}

async fn dead_letter(scene: &Scene) -> Document {
    let poison = doc! { "document": "a-poison", "state": "dead" };
    eventually("the poison is a dead letter", async || {
        scene.own("listener_dead").find_one(poison.clone()).await.unwrap()
    })
    .await
}

/// What was asked for while nobody ran is done at the start, and not only when the time between two looks is over.
#[tokio::test(flavor = "multi_thread")]
async fn recovery_runs_at_the_start() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "statusField": FIELD, "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    scene.people().insert_one(doc! { "_id": "x" }).await.unwrap();
    complete(&scene, "x").await;
    drop(one);
    let wish = doc! { "$set": { format!("{FIELD}.status"): Bson::Null } };
    scene.people().update_one(doc! { "_id": "x" }, wish).await.unwrap();
    let _two = scene.start_with("two", &[("LISTENER_RECOVERY_SECONDS", "3600")]);
    eventually("it is done again", async || {
        let rows = scene.rows("all").await;
        let is_again = |row: &&Document| {
            row.get_document("data").unwrap().get_str("cause").is_ok_and(|cause| cause == "again")
        };
        let again = rows.iter().filter(is_again);
        (again.count() == 1).then_some(())
    })
    .await;
    complete(&scene, "x").await;
}

/// A document that asks, and whose row is refused, is a dead letter and says why; those behind it are done.
#[tokio::test(flavor = "multi_thread")]
async fn poison_that_asks_holds_up_nobody() {
    let scene = Scene::new().await;
    refuse_poison(&scene).await;
    let asks = |id: &str| doc! { "_id": id, "metadata": { "listener": { "status": Bson::Null } } };
    scene.people().insert_many(["a-poison", "b", "c"].map(asks)).await.unwrap();
    let old = doc! { "statusField": FIELD, "backfill": true, "operationType": ["insert"] };
    scene.listener("all", old).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    for id in ["b", "c"] {
        complete(&scene, id).await;
    }
    let letter = dead_letter(&scene).await;
    assert_eq!(letter.get_str("listener").unwrap(), "all");
    let told = eventually("the document is told", async || {
        status(&scene, "a-poison").await.filter(|status| status.get_str("error").is_ok())
    })
    .await;
    assert!(matches!(told.get("status"), Some(Bson::Null)), "{told}");
    eventually("the backfill behind it is done", async || {
        let position = scene.own("listener_positions").find_one(doc! { "_id": "all" }).await.unwrap()?;
        position.contains_key("backfilledAt").then_some(())
    })
    .await;
    let (_, metrics) = scene.text(&one, "GET", "/metrics", "").await.unwrap();
    assert!(metrics.contains("windlass_listener_dead_letters_total"), "{metrics}");
    // Once the rule is gone, it is done when somebody asks.
    let free = doc! { "collMod": "jobs", "validator": {} };
    scene.client.database(&scene.home).run_command(free).await.unwrap();
    assert_eq!(scene.json(&["retry", "a-poison"]).await["asked"], 1);
    complete(&scene, "a-poison").await;
    assert_eq!(scene.count("all").await, 3, "one job for each\n{}", scene.last_words());
}

/// Poison that is found by a scan is a dead letter, and the scan comes to its end.
#[tokio::test(flavor = "multi_thread")]
async fn poison_in_a_gap_holds_up_nobody() {
    let scene = Scene::new().await;
    refuse_poison(&scene).await;
    scene.listener("all", doc! { "statusField": FIELD, "operationType": ["insert"] }).await;
    scene.people().insert_many(["a-poison", "b", "c"].map(|id| doc! { "_id": id })).await.unwrap();
    let gap = doc! { "_id": "g", "listener": "all", "lane": "all", "state": "open", "code": 286 };
    scene.own("listener_gaps").insert_one(gap).await.unwrap();
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let closed = eventually("the gap is looked through", async || {
        scene.own("listener_gaps").find_one(doc! { "_id": "g", "state": "reconciled" }).await.unwrap()
    })
    .await;
    assert_eq!(closed.get_i64("jobs").unwrap(), 2, "{closed}");
    let letter = dead_letter(&scene).await;
    let told = eventually("the document is told", async || {
        status(&scene, "a-poison").await.filter(|status| status.get_str("error").is_ok())
    })
    .await;
    assert_eq!(told.get_str("error").unwrap(), letter.get_str("error").unwrap());
    for id in ["b", "c"] {
        complete(&scene, id).await;
    }
    assert_eq!(scene.count("all").await, 2);
}

/// An error that somebody else has written (the original, or a person) asks as a null does, once; ours waits for its
/// ladder.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_somebody_else_asks_once() {
    let mut scene = Scene::new().await;
    scene.set("LISTENER_LADDER", "1h");
    scene.listener("all", doc! { "statusField": FIELD, "operationType": ["insert"] }).await;
    let at = DateTime::from_millis(1_700_000_000_000);
    let of_the_original = doc! { "status": Bson::Null, "lastRun": at, "listenerId": "all", "error": "Job save failed: no", "lastError": at };
    let people = scene.people();
    people.insert_one(doc! { "_id": "x", "metadata": { "listener": of_the_original } }).await.unwrap();
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    complete(&scene, "x").await;
    // Its job fails, which we tell: that is no wish.
    let row = scene.rows("all").await.remove(0);
    let failed = doc! { "$set": { "failedAt": at, "lastFinishedAt": at, "failReason": "canary", "nextRunAt": Bson::Null } };
    scene.own("jobs").update_one(doc! { "_id": row.get_object_id("_id").unwrap() }, failed).await.unwrap();
    eventually("the document is told", async || {
        status(&scene, "x").await.filter(|status| status.get_str("error").is_ok_and(|why| why == "canary"))
    })
    .await;
    people
        .insert_one(doc! { "_id": "y", "metadata": { "listener": { "status": Bson::Null } } })
        .await
        .unwrap();
    complete(&scene, "y").await;
    people.update_one(doc! { "_id": "y" }, doc! { "$set": { FIELD: Bson::Null } }).await.unwrap();
    complete(&scene, "y").await;
    let of_x = doc! { "data.documentId": "x" };
    assert_eq!(scene.own("jobs").count_documents(of_x.clone()).await.unwrap(), 1, "{}", scene.last_words());
    // A person writes an error of their own: once more.
    let said = doc! { "$set": { "metadata.listener.error": "please again" } };
    people.update_one(doc! { "_id": "x" }, said).await.unwrap();
    complete(&scene, "x").await;
    assert_eq!(scene.own("jobs").count_documents(of_x).await.unwrap(), 2, "{}", scene.last_words());
}

/// A status that somebody calls an error asks as a null does: once each time, also behind a failure of ours, and never
/// without having been set.
#[tokio::test(flavor = "multi_thread")]
async fn the_word_error_asks_once() {
    let mut scene = Scene::new().await;
    scene.set("LISTENER_LADDER", "1h");
    scene.listener("all", doc! { "statusField": FIELD, "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    people.insert_one(doc! { "_id": "x" }).await.unwrap();
    complete(&scene, "x").await;
    let ask = async || {
        let word = doc! { "$set": { "metadata.listener.status": "error" } };
        people.update_one(doc! { "_id": "x" }, word).await.unwrap();
        complete(&scene, "x").await;
    };
    ask().await;
    assert_eq!(scene.count("all").await, 2, "{}", scene.last_words());
    ask().await;
    assert_eq!(scene.count("all").await, 3, "{}", scene.last_words());
    let at = DateTime::from_millis(1_700_000_000_000);
    let done = status(&scene, "x").await.unwrap();
    let id = mongodb::bson::oid::ObjectId::parse_str(done.get_str("jobId").unwrap()).unwrap();
    let failed = doc! { "$set": { "failedAt": at, "lastFinishedAt": at, "failReason": "canary", "nextRunAt": Bson::Null } };
    scene.own("jobs").update_one(doc! { "_id": id }, failed).await.unwrap();
    eventually("the document is told", async || {
        status(&scene, "x").await.filter(|status| status.get_str("error").is_ok_and(|why| why == "canary"))
    })
    .await;
    ask().await;
    assert_eq!(scene.count("all").await, 4, "{}", scene.last_words());
    // Two rounds later, by what others asked for in them.
    for id in ["y", "z"] {
        people.insert_one(doc! { "_id": id }).await.unwrap();
        complete(&scene, id).await;
        people.update_one(doc! { "_id": id }, doc! { "$set": { FIELD: Bson::Null } }).await.unwrap();
        complete(&scene, id).await;
    }
    let of_x = doc! { "data.documentId": "x" };
    assert_eq!(scene.own("jobs").count_documents(of_x).await.unwrap(), 4, "{}", scene.last_words());
}

/// A listener whose edit cannot be understood does nothing, and says so; the instance is healthy all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_edit_is_a_warning() {
    let scene = Scene::new().await;
    scene.listener("good", doc! { "operationType": ["insert"] }).await;
    scene.listener("bad", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["good", "bad"], &[&one]).await;
    let edit = async |set: Document| {
        scene.own("listeners").update_one(doc! { "_id": "bad" }, doc! { "$set": set }).await.unwrap();
    };
    edit(doc! { "operationType": ["drop"] }).await;
    let health = eventually("health warns of it", async || {
        let (code, health) = scene.get(&one, "/healthz").await?;
        let warned = health["warnings"].to_string().contains("listener bad");
        warned.then_some((code, health))
    })
    .await;
    assert_eq!(health.0, 200, "{}", health.1);
    scene.settled("good", &scene.people()).await;
    assert_eq!(scene.count("bad").await, 0);
    // Mended, it goes on from that moment.
    edit(doc! { "operationType": ["insert"] }).await;
    scene.live(&["bad"], &[&one]).await;
    scene.settled("bad", &scene.people()).await;
    eventually("nothing is left to warn of", async || {
        let (code, health) = scene.get(&one, "/healthz").await?;
        (code == 200 && health["warnings"] == serde_json::json!([])).then_some(())
    })
    .await;
}

/// What `add` would refuse does not run when a driver wrote it either: it is shown with the reason, touches nobody's
/// status, and runs from the moment on at which it is mended.
#[tokio::test(flavor = "multi_thread")]
async fn b19_what_a_driver_wrote_past_us_is_refused_too() {
    let scene = Scene::new().await;
    let field = doc! { "statusField": FIELD, "operationType": ["insert"] };
    scene.listener("first", field.clone()).await;
    let one = scene.start("one").await;
    scene.live(&["first"], &[&one]).await;
    // Before the other by its id, and yet the second.
    scene.listener("a-second", field).await;
    let never = doc! { "operationType": ["insert"], "filter": { "fullDocument.x": 1 } };
    scene.listener("never", never).await;
    eventually("both are refused", async || {
        let (code, health) = scene.get(&one, "/healthz").await?;
        let warnings = health["warnings"].to_string();
        let both = warnings.contains("a-second") && warnings.contains("never");
        (code == 200 && both).then_some(())
    })
    .await;
    scene.people().insert_one(doc! { "_id": "x" }).await.unwrap();
    complete(&scene, "x").await;
    scene.settled("first", &scene.people()).await;
    assert_eq!((scene.count("a-second").await, scene.count("never").await), (0, 0), "{}", scene.last_words());
    assert_eq!(status(&scene, "x").await.unwrap().get_str("listenerId").unwrap(), "first");
    let shown = scene.json(&["status"]).await;
    let problem = |id: &str| {
        let lanes = shown["lanes"].as_array().unwrap();
        lanes.iter().find(|lane| lane["listener"] == id).unwrap()["problem"].as_str().map(str::to_owned)
    };
    assert!(problem("a-second").unwrap().contains("statusField"), "{shown}");
    assert!(problem("never").unwrap().contains("dialect") && problem("first").is_none(), "{shown}");
    assert_eq!(scene.owner("a-second").await, None);
    let listed = String::from_utf8(scene.run(&["ls"]).await.stdout).unwrap();
    let line = |id: &str| listed.lines().find(|line| line.starts_with(id)).unwrap_or_default().to_owned();
    assert!(line("a-second").ends_with("refused") && line("first").ends_with("active"), "{listed}");
    assert!(listed.contains("never is refused: "), "with the reason: {listed}");
    // Who is refused keeps nobody from changing the one that runs, and can be stopped as it is.
    let (code, answer) = scene.ask(&one, "PATCH", "/listeners/first", r#"{"priority": 3}"#).await.unwrap();
    assert_eq!((code, &answer["priority"]), (200, &serde_json::json!(3)), "{answer}");
    assert!(scene.run(&["pause", "never"]).await.status.success());
    let mended = doc! { "$set": { "statusField": "metadata.listeners.<id>" } };
    scene.own("listeners").update_one(doc! { "_id": "a-second" }, mended).await.unwrap();
    scene.live(&["a-second"], &[&one]).await;
    scene.people().insert_one(doc! { "_id": "y" }).await.unwrap();
    scene.until("a-second", 1).await;
    scene.settled("a-second", &scene.people()).await;
    assert_eq!(scene.count("a-second").await, 2, "what came while it was refused is left out");
    // An edit that makes it the second again puts it down.
    let back = doc! { "$set": { "statusField": FIELD } };
    scene.own("listeners").update_one(doc! { "_id": "a-second" }, back).await.unwrap();
    eventually("nobody has the later one", async || {
        let owners = (scene.owner("first").await, scene.owner("a-second").await);
        matches!(owners, (None, Some(_)) | (Some(_), None)).then_some(())
    })
    .await;
}

/// A scan of many documents goes on in turns, and documents of others that ask are done meanwhile; it comes to all.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_scan_holds_up_nobody_and_comes_to_its_end() {
    let mut scene = Scene::new().await;
    scene.set("LISTENER_SCAN_DOCUMENTS", "5");
    let many = (0..400).map(|n| doc! { "_id": n });
    scene.people().insert_many(many).await.unwrap();
    let others = scene.db("a").collection::<Document>("others");
    let asks = doc! { "_id": "x", "metadata": { "listener": { "status": Bson::Null } } };
    others.insert_one(asks).await.unwrap();
    scene.listener("a-long", doc! { "backfill": true, "operationType": ["insert"] }).await;
    let short = doc! { "collection": "others", "statusField": FIELD, "operationType": ["insert"] };
    scene.listener("short", short).await;
    let one = scene.start("one").await;
    scene.live(&["a-long", "short"], &[&one]).await;
    scene.until("short", 1).await;
    let reached = scene.own("listener_positions").find_one(doc! { "_id": "a-long" }).await.unwrap().unwrap();
    assert!(!reached.contains_key("backfilledAt"), "the other was done before the scan was: {reached}");
    // Where it is outlives its owner.
    eventually("where it is, is stored", async || {
        let position = scene.own("listener_positions").find_one(doc! { "_id": "a-long" }).await.unwrap()?;
        position.get_document("backfillCursor").ok().map(drop)
    })
    .await;
    one.program.kill();
    let _two = scene.start("two").await;
    scene.until("a-long", 400).await;
    eventually("it is done", async || {
        let position = scene.own("listener_positions").find_one(doc! { "_id": "a-long" }).await.unwrap()?;
        position.contains_key("backfilledAt").then_some(())
    })
    .await;
    assert_eq!(scene.count("a-long").await, 400, "one job for each\n{}", scene.last_words());
}

/// Documents that ask and do not match, as many as a look takes, hide none that does.
#[tokio::test(flavor = "multi_thread")]
async fn those_that_do_not_match_hide_none_that_does() {
    let mut scene = Scene::new().await;
    scene.set("LISTENER_SCAN_DOCUMENTS", "5");
    let asks = |id: String, kind: &str| doc! { "_id": id, "kind": kind, "metadata": { "listener": { "status": Bson::Null } } };
    let many = (0..20).map(|n| asks(format!("a{n}"), "other")).chain([asks("z".to_owned(), "wanted")]);
    scene.people().insert_many(many).await.unwrap();
    let of_events = doc! { "statusField": FIELD, "dialect": "event", "operationType": ["insert", "update"], "filter": { "fullDocument.kind": "wanted" } };
    scene.listener("all", of_events).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    complete(&scene, "z").await;
    assert_eq!(scene.count("all").await, 1);
}

/// A row of a document that was asked for is due behind those that are yet to run.
#[tokio::test(flavor = "multi_thread")]
async fn a_wish_is_due_behind_what_is_yet_to_run() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "statusField": FIELD, "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    people.insert_one(doc! { "_id": "x" }).await.unwrap();
    complete(&scene, "x").await;
    let row = scene.rows("all").await.remove(0);
    let id = row.get_object_id("_id").unwrap();
    let later = DateTime::from_millis(row.get_datetime("nextRunAt").unwrap().timestamp_millis() + 3_600_000);
    scene.own("jobs").update_one(doc! { "_id": id }, doc! { "$set": { "nextRunAt": later } }).await.unwrap();
    people.update_one(doc! { "_id": "x" }, doc! { "$set": { FIELD: Bson::Null } }).await.unwrap();
    scene.until("all", 2).await;
    let rows = scene.rows("all").await;
    let second = rows.iter().find(|row| row.get_object_id("_id").unwrap() != id).unwrap();
    assert!(*second.get_datetime("nextRunAt").unwrap() > later, "{second}");
}

/// A document whose rows were deleted is found by its history, whatever its id is; one that is gone is said to be.
#[tokio::test(flavor = "multi_thread")]
async fn a_document_without_rows_is_done_again_and_one_that_is_gone_is_not() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "statusField": FIELD, "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let (people, id) = (scene.people(), mongodb::bson::oid::ObjectId::new());
    people.insert_one(doc! { "_id": id }).await.unwrap();
    scene.until("all", 1).await;
    let text = id.to_hex();
    eventually("its history is noted", async || {
        let shown = scene.json(&["doc", &text]).await;
        (shown["history"] != serde_json::json!([])).then_some(())
    })
    .await;
    eventually("its status is written", async || {
        people.find_one(doc! { "_id": id, "metadata.listener.status": "complete" }).await.unwrap()
    })
    .await;
    scene.own("jobs").delete_many(doc! {}).await.unwrap();
    assert_eq!(scene.json(&["retry", &text]).await["asked"], 1);
    scene.until("all", 1).await;
    people.delete_one(doc! { "_id": id }).await.unwrap();
    let gone = scene.run(&["retry", &text]).await;
    assert_eq!(gone.status.code(), Some(3), "{gone:?}");
    assert!(String::from_utf8_lossy(&gone.stderr).contains("not there any more"), "{gone:?}");
    let (code, answer) =
        scene.ask(&one, "POST", "/retry", &format!(r#"{{"document": "{text}"}}"#)).await.unwrap();
    assert_eq!(code, 404, "{answer}");
}

/// What somebody asks for by name is done, though the filter has another opinion of the document by now.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_asked_for_by_name_is_done_whatever_the_filter_says_by_now() {
    let scene = Scene::new().await;
    let received =
        doc! { "statusField": FIELD, "operationType": ["insert"], "filter": { "kind": "received" } };
    scene.listener("all", received).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    people.insert_one(doc! { "_id": "x", "kind": "received" }).await.unwrap();
    complete(&scene, "x").await;
    people.update_one(doc! { "_id": "x" }, doc! { "$set": { "kind": "half" } }).await.unwrap();
    eventually("its history is noted", async || {
        (scene.json(&["doc", "x"]).await["history"] != serde_json::json!([])).then_some(())
    })
    .await;
    assert_eq!(scene.json(&["retry", "x"]).await["asked"], 1);
    scene.until("all", 2).await;
    complete(&scene, "x").await;
    // A null alone keeps to the filter.
    people.update_one(doc! { "_id": "x" }, doc! { "$set": { FIELD: Bson::Null } }).await.unwrap();
    people.insert_one(doc! { "_id": "y", "kind": "received" }).await.unwrap();
    complete(&scene, "y").await;
    people.update_one(doc! { "_id": "y" }, doc! { "$set": { FIELD: Bson::Null } }).await.unwrap();
    complete(&scene, "y").await;
    let of_x = scene.own("jobs").count_documents(doc! { "data.documentId": "x" }).await.unwrap();
    assert_eq!(of_x, 2, "{}", scene.last_words());
}
