//! Verbs, settings and the REST side.

use std::process::{Command, Stdio};

use mongodb::bson::doc;
use windlass_testkit::eventually::eventually;

use crate::scene::{Scene, free_port};

/// Settings that are missing or wrong are named, without their values, and the program ends with 1.
#[tokio::test(flavor = "multi_thread")]
async fn settings_are_named() {
    let mut command = Command::new(windlass_testkit::binary::windlass_full());
    let output = command.args(["listener"]).env_clear().output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("MONGODB_URI"), "{output:?}");
    let mut command = Command::new(windlass_testkit::binary::windlass_full());
    command
        .args(["listener"])
        .env_clear()
        .envs([("MONGODB_URI", "mongodb://u:canary@127.0.0.1:1/"), ("LISTENER_LOCK_SECONDS", "soon")]);
    let output = command.output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("LISTENER_LOCK_SECONDS") && !said.contains("canary"), "{said}");
}

/// What is wrong is named by its setting, in words, and without what is secret.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_named_by_its_setting() {
    let uri = ("MONGODB_URI", "mongodb://u:canary@127.0.0.1:1");
    let quick = ("MONGODB_PARAMS", "serverSelectionTimeoutMS=200");
    let cases = [
        ([uri, ("MONGODB_PARAMS", "bogus=1")], "MONGODB_PARAMS cannot be read"),
        ([uri, quick], "no primary among 127.0.0.1:1 (I/O error: Connection refused"),
        ([uri, ("LISTENER_CONFIG", "/nope.toml")], "LISTENER_CONFIG names /nope.toml"),
        ([("MONGODB_URI", "mongodb://u:canary@127.0.0.1:1/people"), quick], "LISTENER_DATABASE"),
    ];
    for (env, words) in cases {
        let mut command = Command::new(windlass_testkit::binary::windlass_full());
        command.args(["listener", "--listen", "127.0.0.1:0"]);
        let output = command.env_clear().envs(env).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(words) && !said.contains("canary") && !said.contains("Topology"), "{said}");
    }
}

/// A single server without a replica set is recognised, and explained.
#[tokio::test(flavor = "multi_thread")]
async fn a_standalone_server_is_explained() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../stores/mongo/tests/mongod");
    let mongod = String::from_utf8(Command::new(script).output().unwrap().stdout).unwrap();
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port());
    let mut server = Command::new(mongod.trim());
    server
        .args(["--port", &port.to_string(), "--bind_ip", "127.0.0.1", "--nounixsocket", "--dbpath"])
        .arg(folder.path());
    let server =
        windlass_testkit::program::Program::start(server.stdout(Stdio::null()).stderr(Stdio::null()));
    let said = eventually("the program says why", async || {
        let mut command = Command::new(windlass_testkit::binary::windlass_full());
        command
            .args(["listener", "ls"])
            .env_clear()
            .env("MONGODB_URI", format!("mongodb://127.0.0.1:{port}"));
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1));
        said.contains("replica set").then_some(said)
    })
    .await;
    assert!(said.contains("rs.initiate()") && said.contains("--replSet"), "{said}");
    drop(server);
}

