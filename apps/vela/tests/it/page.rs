//! The page in a real browser.

use std::process::Command;

use serde_json::json;
use windlass_standins::Fault;
use windlass_testkit::eventually::eventually;
use windlass_testkit::needs::can_run;

use crate::scene::Scene;

/// What a browser shows of a page after some seconds of its own time, or nothing where there is no browser.
async fn shown(scene: &Scene) -> Option<String> {
    let has_browser =
        Command::new("chromium").arg("--version").output().is_ok_and(|output| output.status.success());
    if !can_run(has_browser, "chromium, to look at the page") {
        return None;
    }
    let (url, profile) =
        (format!("http://127.0.0.1:{}/vela", scene.port), scene.folder.path().join("chromium"));
    let output = tokio::task::spawn_blocking(move || {
        Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(["--virtual-time-budget=4000", "--dump-dom", &url])
            .output()
            .unwrap()
    })
    .await
    .unwrap();
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_a_bar_for_each_shop() {
    let mut scene = Scene::new().await;
    scene.set("VELA_LADDER_REGULAR", "none");
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    scene.etsy.fill(1, 30, "active");
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    // A shop in the middle of its download: its fourth page stands still.
    let tokens = scene.etsy.add_shop(2, 5_002);
    scene.etsy.fill(2, 900, "active");
    (0..5).for_each(|_| scene.etsy.faults.push_ok());
    scene.etsy.faults.always(Fault::HoldHead);
    scene.connect_with(2, &tokens).await;
    eventually("it is half way", async || {
        (scene.status(2).await["downloaded"].as_u64() > Some(0)).then_some(())
    })
    .await;
    let Some(page) = shown(&scene).await else { return };
    scene.etsy.faults.clear();
    scene.etsy.faults.release();
    assert!(page.contains("id=\"shop-1\"") && page.contains("Shop1 (1)"), "{page}");
    assert!(page.contains("up to date") && page.contains("30 / 30"), "{page}");
    assert!(page.contains("downloading") && page.contains("/ 900"), "{page}");
    assert_eq!(page.matches("<progress").count(), 2, "{page}");
    scene.until(2, "up_to_date").await;
    // What failed is shown with its reason, and text from outside is text.
    let id = scene.listings(1).await[0]["listing_id"].as_u64().unwrap();
    scene.etsy.faults.always(Fault::Status(500, None));
    scene.edit(1, id, json!({"title": "<img src=x onerror=alert(1)>"})).await;
    scene.until(1, "failed").await;
    let page = shown(&scene).await.unwrap();
    assert!(
        page.contains("Failed tasks") && page.contains("upload changes") && page.contains("exhausted"),
        "{page}"
    );
    assert!(!page.contains("<img"), "{page}");
}

/// A task that was set aside because its workers died is on the page, with that reason.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_what_is_quarantined() {
    let mut scene = Scene::new().await;
    scene.set("VELA_LEASE_SECONDS", "0.5");
    let _manager = scene.manager().await;
    scene.connect(1).await;
    for worker in ["w1", "w2", "w3"] {
        eventually("it comes back", async || {
            (scene.post("/get-task", json!({"worker_id": worker})).await.0 == 200).then_some(())
        })
        .await;
    }
    scene.until(1, "failed").await;
    let Some(page) = shown(&scene).await else { return };
    assert!(
        page.contains("Failed tasks") && page.contains("regular download") && page.contains("quarantined"),
        "{page}"
    );
}
