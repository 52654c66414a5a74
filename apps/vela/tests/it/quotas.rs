//! Quotas: no second and no day holds more calls than it may, over all workers.

use serde_json::json;
use windlass_engine::Store;
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

/// Regular downloads leave a share of the day for users, a shop's first one aside, for which its user waits; when the day
/// is over, shops wait and spend no rung. A download of an empty shop takes seven calls.
#[tokio::test(flavor = "multi_thread")]
async fn a_day_has_an_end_and_users_have_a_share_of_it() {
    let scene = limited(50, 30, false).await;
    let _all = scene.all().await;
    let calls = || scene.etsy.calls().len();
    let ask = async |kind: &str, shop: u64| {
        assert_eq!(scene.post("/tasks", json!({"type": kind, "shop_id": shop})).await.0, 201);
    };
    scene.connect(1).await;
    scene.until(1, "up_to_date").await;
    for so_far in [14, 21] {
        ask("regular_download", 1).await;
        scene.until(1, "up_to_date").await;
        assert_eq!(calls(), so_far);
    }
    ask("regular_download", 1).await;
    scene.until(1, "waiting_quota").await;
    assert_eq!(calls(), 21, "70 of a hundred are for regular downloads");
    let tasks = scene.get("/tasks?state=queued").await;
    assert_eq!(tasks["tasks"][0]["attempt"], 0, "no rung is spent: {tasks}");
    // A new shop is served from the share; so is who asks.
    scene.connect(2).await;
    scene.until(2, "up_to_date").await;
    assert_eq!(calls(), 28, "a first import is for its user");
    ask("forced_download", 2).await;
    let status = scene.until(2, "waiting_quota").await;
    assert!(status["next_attempt_at"].is_string(), "{status}");
    assert_eq!((scene.etsy.turned_away(), calls()), (0, 30), "all of the day, and not one more");
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

/// Without a limit nothing is counted, since claims that are counted wait for each other; one that is lifted is lifted.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_limit_of_tasks_nobody_counts_them() {
    let mut scene = Scene::new().await;
    let path = scene.folder.path().join("vela.db");
    for (shops, per_day, budgets, handed) in
        [(1..=2, "0", 0, [200, 200]), (3..=4, "1", 1, [200, 204]), (5..=5, "0", 1, [200, 200])]
    {
        scene.set("VELA_TASKS_PER_DAY", per_day);
        let _manager = scene.manager().await;
        for shop in shops {
            scene.connect(shop).await;
        }
        let ask = async || scene.post("/get-task", json!({"worker_id": "w"})).await.0;
        assert_eq!([ask().await, ask().await], handed, "{per_day}");
        let store = windlass_sqlite::SqliteStore::open(&path).await.unwrap();
        assert_eq!(store.budgets().await.unwrap().len(), budgets, "{per_day}");
    }
}

/// In no second more tasks begin than may, by the clock of the store, and all of them do in the end.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_a_second_are_limited() {
    let mut scene = Scene::new().await;
    scene.set("VELA_TASKS_PER_SECOND", "2");
    let _manager = scene.manager().await;
    for shop in 1..=7 {
        scene.connect(shop).await;
    }
    let ask = async || scene.post("/get-task", json!({"worker_id": "w"})).await.0;
    assert_eq!([ask().await, ask().await, ask().await], [200, 200, 204]);
    for _ in 0..5 {
        eventually("the next is due", async || (ask().await == 200).then_some(())).await;
    }
    let tasks = scene.get("/tasks?state=running").await;
    let mut begun: Vec<i64> = tasks["tasks"].as_array().unwrap().iter().map(begun_ms).collect();
    begun.sort_unstable();
    assert_eq!(begun.len(), 7);
    assert!(begun.windows(3).all(|three| three[2] - three[0] >= 1_000), "{begun:?}");
}

fn begun_ms(task: &serde_json::Value) -> i64 {
    task["since"].as_str().unwrap().parse::<windlass_engine::Time>().unwrap().ms()
}
