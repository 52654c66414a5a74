//! The page in a real browser.

use std::process::Command;

use mongodb::bson::doc;
use windlass_testkit::needs::can_run;

use crate::scene::{Instance, Scene};

fn has_browser() -> bool {
    let found =
        Command::new("chromium").arg("--version").output().is_ok_and(|output| output.status.success());
    can_run(found, "chromium, to look at the page")
}

/// What a browser shows of the page after some seconds of its own time, with the history of a document.
async fn shown(scene: &Scene, instance: &Instance, document: &str, more: &[&str]) -> String {
    let url = format!("http://127.0.0.1:{}/listener#document={document}", instance.port);
    let profile = scene.folder.path().join("chromium");
    let more: Vec<String> = more.iter().map(|word| (*word).to_owned()).collect();
    let output = tokio::task::spawn_blocking(move || {
        Command::new("chromium")
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .args(more)
            .args(["--virtual-time-budget=5000", "--dump-dom", &url])
            .output()
            .unwrap()
    });
    let output = output.await.unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_each_listener() {
    if !has_browser() {
        return;
    }
    let scene = Scene::new().await;
    scene.listener("first", doc! { "jobName": "<b>bold</b>" }).await;
    scene.listener("second", doc! { "isActive": false }).await;
    scene.listener("third", doc! { "operationType": ["drop"] }).await;
    let one = scene.start("one").await;
    scene.live(&["first"], &[&one]).await;
    scene.settled("first", &scene.people()).await;
    let letter = doc! { "listener": "first", "state": "dead", "document": "<i>x</i>", "documentId": "x", "error": "no <b>room</b>", "attempts": 3 };
    scene.own("listener_dead").insert_one(letter).await.unwrap();
    let happened = doc! { "document": "y", "what": "failed", "listener": "first", "database": "d", "collection": "c",
    "operationType": "update", "jobId": "j", "error": "no <u>way</u>", "at": mongodb::bson::DateTime::from_millis(0) };
    scene.own("listener_history").insert_one(happened).await.unwrap();
    let page = shown(&scene, &one, "y", &[]).await;
    assert!(page.contains("id=\"lane-first\"") && page.contains("id=\"lane-second\""), "{page}");
    assert!(page.contains("&lt;b&gt;bold") && !page.contains("<b>bold"), "text from outside is text: {page}");
    assert!(page.contains("held") && page.contains("paused") && page.contains("Resume"), "{page}");
    assert!(page.contains("Replay") && page.contains("listener third is refused"), "{page}");
    assert!(page.contains("Documents that did not go through") && page.contains("&lt;i&gt;x"), "{page}");
    assert!(page.contains("Do it again") && page.contains("Do all failed again"), "{page}");
    assert!(page.contains("no &lt;b&gt;room"), "{page}");
    assert!(page.contains("What happened") && page.contains("no &lt;u&gt;way"), "{page}");
    assert!(!page.contains("{\""), "for people, no JSON: {page}");
    if let Some(folder) = std::env::var_os("LISTENER_SCREENSHOTS") {
        for (name, size, dark) in [
            ("light", "1200,900", false),
            ("dark", "1200,900", true),
            ("phone", "500,1400", false),
            ("phone-dark", "500,1400", true),
        ] {
            let path = std::path::Path::new(&folder).join(format!("{name}.png"));
            let (shot, size) = (format!("--screenshot={}", path.display()), format!("--window-size={size}"));
            let mut more = vec![shot.as_str(), size.as_str()];
            if dark {
                more.push("--blink-settings=preferredColorScheme=0");
            }
            shown(&scene, &one, "y", &more).await;
        }
    }
}
