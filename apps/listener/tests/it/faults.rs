//! Faults: of the program, of the server, of the network, and of documents.

use std::sync::Arc;
use std::time::Duration;

use mongodb::Collection;
use mongodb::bson::{Document, doc};
use windlass_testkit::eventually::{answered_within, eventually};
use windlass_testkit::mongo::{Options, ReplicaSet};

use crate::cable::Cable;
use crate::ledger;
use crate::scene::{Scene, hold, is_full};

async fn check_all(scene: &Scene, listener: &str) {
    scene.settled(listener, &scene.people()).await;
    let entries = scene.ledger().await;
    let wanted: Vec<_> =
        entries.iter().filter(|entry| entry.collection == "people" && entry.operation == "insert").collect();
    ledger::exact(listener, &wanted, &scene.rows(listener).await);
}

/// Makes the server stand still before it does what is named, for our program only.
async fn block(scene: &Scene, commands: &[&str]) -> Document {
    let data = doc! { "failCommands": commands, "appName": "windlass-listener", "blockConnection": true, "blockTimeMS": 3_000 };
    let point = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data };
    scene.client.database("admin").run_command(point).await.unwrap()
}

/// Waits until somebody has come to a fail point so often since it was set.
async fn reached(scene: &Scene, before: &Document, times: i64) {
    let count = before.get_i64("count").unwrap_or_else(|_| i64::from(before.get_i32("count").unwrap()));
    let wait = doc! { "waitForFailPoint": "failCommand", "timesEntered": count + times, "maxTimeMS": 20_000 };
    let came = scene.client.database("admin").run_command(wait).await;
    assert!(came.is_ok(), "nobody comes to the fail point: {came:?}\n{}", scene.last_words());
}

async fn unblock(scene: &Scene) {
    let point = doc! { "configureFailPoint": "failCommand", "mode": "off" };
    scene.client.database("admin").run_command(point).await.unwrap();
}

/// T3, B1: kill -9 at each point between the event and its row: when it was read, before the transaction, between
/// rows and position, before the commit and behind it. In the long form fifty times each.
#[tokio::test(flavor = "multi_thread")]
async fn t03_b01_killed_at_each_point() {
    let scene = Scene::with_failpoints().await;
    scene.listener("all", doc! { "operationType": ["insert"], "statusField": "metadata.listener" }).await;
    let people = scene.people();
    let mut written = 0;
    for round in 0..if is_full() { 50 } else { 3 } {
        for point in ["getMore", "insert", "update", "commitTransaction", "none"] {
            let name = format!("{point}{round}");
            let instance = scene.start(&name).await;
            scene.live(&["all"], &[&instance]).await;
            scene.until("all", written).await;
            let mut before = Document::new();
            if point != "none" {
                before = block(&scene, &[point]).await;
            }
            let many = (0..50).map(|n| doc! { "n": n });
            people.insert_many(many).await.unwrap();
            written += 50;
            match point {
                // Behind the commit: the rows are there, and the statuses are being written.
                "none" => scene.until("all", written).await,
                _ => {
                    // It stands at that point now.
                    reached(&scene, &before, 1).await;
                }
            }
            instance.program.kill();
            unblock(&scene).await;
        }
    }
    let last = scene.start("last").await;
    scene.live(&["all"], &[&last]).await;
    check_all(&scene, "all").await;
    eventually("what was left of the status is written", async || {
        let left =
            people.count_documents(doc! { "metadata.listener.status": { "$ne": "complete" } }).await.unwrap();
        (left == 0).then_some(())
    })
    .await;
}

