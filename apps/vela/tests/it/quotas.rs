//! Quotas: no second and no day holds more calls than it may, over all workers.

use serde_json::json;
use windlass_standins::{Etsy, TooMany};
use windlass_testkit::eventually::eventually;

use crate::scene::Scene;

async fn limited(per_second: u32, per_day: u32, by_token: bool) -> Scene {
    let etsy = Etsy::start().await;
    etsy.limit(per_second, per_day, by_token);
    let mut scene = Scene::with(etsy);
    scene.short_lease();
    scene.set("ETSY_PER_SECOND", &per_second.min(5).to_string());
    scene.set("ETSY_PER_DAY", &per_day.to_string());
    scene
}

/// Two workers and eight shops share one app's second; one of the workers is killed in the middle of its calls.
#[tokio::test(flavor = "multi_thread")]
async fn no_second_holds_more_than_the_app_may() {
    let scene = limited(8, 10_000, false).await;
    let _manager = scene.manager().await;
    let (doomed, _other) = (scene.worker("w1"), scene.worker("w2"));
    for shop in 1..=8 {
        let tokens = scene.etsy.add_shop(shop, shop + 5_000);
        scene.etsy.fill(shop, 120, "active");
        scene.connect_with(shop, &tokens).await;
    }
    eventually("calls are made", async || (scene.etsy.calls().len() > 12).then_some(())).await;
    doomed.kill();
    let _third = scene.worker("w3");
    for shop in 1..=8 {
        scene.until(shop, "up_to_date").await;
    }
    assert_eq!(scene.etsy.turned_away(), 0);
    assert!(scene.etsy.most_within(1_000, false) <= 8, "{}", scene.etsy.most_within(1_000, false));
    scene.clean();
}

/// With the scope of a token each shop minds its own second: they do not wait for each other.
#[tokio::test(flavor = "multi_thread")]
async fn with_the_scope_of_a_token_each_shop_has_its_own() {
    let mut scene = limited(3, 10_000, true).await;
    scene.set("ETSY_QUOTA_SCOPE", "token");
    let _all = scene.all().await;
    for shop in 1..=4 {
        let tokens = scene.etsy.add_shop(shop, shop + 5_000);
        scene.etsy.fill(shop, 120, "active");
        scene.connect_with(shop, &tokens).await;
    }
    for shop in 1..=4 {
        scene.until(shop, "up_to_date").await;
    }
    assert_eq!(scene.etsy.turned_away(), 0);
    assert!(scene.etsy.most_within(1_000, true) <= 3);
    assert!(scene.etsy.most_within(1_000, false) > 3, "they did not share");
}

/// Regular downloads leave a share of the day for users; when the day is over, shops wait and spend no rung.
#[tokio::test(flavor = "multi_thread")]
async fn a_day_has_an_end_and_users_have_a_share_of_it() {
    let scene = limited(50, 30, false).await;
    let _all = scene.all().await;
    for shop in 1..=4 {
        scene.connect(shop).await;
    }
    let mut waiting = 0;
    for shop in 1..=4 {
        let status = eventually("the shop is done or waits", async || {
            let status = scene.status(shop).await;
            ["up_to_date", "waiting_quota"].iter().any(|word| status["status"] == *word).then_some(status)
        })
        .await;
        waiting += u32::from(status["status"] == "waiting_quota");
    }
    assert!(waiting >= 1);
    assert_eq!(scene.etsy.calls().len(), 21, "70 of a hundred are for regular downloads");
    let tasks = scene.get("/tasks?state=queued").await;
    assert!(tasks["tasks"].as_array().unwrap().iter().all(|task| task["attempt"] == 0), "no rung is spent");
    // A user asks, and is served from the share.
    let mut shop = 1;
    for other in 1..=4 {
        if scene.status(other).await["status"] == "up_to_date" {
            shop = other;
        }
    }
    scene.post("/tasks", json!({"type": "forced_download", "shop_id": shop})).await;
    eventually("the user is served", async || {
        (!scene.status(shop).await["last_success_at"]["forced_download"].is_null()).then_some(())
    })
    .await;
    scene.post("/tasks", json!({"type": "forced_download", "shop_id": shop})).await;
    scene.until(shop, "waiting_quota").await;
    assert_eq!(
        (scene.etsy.turned_away(), scene.etsy.calls().len()),
        (0, 30),
        "all of the day, and not one more"
    );
}

/// Others spend of the same day: the headers tell, and nobody is turned away for long.
#[tokio::test(flavor = "multi_thread")]
async fn headers_correct_the_count() {
    let scene = limited(50, 10_000, false).await;
    let _all = scene.all().await;
    scene.etsy.spend_elsewhere(9_998);
    scene.connect(1).await;
    let status = scene.until(1, "waiting_quota").await;
    assert_eq!(status["last_error"]["code"], "quota");
    assert!(status["next_attempt_at"].is_string());
    assert!(scene.etsy.calls().len() <= 3, "{:?}", scene.etsy.calls());
}

/// Every way in which Etsy says 429, with a limit that nobody had told us.
#[tokio::test(flavor = "multi_thread")]
async fn every_429_is_understood() {
    for (how, told) in [(TooMany::Told, true), (TooMany::WithoutRetryAfter, false), (TooMany::Bare, false)] {
        let etsy = Etsy::start().await;
        etsy.limit(3, 10_000, false);
        etsy.quota_headers(told, true);
        etsy.too_many(how);
        // Nothing is limited here: what Etsy turns away must be waited for.
        let scene = Scene::with(etsy);
        let _all = scene.all().await;
        let tokens = scene.etsy.add_shop(1, 5_001);
        scene.etsy.fill(1, 520, "active");
        scene.connect_with(1, &tokens).await;
        let status = scene.until(1, "up_to_date").await;
        assert_eq!(status["listings"], 520, "{how:?}");
        let tasks = scene.get("/tasks").await;
        assert_eq!(tasks["tasks"], json!([]), "{how:?}");
    }
    let etsy = Etsy::start().await;
    etsy.limit(3, 10_000, false);
    etsy.too_many(TooMany::Huge);
    etsy.quota_headers(false, false);
    let scene = Scene::with(etsy);
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    scene.etsy.fill(1, 520, "active");
    scene.connect_with(1, &tokens).await;
    scene.until(1, "waiting_quota").await;
}

/// Tasks can be limited, too.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_day_are_limited() {
    let mut scene = Scene::new().await;
    scene.set("VELA_TASKS_PER_DAY", "2");
    let _manager = scene.manager().await;
    for shop in 1..=3 {
        scene.connect(shop).await;
    }
    let mut handed = Vec::new();
    for _ in 0..3 {
        handed.push(scene.post("/get-task", json!({"worker_id": "w"})).await.0);
    }
    assert_eq!(handed, [200, 200, 204]);
}