/// B11, B19: what can never match, and what would overwrite another's status, is refused by the verb and by REST.
#[tokio::test(flavor = "multi_thread")]
async fn b11_b19_listeners_are_refused_with_the_reason() {
    let scene = Scene::new().await;
    let refused = scene
        .run(&["add", "--collection", "people", "--job", "j", "--filter", r#"{"fullDocument.a": 1}"#])
        .await;
    assert_eq!(refused.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("dialect"), "{refused:?}");
    let limits = ["--concurrency", "2", "--priority", "-3"];
    let words = ["add", "--collection", "people", "--job", "j", "--prefix", &scene.prefix];
    let made = scene.run(&[&words[..], &limits[..]].concat()).await;
    assert!(made.status.success(), "{made:?}");
    let id = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let second = scene.run(&["add", "--collection", "people", "--job", "k", "--prefix", &scene.prefix]).await;
    assert_eq!(second.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&second.stderr).contains("statusField"), "{second:?}");
    let one = scene.start("one").await;
    let body = format!(
        r#"{{"collection": "people", "jobName": "k", "databasePrefix": "{}", "filter": {{"$where": "1"}}}}"#,
        scene.prefix
    );
    let (status, answer) = scene.ask(&one, "POST", "/listeners", &body).await.unwrap();
    assert!(status == 400 && answer["error"]["message"].as_str().unwrap().contains("$where"), "{answer}");
    let body =
        body.replace(r#", "filter": {"$where": "1"}"#, r#", "statusField": "metadata.listeners.<id>""#);
    let (status, answer) = scene.ask(&one, "POST", "/listeners", &body).await.unwrap();
    assert_eq!(status, 201, "{answer}");
    scene.people().insert_one(doc! { "_id": "x" }).await.unwrap();
    // It hears what is written from the moment on that it was made.
    scene.until(answer["_id"]["$oid"].as_str().unwrap(), 1).await;
    scene.until(&id, 1).await;
    assert_eq!(scene.lines(&["ls"]).await.len(), 2);
    let shown = scene.json(&["show", &id]).await;
    assert_eq!(
        (&shown["jobName"], &shown["concurrency"], &shown["priority"]),
        (&"j".into(), &2.into(), &(-3).into())
    );
    assert_eq!(scene.run(&["show", "nobody"]).await.status.code(), Some(3));
}

/// Status, locks, metrics and health say what is.
#[tokio::test(flavor = "multi_thread")]
async fn status_locks_metrics_and_health() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    scene.settled("all", &scene.people()).await;
    let status = scene.json(&["status"]).await;
    let lane = &status["lanes"][0];
    assert!(lane["owner"].as_str().unwrap().starts_with("one-"), "{status}");
    assert!(lane["lease_age"].as_f64().unwrap() < 3.0 && lane["lag"].as_f64().unwrap() < 60.0, "{status}");
    assert!(status["oplog_window"].as_f64().is_some(), "{status}");
    let locks = scene.run(&["locks"]).await;
    assert!(String::from_utf8_lossy(&locks.stdout).contains("held"), "{locks:?}");
    let (code, metrics) = scene.text(&one, "GET", "/metrics", "").await.unwrap();
    assert_eq!(code, 200);
    for line in [
        "windlass_listener_locks_taken_total 1",
        "windlass_listener_jobs_total 1",
        "windlass_listener_lag_seconds{listener=\"all\"}",
        "heartbeat_age_seconds",
        "stale_locks_seen_total",
    ] {
        assert!(metrics.contains(line), "{line}\n{metrics}");
    }
    // An instance that owns nothing is healthy when it sees the listeners.
    let idle = scene.start("idle").await;
    let (code, health) = scene.get(&idle, "/healthz").await.unwrap();
    assert_eq!((code, health["lanes"].as_u64()), (200, Some(0)), "{health}");
    for path in ["/health", "/readyz"] {
        let (code, said) = scene.get(&idle, path).await.unwrap();
        assert_eq!((code, said["status"].as_str()), (200, Some("ok")), "{path}: {said}");
    }
    let check = scene.run(&["check"]).await;
    assert!(check.status.success(), "{check:?}");
    assert!(scene.lines(&["gaps"]).await.is_empty());
    // A gap that nobody has looked through makes nobody unhealthy, and everybody says so.
    scene.listener("another", doc! { "isActive": false }).await;
    let gap = doc! { "_id": "gap", "listener": "another", "lane": "another", "state": "open" };
    scene.own("listener_gaps").insert_one(gap).await.unwrap();
    let open_gaps = async |wanted: u64| {
        eventually("health counts the gaps", async || {
            let (code, health) = scene.get(&idle, "/healthz").await?;
            (code == 200 && health["open_gaps"] == wanted).then_some(health)
        })
        .await
    };
    let health = open_gaps(1).await;
    assert!(health["warnings"][0].as_str().unwrap().contains("history was lost"), "{health}");
    let (_, metrics) = scene.text(&idle, "GET", "/metrics", "").await.unwrap();
    assert!(metrics.contains("windlass_listener_open_gaps 1"), "{metrics}");
    // With the listener goes what was open of it.
    scene.own("listeners").delete_one(doc! { "_id": "another" }).await.unwrap();
    assert_eq!(open_gaps(0).await["warnings"], serde_json::json!([]));
}

/// Replay reads the history again; what has its job makes no second one, and what was taken away is made anew.
#[tokio::test(flavor = "multi_thread")]
async fn replay_makes_what_is_missing() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    for n in 0..20 {
        scene.people().insert_one(doc! { "_id": n }).await.unwrap();
    }
    scene.until("all", 20).await;
    scene.own("jobs").delete_many(doc! { "data.documentId": { "$in": ["3", "4"] } }).await.unwrap();
    let from = scene.beginning();
    let replayed = scene.run(&["replay", "all", "--from", &from]).await;
    assert!(replayed.status.success(), "{replayed:?}");
    scene.until("all", 20).await;
    scene.settled("all", &scene.people()).await;
    assert_eq!(scene.count("all").await, 21);
    // All of them, when none is named.
    scene.own("jobs").delete_many(doc! { "data.documentId": "5" }).await.unwrap();
    let replayed = scene.run(&["replay", "--from", &from]).await;
    assert!(replayed.status.success(), "{replayed:?}");
    scene.until("all", 21).await;
}