/// A listener that is added while its beginning cannot be written: what comes behind it has its job all the same.
#[tokio::test(flavor = "multi_thread")]
async fn a_listener_begins_where_it_was_added_whatever_the_server_says() {
    let scene = Scene::with_failpoints().await;
    scene.listener("other", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["other"], &[&one]).await;
    // An election, for whoever writes positions; of finds, too, since the listener is read before.
    for round in 0..2 {
        let (command, place) = [("find", "listeners"), ("update", "listener_positions")][round];
        let data = doc! { "failCommands": [command], "appName": "windlass-listener", "errorCode": 11602,
        "namespace": format!("{}.{place}", scene.home) };
        let point = doc! { "configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data };
        let before = scene.client.database("admin").run_command(point).await.unwrap();
        let id = format!("new{round}");
        scene.listener(&id, doc! { "operationType": ["insert"] }).await;
        let many = (0..20).map(|n| doc! { "round": round as i32, "n": n });
        scene.people().insert_many(many).await.unwrap();
        // More often than one who gives up would ask.
        reached(&scene, &before, 12).await;
        unblock(&scene).await;
        scene.live(&[id.as_str()], &[&one]).await;
        scene.settled(&id, &scene.people()).await;
        let rows = scene.rows(&id).await;
        let of_round = rows.iter().filter(|row| {
            !row.get_document("data").unwrap().get_str("documentId").unwrap().starts_with("marker")
        });
        assert_eq!(of_round.count(), 20, "{}", scene.last_words());
    }
}

/// How soon it goes on behind an election.
const GOES_ON: Duration = Duration::from_secs(10);

/// T6: step-downs and a killed primary under load, and a minute's worth of no primary: no restart, and exact.
#[tokio::test(flavor = "multi_thread")]
async fn t06_step_downs_and_a_killed_primary() {
    let mut scene = Scene::on(Arc::new(ReplicaSet::three().await)).await;
    let uri = format!("{}&serverSelectionTimeoutMS=2000", scene.set.uri());
    scene.set("MONGODB_URI", &uri);
    scene.set("LISTENER_LOCK_SECONDS", "10");
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    let writing = {
        let people = people.clone();
        tokio::spawn(async move {
            for n in 0..1_500 {
                // Each write is tried until it is there: the ledger says how often it was.
                let id = format!("w{n}");
                loop {
                    match people
                        .update_one(doc! { "_id": &id }, doc! { "$setOnInsert": { "n": n } })
                        .upsert(true)
                        .await
                    {
                        Ok(_) => break,
                        Err(_) => tokio::task::yield_now().await,
                    }
                }
            }
        })
    };
    scene.until("all", 100).await;
    for round in 0..3 {
        let before = scene.set.step_down(5).await;
        eventually("there is another primary", async || (scene.set.primary().await != before).then_some(()))
            .await;
        let marker = format!("behind-{round}");
        eventually("it takes writes", async || people.insert_one(doc! { "_id": &marker }).await.ok()).await;
        scene.row_within(&marker, GOES_ON).await;
    }
    let primary = scene.set.primary().await;
    scene.set.kill(primary).await;
    let now = scene.count("all").await;
    scene.until("all", (now + 50).min(1_500)).await;
    // With two of three gone there is no primary, for longer than the driver waits.
    let second = scene.set.primary().await;
    scene.set.kill(second).await;
    let health = eventually("it lives, and says that it is not healthy", async || {
        scene.get(&one, "/healthz").await.filter(|(status, _)| *status == 503)
    })
    .await;
    assert!(health.1["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()), "{}", health.1);
    hold(if is_full() { Duration::from_secs(60) } else { Duration::from_secs(4) }).await;
    scene.set.start(primary).await;
    scene.set.start(second).await;
    scene.set.primary().await;
    writing.await.unwrap();
    check_all(&scene, "all").await;
    scene.ready(&one).await;
}

/// T7: the network between an instance and the server is cut for longer than a lease: the work moves, and nothing is
/// doubled when it heals.
#[tokio::test(flavor = "multi_thread")]
async fn t07_the_network_is_cut() {
    let scene = Scene::on(Arc::new(ReplicaSet::one().await)).await;
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let cable = Cable::to(scene.set.authority(0)).await;
    let through =
        format!("mongodb://127.0.0.1:{}/?directConnection=true&serverSelectionTimeoutMS=1000", cable.port);
    let a = scene.start_with("a", &[("MONGODB_URI", &through)]);
    scene.ready(&a).await;
    scene.live(&["all"], &[&a]).await;
    let b = scene.start("b").await;
    let people = scene.people();
    let write = async |many: i32| {
        for n in 0..many {
            people.insert_one(doc! { "n": n }).await.unwrap();
        }
    };
    write(50).await;
    scene.until("all", 50).await;
    cable.set_cut(true);
    let meanwhile = async {
        write(50).await;
        scene.owned_by("all", "b").await;
        scene.until("all", 100).await;
        let (status, health) = eventually("the one that is cut off says so", async || {
            scene.get(&a, "/healthz").await.filter(|(status, _)| *status == 503)
        })
        .await;
        assert!(health["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty()), "{status} {health}");
    };
    // Twice a lease of three seconds.
    tokio::join!(hold(Duration::from_secs(6)), meanwhile);
    cable.set_cut(false);
    scene.ready(&a).await;
    write(50).await;
    check_all(&scene, "all").await;
    drop(b);
}

async fn small_oplog() -> Scene {
    let arguments =
        ["--syncdelay", "1", "--setParameter", "enableTestCommands=1"].map(str::to_owned).to_vec();
    let options = Options { oplog_mb: 1, arguments, ..Options::default() };
    Scene::on(Arc::new(ReplicaSet::with(options).await)).await
}

/// Writes until the server has forgotten a moment.
async fn roll(scene: &Scene, since: mongodb::bson::Timestamp) {
    let forgotten = answered_within(400, async || {
        fill(scene, 20).await;
        (oldest(scene).await? > since).then_some(())
    });
    assert!(forgotten.await.is_some(), "the oplog does not roll");
}

/// A busy neighbour: writes of 200 KB each.
async fn fill(scene: &Scene, writes: usize) {
    let filler: Collection<Document> = scene.client.database("filler").collection("filler");
    let big = "x".repeat(200_000);
    for _ in 0..writes {
        filler.insert_one(doc! { "big": &big }).await.unwrap();
    }
}

/// The first moment that the server remembers.
async fn oldest(scene: &Scene) -> Option<mongodb::bson::Timestamp> {
    let oplog = scene.client.database("local").collection::<Document>("oplog.rs");
    let first = oplog.find_one(doc! {}).sort(doc! { "$natural": 1 }).await.unwrap()?;
    first.get_timestamp("ts").ok()
}

async fn now(scene: &Scene) -> mongodb::bson::Timestamp {
    scene
        .client
        .database("admin")
        .run_command(doc! { "hello": 1 })
        .await
        .unwrap()
        .get_timestamp("operationTime")
        .unwrap()
}

/// T9: history was lost while nobody ran: the gap is recorded with its window, what is there and matches has one job
/// each, and deletes are said to be unrecoverable.
#[tokio::test(flavor = "multi_thread")]
async fn t09_lost_history_is_recorded_and_looked_through() {
    let scene = small_oplog().await;
    scene
        .listener(
            "all",
            doc! { "filter": { "_id": { "$exists": true } }, "statusField": "metadata.listener" },
        )
        .await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let people = scene.people();
    people.insert_one(doc! { "_id": "before" }).await.unwrap();
    scene.until("all", 1).await;
    eventually("its status is written", async || {
        people.find_one(doc! { "_id": "before", "metadata.listener.status": "complete" }).await.unwrap()
    })
    .await;
    one.program.kill();
    for n in 0..30 {
        people.insert_one(doc! { "_id": format!("lost{n}") }).await.unwrap();
    }
    people.delete_one(doc! { "_id": "lost29" }).await.unwrap();
    roll(&scene, now(&scene).await).await;
    let two = scene.start("two").await;
    scene.until("all", 30).await;
    eventually("the gap is closed", async || {
        scene.own("listener_gaps").find_one(doc! { "state": "reconciled" }).await.unwrap().map(drop)
    })
    .await;
    scene.settled("all", &people).await;
    assert_eq!(scene.count("all").await, 1 + 29 + 1, "{}", scene.last_words());
    let gaps = scene.lines(&["gaps"]).await;
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(
        gaps[0]["deletes"] == "unrecoverable" && gaps[0]["code"] == 286 && gaps[0]["jobs"] == 29,
        "{gaps:?}"
    );
    let (_, metrics) = scene.text(&two, "GET", "/metrics", "").await.unwrap();
    assert!(
        metrics.contains("windlass_listener_gaps_total 1") && metrics.contains("code=\"286\""),
        "{metrics}"
    );
}

/// T10: the oplog rolls past an open stream that stands still.
#[tokio::test(flavor = "multi_thread")]
async fn t10_history_is_lost_under_an_open_stream() {
    let scene = small_oplog().await;
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    one.freeze();
    let people = scene.people();
    for n in 0..20 {
        people.insert_one(doc! { "_id": format!("lost{n}") }).await.unwrap();
    }
    roll(&scene, now(&scene).await).await;
    one.thaw();
    scene.until("all", 20).await;
    scene.settled("all", &people).await;
    assert_eq!(scene.count("all").await, 21, "{}", scene.last_words());
    let gap = eventually("the gap is recorded and closed", async || {
        scene.own("listener_gaps").find_one(doc! { "state": "reconciled" }).await.unwrap()
    })
    .await;
    // By the cursor that stood still; or by its token, when the driver was faster to open it again.
    assert!(matches!(gap.get_i32("code").unwrap(), 136 | 286), "{gap}");
    assert!(gap.get_datetime("from").unwrap() <= gap.get_datetime("to").unwrap(), "{gap}");
    // The first may have been on its way when the program was frozen.
    assert!((1..=20).contains(&gap.get_i64("jobs").unwrap()), "{gap}");
}

/// T11: a quiet listener beside a busy neighbour keeps its position fresh, and starts again without a gap.
#[tokio::test(flavor = "multi_thread")]
async fn t11_an_idle_position_stays_fresh() {
    let scene = small_oplog().await;
    scene.listener("quiet", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["quiet"], &[&one]).await;
    let began = now(&scene).await;
    // Never more at once than the oplog holds: what is forgotten before anybody could have read it is no idle position.
    let forgotten = answered_within(400, async || {
        fill(&scene, 3).await;
        let written = now(&scene).await;
        eventually("the position follows what others write", async || {
            let position =
                scene.own("listener_positions").find_one(doc! { "_id": "quiet" }).await.unwrap()?;
            (position.get_timestamp("clusterTime").ok()? >= written).then_some(())
        })
        .await;
        (oldest(&scene).await? > began).then_some(())
    });
    assert!(forgotten.await.is_some(), "the oplog does not roll");
    one.program.kill();
    let two = scene.start("two").await;
    scene.live(&["quiet"], &[&two]).await;
    scene.settled("quiet", &scene.people()).await;
    let gaps = scene.own("listener_gaps").count_documents(doc! {}).await.unwrap();
    assert_eq!(gaps, 0, "{}", scene.last_words());
    assert_eq!(scene.count("quiet").await, 1);
}
