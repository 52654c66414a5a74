//! Tokens: refreshed when they must be, by one at a time, and stored before they are used.

use serde_json::json;
use windlass_testkit::eventually::eventually;

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_rotated_and_outlive_the_program() {
    let scene = Scene::new().await;
    // Good for less than they are refreshed ahead of: every call needs a new one.
    scene.etsy.token_seconds(31);
    scene.etsy.revoke_families();
    let all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let id = scene.etsy.fill(1, 3, "active")[0];
    let body = json!({
        "shop_id": 1, "user_id": 5_001, "access_token": tokens.access, "refresh_token": tokens.refresh,
        "expires_at": "2020-01-01T00:00:00Z",
    });
    assert_eq!(scene.post("/shops", body).await.0, 201);
    scene.until(1, "up_to_date").await;
    assert!(scene.etsy.refreshes() >= 1);
    all.kill();
    let _again = scene.all().await;
    scene.edit(1, id, json!({"title": "After"})).await;
    scene.settled(1).await;
    assert_eq!(scene.etsy.listing(id).unwrap()["title"], "After");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_not_taken_is_refreshed_once() {
    let scene = Scene::new().await;
    scene.etsy.token_seconds(0);
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    scene.etsy.token_seconds(3600);
    scene.etsy.fill(1, 3, "active");
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    assert_eq!(scene.etsy.refreshes(), 1);
}

/// The endpoint stumbles before it rotates: asked again, it answers.
#[tokio::test(flavor = "multi_thread")]
async fn a_stumble_of_the_endpoint_is_no_loss() {
    let scene = Scene::new().await;
    scene.etsy.token_seconds(0);
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    scene.etsy.token_seconds(3600);
    scene.etsy.lose_refresh(false);
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    assert_eq!(scene.etsy.refreshes(), 1);
}

/// The answer to a rotation is lost: the seller is asked for, nothing is spent on it, and other shops go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_whose_answer_is_lost_waits_for_the_seller() {
    let scene = Scene::new().await;
    scene.etsy.token_seconds(0);
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    scene.etsy.token_seconds(3600);
    scene.etsy.lose_refresh(true);
    let id = scene.etsy.fill(1, 1, "active")[0];
    scene.connect_with(1, &tokens).await;
    let status = scene.until(1, "needs_reconnect").await;
    assert_eq!(status["last_error"]["code"], "needs_reconnect");
    assert!(status["last_error"]["message"].as_str().unwrap().contains("onnect the shop again"), "{status}");
    let tasks = scene.get("/tasks?shop_id=1").await;
    assert_eq!((&tasks["tasks"][0]["state"], &tasks["tasks"][0]["attempt"]), (&json!("queued"), &json!(0)));
    scene.connect(2).await;
    scene.until(2, "up_to_date").await;
    let again = scene.etsy.consent(5_001);
    assert_eq!(scene.connect_with(1, &again).await, 200);
    scene.until(1, "up_to_date").await;
    scene.etsy.change_password(5_001);
    assert_eq!(scene.edit(1, id, json!({"title": "Later"})).await.0, 202);
    scene.until(1, "needs_reconnect").await;
    let again = scene.etsy.consent(5_001);
    scene.connect_with(1, &again).await;
    scene.settled(1).await;
    assert_eq!(scene.etsy.listing(id).unwrap()["title"], "Later");
    scene.clean();
}

/// Fault 71: no token, no key and no secret is in a log, an answer, an error or on the page.
#[tokio::test(flavor = "multi_thread")]
async fn fault_71_no_secret_is_said() {
    let scene = Scene::new().await;
    scene.etsy.token_seconds(0);
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    scene.etsy.token_seconds(3600);
    let id = scene.etsy.fill(1, 2, "active")[0];
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    scene.etsy.faults.push(windlass_standins::Fault::Status(503, None));
    scene.edit(1, id, json!({"title": "x"})).await;
    scene.settled(1).await;
    scene.etsy.change_password(5_001);
    scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await;
    scene.until(1, "needs_reconnect").await;
    let mut said = std::fs::read_to_string(scene.log("all")).unwrap();
    for path in ["/shops", "/shops/1/status", "/tasks", "/shops/1/listings", "/health"] {
        said += &scene.get(path).await.to_string();
    }
    for args in [
        &["vela", "shops"][..],
        &["vela", "shop", "1"],
        &["--json", "vela", "shop", "1"],
        &["vela", "--help"],
    ] {
        let output = scene.run(args).await;
        assert!(output.status.success(), "{output:?}");
        said += &format!("{output:?}");
    }
    assert!(
        !said.contains("canary"),
        "{}",
        said.lines().find(|line| line.contains("canary")).unwrap_or_default()
    );
    eventually("the log was written", async || said.contains("Task done").then_some(())).await;
}
