//! The ten defects of the original, each as a test.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_standins::Fault;
use windlass_testkit::eventually::eventually;

use crate::scene::Scene;

/// A manager, and shops whose first downloads wait.
async fn waiting(shops: u64) -> (Scene, windlass_testkit::program::Program) {
    let scene = Scene::new().await;
    let manager = scene.manager().await;
    for shop in 1..=shops {
        scene.connect(shop).await;
    }
    (scene, manager)
}

async fn take_all(scene: &Scene, workers: usize) -> Vec<Value> {
    let asks = (0..workers).map(|n| async move {
        let (status, task) = scene.post("/get-task", json!({"worker_id": format!("w{n}")})).await;
        (status == 200).then_some(task)
    });
    futures::future::join_all(asks).await.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn defect_1_no_task_is_granted_twice() {
    let (scene, _manager) = waiting(8).await;
    let handed = take_all(&scene, 24).await;
    let ids: BTreeSet<String> = handed.iter().map(|task| task["task"]["id"].to_string()).collect();
    assert_eq!((handed.len(), ids.len()), (8, 8));
}

#[tokio::test(flavor = "multi_thread")]
async fn defect_2_no_two_workers_get_tasks_of_one_shop() {
    let (scene, _manager) = waiting(6).await;
    for shop in 1..=6 {
        for kind in ["forced_download", "upload_changes"] {
            scene.post("/tasks", json!({"type": kind, "shop_id": shop})).await;
        }
    }
    let handed = take_all(&scene, 24).await;
    let shops: BTreeSet<String> = handed.iter().map(|task| task["task"]["shop_id"].to_string()).collect();
    assert_eq!((handed.len(), shops.len()), (6, 6), "and the second worker takes another shop");
}

#[tokio::test(flavor = "multi_thread")]
async fn defect_3_a_task_that_goes_wrong_locks_nothing() {
    let scene = Scene::new().await;
    let _all = scene.all().await;
    (0..5).for_each(|_| scene.etsy.faults.push(Fault::Garbage));
    let store = scene.env["VELA_STORE"].clone();
    scene.connect(1).await;
    scene.until(1, "up_to_date").await;
    // A kind that nobody knows stands in nobody's way.
    let args = [
        "enqueue",
        "download_shop",
        "{\"shop_id\":1}",
        "--queue",
        "vela",
        "--key",
        "shop-1",
        "--store",
        &store,
    ];
    let output = scene.run(&args).await;
    assert!(output.status.success(), "{output:?}");
    scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await;
    eventually("the shop goes on", async || {
        (!scene.status(1).await["last_success_at"]["forced_download"].is_null()).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn defect_4_an_edit_during_the_upload_is_sent() {
    let scene = Scene::new().await;
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let id = scene.etsy.fill(1, 1, "active")[0];
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    // Sections and the listing are read; the change itself stands still at Etsy's door.
    (0..2).for_each(|_| scene.etsy.faults.push_ok());
    scene.etsy.faults.push(Fault::HoldBody { after: 0 });
    scene.edit(1, id, json!({"title": "First"})).await;
    eventually("the first is on its way", async || {
        (scene.etsy.listing(id).unwrap()["title"] == "First").then_some(())
    })
    .await;
    assert_eq!(scene.edit(1, id, json!({"title": "Second"})).await.0, 202);
    scene.etsy.faults.release();
    eventually("the second arrives", async || {
        (scene.etsy.listing(id).unwrap()["title"] == "Second").then_some(())
    })
    .await;
    scene.settled(1).await;
    assert_eq!(scene.listing(1, id).await["conflicts"], json!([]), "our own change is no conflict");
}

/// The same for an edit that takes the one back which is on its way: the user's last word is what Etsy has in the end.
#[tokio::test(flavor = "multi_thread")]
async fn defect_4_an_edit_that_is_taken_back_during_the_upload_is_taken_back_at_etsy() {
    let scene = Scene::new().await;
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let id = scene.etsy.fill(1, 1, "active")[0];
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    let title = scene.listing(1, id).await["title"].clone();
    (0..2).for_each(|_| scene.etsy.faults.push_ok());
    scene.etsy.faults.push(Fault::HoldBody { after: 0 });
    scene.edit(1, id, json!({"title": "A mistake"})).await;
    eventually("the mistake is on its way", async || {
        (scene.etsy.listing(id).unwrap()["title"] == "A mistake").then_some(())
    })
    .await;
    assert_eq!(scene.edit(1, id, json!({"title": title})).await.0, 202);
    scene.etsy.faults.release();
    scene.settled(1).await;
    assert_eq!(scene.etsy.listing(id).unwrap()["title"], title);
    let ours = scene.listing(1, id).await;
    assert_eq!((&ours["title"], &ours["conflicts"]), (&title, &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn defect_5_changes_outlive_their_task() {
    let scene = Scene::new().await;
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let id = scene.etsy.fill(1, 1, "active")[0];
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    scene.etsy.faults.always(Fault::Status(500, None));
    scene.edit(1, id, json!({"title": "Kept"})).await;
    let status = scene.until(1, "failed").await;
    assert_eq!((&status["to_upload"], &status["last_error"]["code"]), (&json!(1), &json!("upstream")));
    scene.etsy.faults.clear();
    let failed = scene.get("/tasks?state=failed&shop_id=1&type=upload_changes").await;
    let failed = failed["tasks"][0].clone();
    assert_eq!((&failed["type"], &failed["attempt"]), (&json!("upload_changes"), &json!(5)));
    scene.post(&format!("/tasks/{}/retry", failed["id"].as_str().unwrap()), json!({})).await;
    eventually("it is sent", async || (scene.etsy.listing(id).unwrap()["title"] == "Kept").then_some(()))
        .await;
}

/// After a download, after an upload, and after failures of both.
#[tokio::test(flavor = "multi_thread")]
async fn defect_6_a_shop_is_up_to_date_again() {
    let mut scene = Scene::new().await;
    // Long enough to be seen waiting.
    scene.set("VELA_LADDER_UPLOAD", "1s 1s 1s 1s");
    scene.set("VELA_LADDER_REGULAR", "1s 1s");
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let id = scene.etsy.fill(1, 1, "active")[0];
    scene.etsy.faults.always(Fault::Status(500, None));
    scene.connect_with(1, &tokens).await;
    let status = scene.until(1, "waiting_retry").await;
    assert_eq!(status["last_error"]["kind"], "regular_download");
    scene.etsy.faults.clear();
    scene.until(1, "up_to_date").await;
    scene.etsy.faults.always(Fault::Status(500, None));
    scene.edit(1, id, json!({"title": "Sent in the end"})).await;
    let status = scene.until(1, "waiting_retry").await;
    assert_eq!((&status["to_upload"], &status["last_error"]["kind"]), (&json!(1), &json!("upload_changes")));
    scene.etsy.faults.clear();
    let status = scene.until(1, "up_to_date").await;
    assert_eq!((&status["to_upload"], &status["last_error"]), (&json!(0), &Value::Null), "{status}");
    assert!(status["last_success_at"]["upload_changes"].is_string(), "{status}");
    assert_eq!(scene.etsy.listing(id).unwrap()["title"], "Sent in the end");
    assert_eq!(scene.get("/tasks").await["tasks"], json!([]));
}

/// No 429, no refresh, no timeout: all three in one run.
#[tokio::test(flavor = "multi_thread")]
async fn defect_7_limits_tokens_and_silence_are_minded() {
    let mut scene = Scene::new().await;
    scene.short_lease();
    scene.etsy.token_seconds(0);
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    scene.etsy.token_seconds(3600);
    scene.etsy.fill(1, 250, "active");
    scene.etsy.faults.push_ok();
    scene.etsy.faults.push_ok();
    scene.etsy.faults.push(Fault::Status(429, Some("1")));
    scene.etsy.faults.push(Fault::HoldHead);
    scene.connect_with(1, &tokens).await;
    let status = scene.until(1, "up_to_date").await;
    assert_eq!((&status["listings"], scene.etsy.refreshes()), (&json!(250), 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn defect_8_workers_do_not_multiply_the_rate() {
    let mut scene = Scene::new().await;
    scene.etsy.limit(6, 10_000, false);
    scene.set("ETSY_PER_SECOND", "6");
    scene.set("ETSY_PER_DAY", "10000");
    let _manager = scene.manager().await;
    let _workers: Vec<_> = (0..3).map(|n| scene.worker(&format!("w{n}"))).collect();
    for shop in 1..=6 {
        scene.connect(shop).await;
    }
    for shop in 1..=6 {
        scene.until(shop, "up_to_date").await;
    }
    assert_eq!(scene.etsy.turned_away(), 0);
    assert!(scene.etsy.most_within(1_000, false) <= 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn defect_9_a_section_that_is_there_is_used() {
    let scene = Scene::new().await;
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let ids = scene.etsy.fill(1, 20, "active");
    let hats = scene.etsy.add_section(1, "Hats");
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    for (at, id) in ids.iter().enumerate() {
        scene.edit(1, *id, json!({"section": if at % 2 == 0 { "Hats" } else { "New caps" }})).await;
    }
    scene.settled(1).await;
    assert_eq!(scene.etsy.sections(1), ["Hats", "New caps"], "made once, however many wanted it");
    assert_eq!(scene.etsy.listing(ids[0]).unwrap()["shop_section_id"], json!(hats));
    assert_eq!(scene.listing(1, ids[1]).await["section"], "New caps");
    scene.clean();
}

/// One listing's change is not answered: all the others are sent meanwhile, and not only the seven beside it.
#[tokio::test(flavor = "multi_thread")]
async fn defect_10_nobody_waits_for_the_slowest() {
    let scene = Scene::new().await;
    let _manager = scene.manager().await;
    let worker = scene.worker("first");
    let tokens = scene.etsy.add_shop(1, 5_001);
    let ids = scene.etsy.fill(1, 40, "active");
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    // All forty are edited before anybody sends.
    worker.signal(libc::SIGTERM);
    worker.wait();
    for id in &ids {
        assert_eq!(scene.edit(1, *id, json!({"title": "Sent"})).await.0, 202);
    }
    // Sections and the listings are read; the first change stands still at Etsy's door.
    (0..2).for_each(|_| scene.etsy.faults.push_ok());
    scene.etsy.faults.push(Fault::HoldHead);
    let _worker = scene.worker("second");
    let is_sent = |id: &&u64| scene.etsy.listing(**id).unwrap()["title"] == "Sent";
    let held = eventually("all but one are sent", async || {
        let left: Vec<u64> = ids.iter().filter(|id| !is_sent(id)).copied().collect();
        (left.len() == 1).then(|| left[0])
    })
    .await;
    let status = eventually("the others are off the list", async || {
        // Each figure is of its own moment.
        let status = scene.status(1).await;
        (status["to_upload"] == 1 && status["uploaded"] == 39).then_some(status)
    })
    .await;
    assert_eq!(status["status"], "uploading", "{status}");
    assert_eq!(scene.listing(1, held).await["dirty"], true);
    scene.etsy.faults.release();
    scene.settled(1).await;
    assert!(ids.iter().all(|id| is_sent(&id)));
    scene.clean();
}