/// Documents that did not go through are listed with the reason, and done again one by one or all together.
#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_and_done_again() {
    let scene = Scene::new().await;
    let rule =
        doc! { "create": "jobs", "validator": { "data.documentId": { "$nin": ["bad1", "bad2", "bad3"] } } };
    scene.client.database(&scene.home).run_command(rule).await.unwrap();
    scene.listener("all", doc! { "operationType": ["insert"], "statusField": "metadata.listener" }).await;
    scene.listener("other", doc! { "operationType": ["insert"], "collection": "others" }).await;
    let one = scene.start("one").await;
    scene.live(&["all", "other"], &[&one]).await;
    assert!(scene.lines(&["dead"]).await.is_empty());
    scene.people().insert_many(["bad1", "bad2", "bad3"].map(|id| doc! { "_id": id })).await.unwrap();
    scene.settled("all", &scene.people()).await;
    let dead = scene.lines(&["dead", "--listener", "all"]).await;
    assert_eq!(dead.len(), 3, "{dead:?}");
    let ids: std::collections::BTreeSet<&str> =
        dead.iter().filter_map(|letter| letter["document"].as_str()).collect();
    assert_eq!(ids, ["bad1", "bad2", "bad3"].into());
    assert!(dead[0]["error"].as_str().is_some_and(|why| !why.is_empty()), "{dead:?}");
    assert!(scene.lines(&["dead", "--listener", "other"]).await.is_empty());
    assert_eq!(scene.run(&["dead", "--listener", "nobody"]).await.status.code(), Some(3));
    let text = scene.run(&["dead"]).await;
    assert!(String::from_utf8_lossy(&text.stdout).contains("bad2"), "{text:?}");
    let (code, listed) = scene.get(&one, "/dead?listener=all").await.unwrap();
    assert_eq!((code, listed["dead"].as_array().unwrap().len()), (200, 3), "{listed}");
    let (code, listed) = scene.get(&one, "/dead").await.unwrap();
    assert_eq!((code, listed["dead"].as_array().unwrap().len()), (200, 3), "{listed}");
    // The reason is gone: one is done, then the rest.
    let free = doc! { "collMod": "jobs", "validator": {} };
    scene.client.database(&scene.home).run_command(free).await.unwrap();
    let (code, asked) =
        scene.ask(&one, "POST", "/retry", r#"{"document": "bad1", "listener": "all"}"#).await.unwrap();
    assert_eq!((code, &asked["asked"]), (200, &serde_json::json!(1)), "{asked}");
    scene.until("all", 2).await;
    eventually("two are left", async || (scene.lines(&["dead"]).await.len() == 2).then_some(())).await;
    let (code, asked) = scene.ask(&one, "POST", "/retry", r#"{"all_failed": true}"#).await.unwrap();
    assert_eq!((code, &asked["asked"]), (200, &serde_json::json!(2)), "{asked}");
    scene.until("all", 4).await;
    eventually("none is left", async || scene.lines(&["dead"]).await.is_empty().then_some(())).await;
    let done = scene.json(&["doc", "bad1"]).await;
    assert_eq!(done["dead_letters"], serde_json::json!([]), "it waits for nothing: {done}");
}
