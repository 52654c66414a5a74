//! The task manager, with workers of our own that speak REST.

use serde_json::{Value, json};
use windlass_engine::core::time::Clock;
use windlass_engine::world::{RealWorld, monotonic_ns};
use windlass_engine::{Client, JobRequest};
use windlass_testkit::eventually::eventually;

use crate::scene::Scene;

async fn take(scene: &Scene, worker: &str) -> Option<Value> {
    let (status, task) = scene.post("/get-task", json!({"worker_id": worker})).await;
    match status {
        200 => Some(task),
        204 => None,
        status => panic!("{status}: {task}"),
    }
}

fn word(task: &Value, word: &str) -> String {
    format!("/tasks/{}/{word}", task["task"]["id"].as_str().unwrap())
}

async fn say(scene: &Scene, task: &Value, what: &str, mut body: Value) -> u16 {
    body["fence"] = task["fence"].clone();
    scene.post(&word(task, what), body).await.0
}

/// A manager with shops whose first downloads are done.
async fn manager(shops: &[u64]) -> (Scene, windlass_testkit::program::Program) {
    let scene = Scene::new().await;
    let manager = scene.manager().await;
    for shop in shops {
        scene.connect(*shop).await;
        let task = take(&scene, "setup").await.unwrap();
        assert_eq!(
            (&task["task"]["type"], &task["shop"]["shop_id"]),
            (&json!("regular_download"), &json!(shop))
        );
        assert_eq!(say(&scene, &task, "complete", json!({})).await, 200);
    }
    (scene, manager)
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_handed_out_by_urgency_and_one_per_shop() {
    let (scene, _manager) = manager(&[1, 2, 3]).await;
    for (kind, shop) in
        [("regular_download", 1), ("forced_download", 2), ("upload_changes", 3), ("upload_changes", 1)]
    {
        let (status, created) = scene.post("/tasks", json!({"type": kind, "shop_id": shop})).await;
        assert_eq!((status, &created["task"]["type"]), (201, &json!(kind)), "{created}");
    }
    let (status, again) = scene.post("/tasks", json!({"type": "upload_changes", "shop_id": 3})).await;
    assert_eq!((status, &again["task"]["state"]), (200, &json!("queued")), "equal ones are one");
    let mut handed = Vec::new();
    while let Some(task) = take(&scene, "w1").await {
        assert!(task["fence"].is_u64() && task["lease_ms"].is_u64(), "{task}");
        assert_eq!(task["task"]["payload"]["shop_id"], task["task"]["shop_id"]);
        handed.push((
            task["task"]["type"].as_str().unwrap().to_owned(),
            task["task"]["shop_id"].as_u64().unwrap(),
            task,
        ));
    }
    let order: Vec<(&str, u64)> = handed.iter().map(|(kind, shop, _)| (kind.as_str(), *shop)).collect();
    // The regular one of shop 1 waits for its upload.
    assert_eq!(order, [("upload_changes", 3), ("upload_changes", 1), ("forced_download", 2)]);
    let tasks = scene.get("/tasks?state=running&worker=w1").await;
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 3);
    assert_eq!(scene.status(1).await["status"], "uploading");
    assert_eq!(scene.status(2).await["status"], "downloading");
    assert_eq!(say(&scene, &handed[1].2, "complete", json!({})).await, 200);
    let next = take(&scene, "w2").await.unwrap();
    assert_eq!((&next["task"]["type"], &next["task"]["shop_id"]), (&json!("regular_download"), &json!(1)));
    assert_eq!(
        scene.ask("GET", &format!("/tasks/{}", handed[1].2["task"]["id"].as_str().unwrap()), None).await.0,
        404
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_fence_changes_nothing() {
    let mut scene = Scene::new().await;
    scene.set("VELA_LEASE_SECONDS", "1");
    let _manager = scene.manager().await;
    scene.connect(1).await;
    let lost = take(&scene, "w1").await.unwrap();
    assert_eq!(say(&scene, &lost, "renew", json!({})).await, 200);
    assert_eq!(say(&scene, &lost, "progress", json!({"done": 3})).await, 200);
    let (_, shown) =
        scene.ask("GET", &format!("/tasks/{}", lost["task"]["id"].as_str().unwrap()), None).await;
    assert_eq!((&shown["task"]["progress"]["done"], &shown["task"]["worker"]), (&json!(3), &json!("w1")));
    // Nobody renews: within the lease and a second it is somebody else's.
    let taken = eventually("the task comes back", async || take(&scene, "w2").await).await;
    assert_eq!(taken["task"]["id"], lost["task"]["id"]);
    assert!(taken["fence"].as_u64() > lost["fence"].as_u64());
    for what in ["renew", "progress", "complete", "fail"] {
        assert_eq!(say(&scene, &lost, what, json!({})).await, 409, "{what}");
    }
    assert_eq!(say(&scene, &taken, "complete", json!({})).await, 200);
    assert_eq!(scene.status(1).await["status"], "up_to_date");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_climbs_its_ladder_and_parks_without_a_rung() {
    let (scene, _manager) = manager(&[1]).await;
    scene.post("/tasks", json!({"type": "upload_changes", "shop_id": 1})).await;
    let mut attempts = Vec::new();
    for round in 0..6 {
        let task = eventually("it is due", async || take(&scene, "w").await).await;
        attempts.push(task["task"]["attempt"].as_u64().unwrap());
        let body = match round {
            1 => json!({"class": "quota", "error": "no more today", "retry_after_ms": 50}),
            _ => json!({"class": "retry", "error": "Etsy is away"}),
        };
        assert_eq!(say(&scene, &task, "fail", body).await, 200);
        match round {
            0 => assert_eq!(scene.status(1).await["status"], "waiting_retry"),
            1 => assert_eq!(scene.status(1).await["status"], "waiting_quota"),
            _ => {}
        }
    }
    assert_eq!(attempts, [1, 2, 2, 3, 4, 5], "parking costs no attempt");
    let status = scene.status(1).await;
    assert_eq!(
        (&status["status"], &status["last_error"]["message"]),
        (&json!("failed"), &json!("Etsy is away"))
    );
    let failed = scene.get("/tasks?state=failed").await;
    assert_eq!(failed["tasks"][0]["reason"], "exhausted");
    let id = failed["tasks"][0]["id"].as_str().unwrap();
    assert_eq!(scene.post(&format!("/tasks/{id}/retry"), json!({})).await.0, 202);
    let task = eventually("it is due", async || take(&scene, "w").await).await;
    assert_eq!(say(&scene, &task, "complete", json!({})).await, 200);
    assert_eq!(scene.status(1).await["status"], "up_to_date");
}

/// A worker that says itself when to come again has no more rungs than others, and cannot push a task beyond all time.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_knows_better_has_no_more_rungs() {
    let (scene, _manager) = manager(&[1, 2]).await;
    scene.post("/tasks", json!({"type": "upload_changes", "shop_id": 1})).await;
    for _ in 0..5 {
        let task = eventually("it is due", async || take(&scene, "w").await).await;
        let body = json!({"class": "retry", "error": "Etsy is away", "retry_after_ms": 1});
        assert_eq!(say(&scene, &task, "fail", body).await, 200);
    }
    let failed = scene.get("/tasks?state=failed").await;
    assert_eq!(
        (&failed["tasks"][0]["shop_id"], &failed["tasks"][0]["reason"]),
        (&json!(1), &json!("exhausted"))
    );
    scene.post("/tasks", json!({"type": "upload_changes", "shop_id": 2})).await;
    let task = take(&scene, "w").await.unwrap();
    let body = json!({"class": "quota", "error": "never", "retry_after_ms": u64::MAX});
    assert_eq!(say(&scene, &task, "fail", body).await, 200);
    let shown = scene.get("/tasks?shop_id=2").await;
    assert!(shown["tasks"][0]["next_attempt"].is_string(), "{shown}");
    assert_eq!(scene.ask("GET", "/shops", None).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn lost_authorisation_waits_for_the_seller() {
    let (scene, _manager) = manager(&[1]).await;
    scene.post("/tasks", json!({"type": "upload_changes", "shop_id": 1})).await;
    let task = take(&scene, "w").await.unwrap();
    assert_eq!(say(&scene, &task, "fail", json!({"class": "auth", "error": "revoked"})).await, 200);
    assert_eq!(scene.status(1).await["status"], "needs_reconnect");
    assert!(take(&scene, "w").await.is_none());
    let tokens = scene.etsy.consent(5_001);
    assert_eq!(scene.connect_with(1, &tokens).await, 200);
    let task = eventually("it goes on", async || take(&scene, "w").await).await;
    assert_eq!((&task["task"]["type"], &task["task"]["attempt"]), (&json!("upload_changes"), &json!(1)));
}

/// Cleanup: after three crashes a task is set aside, and can be seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_kills_its_workers_is_quarantined() {
    let mut scene = Scene::new().await;
    scene.set("VELA_LEASE_SECONDS", "0.5");
    let _manager = scene.manager().await;
    scene.connect(1).await;
    for worker in ["w1", "w2", "w3"] {
        eventually("it comes back", async || take(&scene, worker).await).await;
    }
    let failed = eventually("it is set aside", async || {
        let failed = scene.get("/tasks?state=failed").await;
        failed["tasks"].get(0).cloned()
    })
    .await;
    assert_eq!((&failed["reason"], &failed["shop_id"]), (&json!("quarantined"), &json!(1)));
    assert_eq!(scene.status(1).await["status"], "failed");
}

/// Cleanup: the task of a worker that is killed is somebody else's within its lease and a second, by expiry.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_workers_task_is_back_within_its_lease_and_a_second() {
    const LEASE_MS: u64 = 2_000;
    let mut scene = Scene::new().await;
    scene.short_lease();
    let _manager = scene.manager().await;
    let doomed = scene.worker("doomed");
    scene.etsy.faults.always(windlass_standins::Fault::HoldHead);
    scene.connect(1).await;
    let task = eventually("it is at work", async || {
        let running = scene.get("/tasks?state=running&worker=doomed").await;
        running["tasks"].get(0).cloned()
    })
    .await;
    doomed.kill();
    let killed_ns = monotonic_ns();
    let (status, taken) = scene.post("/get-task", json!({"worker_id": "w", "wait_ms": 30_000})).await;
    let ms = (monotonic_ns() - killed_ns) / 1_000_000;
    assert_eq!((status, &taken["task"]["id"]), (200, &task["id"]), "{taken}");
    assert!(ms <= LEASE_MS + 1_000, "it was back after {ms} ms");
}

/// Who gets nothing is told when to ask again.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_do_is_said_with_a_time() {
    let (scene, _manager) = manager(&[1]).await;
    let body = json!({"worker_id": "w"});
    let answer = scene.answer(scene.port, "POST", "/get-task", Some(&body)).await;
    let seconds = answer.header(http::header::RETRY_AFTER).and_then(|text| text.parse::<u64>().ok());
    assert_eq!((answer.status(), seconds), (204, Some(1)));
    assert!(answer.bytes().await.unwrap().is_empty());
}

/// A worker's tasks are found wherever they stand among those of others, on one page.
#[tokio::test(flavor = "multi_thread")]
async fn the_tasks_of_a_worker_are_found_among_many() {
    let scene = Scene::new().await;
    let _manager = scene.manager().await;
    // The newest come first: one worker's tasks are the oldest, behind more than a page of others.
    for shop in 1..=230 {
        scene.connect(shop).await;
        if shop == 3 {
            for _ in 0..3 {
                take(&scene, "early").await.unwrap();
            }
        }
    }
    take(&scene, "late").await.unwrap();
    let found = scene.get("/tasks?worker=early").await;
    let shops: Vec<&Value> = found["tasks"].as_array().unwrap().iter().map(|task| &task["shop_id"]).collect();
    assert_eq!(shops, [3, 2, 1], "{found}");
    assert_eq!(found["next_cursor"], Value::Null);
    assert_eq!(scene.get("/tasks?worker=nobody").await, json!({"tasks": [], "next_cursor": null}));
    let page = scene.get("/tasks?state=queued").await;
    assert!(!page["next_cursor"].is_null() && page["tasks"].as_array().unwrap().len() == 200, "{page}");
}

/// A store that is shared with other work: what a shop is doing is known, however many jobs came after its task.
#[tokio::test(flavor = "multi_thread")]
async fn a_shops_tasks_are_found_behind_the_jobs_of_others() {
    // More than a store looks at for one page.
    const OTHERS: u32 = 20_500;
    let scene = Scene::new().await;
    let _manager = scene.manager().await;
    scene.connect(1).await;
    scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await;
    let path = scene.folder.path().join("vela.db");
    let client = Client::new(windlass_sqlite::SqliteStore::open(path).await.unwrap());
    for _ in 0..OTHERS / 500 {
        let jobs = (0..500).map(|_| JobRequest::new("other", ()));
        client.enqueue_many(jobs).await.unwrap();
    }
    assert_eq!(scene.status(1).await["status"], "queued");
    assert_eq!(scene.get("/shops").await["shops"][0]["status"], "queued");
    let (status, asked) = scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await;
    assert_eq!(status, 200, "{asked}");
    let tasks = scene.get("/tasks?shop_id=1").await;
    assert_eq!(tasks["tasks"].as_array().unwrap().len(), 1, "it has taken in the first download: {tasks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_waits_is_handed_a_task_when_it_comes() {
    let (scene, _manager) = manager(&[1]).await;
    let (status, _) = scene.post("/get-task", json!({"worker_id": "w", "wait_ms": 30_001})).await;
    assert_eq!(status, 400);
    let waiting = scene.post("/get-task", json!({"worker_id": "w", "wait_ms": 30_000}));
    let asking = async {
        // Somebody asks meanwhile, whenever that is.
        scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await
    };
    let ((status, task), (created, _)) = tokio::join!(waiting, asking);
    assert_eq!((status, created, &task["task"]["type"]), (200, 201, &json!("forced_download")));
    let id = "7d444840-9dc0-11d1-b245-5ffdce74fad2";
    scene.connect(2).await;
    let twice = json!({"worker_id": "w", "request_id": id});
    let (first, second) =
        (scene.post("/get-task", twice.clone()).await, scene.post("/get-task", twice).await);
    assert_eq!(first.1["task"]["id"], second.1["task"]["id"], "asked again, the same task is handed out");
    assert_eq!(first.1["fence"], second.1["fence"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forced_download_takes_in_a_regular_one() {
    let (scene, _manager) = manager(&[1]).await;
    scene.post("/tasks", json!({"type": "regular_download", "shop_id": 1})).await;
    scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await;
    let tasks = scene.get("/tasks?shop_id=1").await;
    let kinds: Vec<&Value> = tasks["tasks"].as_array().unwrap().iter().map(|task| &task["type"]).collect();
    assert_eq!(kinds, [&json!("forced_download")], "{tasks}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_in_words() {
    let (scene, _manager) = manager(&[1]).await;
    for (path, body, status) in [
        ("/tasks", json!({"type": "dance", "shop_id": 1}), 400),
        ("/tasks", json!({"type": "upload_changes", "shop_id": 99}), 404),
        ("/tasks", json!({"type": "upload_changes"}), 400),
        ("/get-task", json!({}), 400),
        ("/get-task", json!({"worker_id": ""}), 400),
        ("/tasks/nonsense/renew", json!({"fence": 1}), 404),
        ("/tasks/7d444840-9dc0-11d1-b245-5ffdce74fad2/complete", json!({"fence": 1}), 409),
        (
            "/shops",
            json!({"shop_id": 4, "user_id": 1, "access_token": "2.x", "refresh_token": "2.y", "expires_at": "2999-01-01T00:00:00Z"}),
            400,
        ),
        (
            "/shops",
            json!({"shop_id": 4, "user_id": 1, "access_token": "1.x", "refresh_token": "1.y", "expires_at": "soon"}),
            400,
        ),
        (
            "/shops",
            json!({"shop_id": 4, "user_id": 1, "access_token": "1.x\n", "refresh_token": "1.y", "expires_at": "2999-01-01T00:00:00Z"}),
            400,
        ),
        ("/shops/1/conflicts/5", json!({"take": "local"}), 404),
    ] {
        let (found, answer) = scene.post(path, body.clone()).await;
        assert_eq!(found, status, "{path} {body}: {answer}");
        assert!(answer["error"]["message"].is_string(), "{answer}");
    }
    assert_eq!(scene.ask("GET", "/shops/99/status", None).await.0, 404);
    assert_eq!(scene.ask("GET", "/nowhere", None).await.0, 404);
    assert_eq!(scene.ask("DELETE", "/tasks", None).await.0, 405);
}

/// The schedule of a shop: its first download at once, and then as often as it says.
#[tokio::test(flavor = "multi_thread")]
async fn a_shop_has_a_schedule() {
    let (scene, _manager) = manager(&[1]).await;
    assert_eq!(scene.status(1).await["interval"], "1d");
    let tokens = scene.etsy.consent(5_001);
    let body = json!({
        "shop_id": 1, "user_id": 5_001, "access_token": tokens.access, "refresh_token": tokens.refresh,
        "expires_at": "2999-01-01T00:00:00Z", "interval": "15m",
    });
    assert_eq!(scene.post("/shops", body).await.0, 200);
    assert_eq!(scene.status(1).await["interval"], "15m");
    let store = scene.env["VELA_STORE"].clone();
    let shown = scene.run(&["--json", "schedules", "--store", &store]).await;
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("regular_download:1") && text.contains("/15"), "{text} {shown:?}");
}

/// A schedule that comes to its moment makes a task, and one that nobody has taken yet is not doubled.
#[tokio::test(flavor = "multi_thread")]
async fn the_schedule_of_a_shop_fires() {
    let scene = Scene::new().await;
    let _manager = scene.manager().await;
    // Shops stand beside each other within the minute, by their numbers: this one's moment comes soon.
    let soon = RealWorld::new().wall().ms() / 1_000 + 4;
    let shop = 60_000 + u64::try_from(soon % 60).unwrap();
    let tokens = scene.etsy.add_shop(shop, shop + 5_000);
    let body = json!({
        "shop_id": shop, "user_id": shop + 5_000, "access_token": tokens.access,
        "refresh_token": tokens.refresh, "expires_at": "2999-01-01T00:00:00Z", "interval": "1m",
    });
    assert_eq!(scene.post("/shops", body).await.0, 201);
    let first = take(&scene, "w").await.unwrap();
    assert_eq!(say(&scene, &first, "complete", json!({})).await, 200);
    assert!(take(&scene, "w").await.is_none());
    let task = eventually("the schedule fires", async || {
        let tasks = scene.get(&format!("/tasks?shop_id={shop}")).await;
        tasks["tasks"].get(0).cloned()
    })
    .await;
    assert_eq!((&task["type"], &task["state"]), (&json!("regular_download"), &json!("queued")));
    let due: windlass_engine::Time = task["next_attempt"].as_str().unwrap().parse().unwrap();
    assert_eq!(due.ms() / 1_000 % 60, soon % 60, "{task}");
    let (status, asked) = scene.post("/tasks", json!({"type": "regular_download", "shop_id": shop})).await;
    assert_eq!(
        (status, &asked["task"]["id"]),
        (200, &task["id"]),
        "what is due and what is asked for are one"
    );
}

/// Managers hold nothing: a worker goes on to the next when one is gone, and its task with it.
#[tokio::test(flavor = "multi_thread")]
async fn any_number_of_managers() {
    let mut scene = Scene::new().await;
    scene.short_lease();
    let first = scene.manager().await;
    let second_port = crate::scene::free_port();
    let second = scene.start("second", &["vela", "manager", "--listen", &format!("127.0.0.1:{second_port}")]);
    scene.ready(second_port, "second").await;
    let managers: Vec<String> =
        [scene.port, second_port].iter().map(|port| format!("http://127.0.0.1:{port}")).collect();
    let args = ["vela", "worker", "--manager", &managers[0], "--manager", &managers[1]];
    let _worker = scene.start("worker", &args);
    scene.connect(1).await;
    scene.etsy.fill(1, 3, "active");
    scene.until(1, "up_to_date").await;
    first.kill();
    scene.port = second_port;
    let guard = format!("http://127.0.0.1:{second_port}");
    scene.allow(&guard);
    scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await;
    eventually("the other manager's task is done", async || {
        let status = scene.status(1).await;
        (status["status"] == "up_to_date" && !status["last_success_at"]["forced_download"].is_null())
            .then_some(())
    })
    .await;
    assert_eq!(scene.listings(1).await.len(), 3);
    drop(second);
}
