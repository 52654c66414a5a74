//! Workers are killed again and again: no shop is worked on twice at once, and both sides end as they should.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_testkit::eventually::answered_within;
use windlass_testkit::program::Program;

use crate::scene::Scene;

fn kills() -> usize {
    std::env::var("WINDLASS_CRASHES").ok().and_then(|n| n.parse().ok()).unwrap_or(12)
}

/// Asks until it holds, for as long as it takes eight workers that keep dying.
async fn in_the_end<T, F: Future<Output = Option<T>>>(
    what: &str,
    scene: &Scene,
    ask: impl FnMut() -> F,
) -> T {
    match answered_within(1_500, ask).await {
        Some(found) => found,
        None => panic!("{what}\n{}", scene.last_words()),
    }
}

/// No shop has two tasks that are running.
async fn one_each(scene: &Scene) {
    let running = scene.get("/tasks?state=running").await;
    let mut shops: BTreeMap<u64, usize> = BTreeMap::new();
    for task in running["tasks"].as_array().unwrap() {
        *shops.entry(task["shop_id"].as_u64().unwrap()).or_default() += 1;
    }
    assert!(shops.values().all(|count| *count == 1), "{running}");
}

async fn fifty_shops(workers: usize) {
    let mut scene = Scene::new().await;
    scene.set("VELA_LEASE_SECONDS", "1.5");
    let _manager = scene.manager().await;
    let mut crew: Vec<Program> = (0..workers).map(|n| scene.worker(&format!("w{n}"))).collect();
    let mut ids: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for shop in 1..=50 {
        let tokens = scene.etsy.add_shop(shop, shop + 5_000);
        ids.insert(shop, scene.etsy.fill(shop, 12, "active"));
        scene.connect_with(shop, &tokens).await;
    }
    for kill in 0..kills() {
        one_each(&scene).await;
        let at = fastrand::usize(..workers);
        crew.swap_remove(at).kill();
        crew.push(scene.worker(&format!("k{kill}")));
        // Users, buyers and the seller go on meanwhile, where there is something to go on with.
        for _ in 0..6 {
            let shop = fastrand::u64(1..=50);
            let id = ids[&shop][fastrand::usize(..6)];
            if scene.ask("GET", &format!("/shops/{shop}/listings/{id}"), None).await.0 == 200 {
                scene.edit(shop, id, json!({"title": format!("Edit {kill} of {id}")})).await;
            }
            scene.etsy.sell(ids[&shop][6 + fastrand::usize(..3)], 0, 1);
            scene.etsy.edit(ids[&shop][9 + fastrand::usize(..3)], "title", format!("Seller {kill}"));
        }
        let before = scene.etsy.calls().len();
        let _ = answered_within(20, async || (scene.etsy.calls().len() > before + 5).then_some(())).await;
    }
    for shop in 1..=50 {
        in_the_end(&format!("shop {shop} is not settled"), &scene, async || {
            let status = scene.status(shop).await;
            if status["status"] == "failed" {
                // Chance may kill one task three times before it got on: somebody looks at it, and says again.
                let tasks = scene.get(&format!("/tasks?shop_id={shop}&state=failed")).await;
                for task in tasks["tasks"].as_array().unwrap() {
                    assert_eq!(task["reason"], "quarantined", "{status}\n{tasks}");
                    let retry = format!("/tasks/{}/retry", task["id"].as_str().unwrap());
                    scene.ask("POST", &retry, None).await;
                }
            }
            (status["status"] == "up_to_date" && status["to_upload"] == 0).then_some(())
        })
        .await;
        scene.post("/tasks", json!({"type": "forced_download", "shop_id": shop})).await;
    }
    for shop in 1..=50 {
        in_the_end("the last look is done", &scene, async || {
            let status = scene.status(shop).await;
            let done = !status["last_success_at"]["forced_download"].is_null();
            (status["status"] == "up_to_date" && done).then_some(())
        })
        .await;
        let theirs: Vec<(Value, Value)> = scene
            .etsy
            .listings(shop)
            .into_iter()
            .map(|listing| (listing["title"].clone(), listing["quantity"].clone()))
            .collect();
        let ours: Vec<(Value, Value)> = scene
            .listings(shop)
            .await
            .into_iter()
            .map(|listing| (listing["title"].clone(), listing["quantity"].clone()))
            .collect();
        assert_eq!(ours, theirs, "shop {shop}");
    }
    scene.clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_vela_two_workers_on_fifty_shops() {
    fifty_shops(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crash_vela_eight_workers_on_fifty_shops() {
    fifty_shops(8).await;
}

/// A shop of 5,000 listings, imported by a program that is killed at random points.
#[tokio::test(flavor = "multi_thread")]
async fn crash_vela_five_thousand_listings() {
    let mut scene = Scene::new().await;
    scene.set("VELA_LEASE_SECONDS", "1.5");
    let mut all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    scene.etsy.fill(1, 5_000, "active");
    scene.connect_with(1, &tokens).await;
    // More often than crashes without progress are forgiven.
    for _ in 0..4 {
        let before = scene.status(1).await["downloaded"].as_u64().unwrap();
        let further = 100 + fastrand::u64(..1_200);
        let ask = async || {
            let status = scene.status(1).await;
            (status["downloaded"].as_u64().unwrap() >= before + further || status["status"] == "up_to_date")
                .then_some(())
        };
        in_the_end("the import goes on", &scene, ask).await;
        all.kill();
        all = scene.all().await;
        // It goes on where it was, and not from the beginning.
        let after = scene.status(1).await["downloaded"].as_u64().unwrap();
        assert!(after >= before, "{after} after {before}");
    }
    let ask = async || (scene.status(1).await["status"] == "up_to_date").then_some(());
    in_the_end("the import ends", &scene, ask).await;
    let ours: Vec<Value> =
        scene.listings(1).await.into_iter().map(|listing| listing["listing_id"].clone()).collect();
    let theirs: Vec<Value> =
        scene.etsy.listings(1).into_iter().map(|listing| listing["listing_id"].clone()).collect();
    assert_eq!(ours.len(), 5_000);
    assert_eq!(ours, theirs);
    // Each kill costs a few pages that were under way, and a new look at the shop.
    assert!(scene.etsy.calls().len() <= 57 + 4 * 12, "{}", scene.etsy.calls().len());
    scene.clean();
    drop(all);
}

/// A worker that stands still past its lease and wakes again calls Etsy no more, and writes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn crash_vela_a_frozen_worker_is_too_late() {
    let mut scene = Scene::new().await;
    scene.set("VELA_LEASE_SECONDS", "1.5");
    let _manager = scene.manager().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let ids = scene.etsy.fill(1, 30, "active");
    let frozen = scene.worker("frozen");
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    scene.etsy.faults.push_ok();
    scene.etsy.faults.push(windlass_standins::Fault::HoldHead);
    for id in &ids {
        scene.edit(1, *id, json!({"title": "Sent"})).await;
    }
    let at = scene.etsy.calls().len();
    in_the_end("the upload has begun", &scene, async || {
        (scene.status(1).await["worker"] == "frozen").then_some(())
    })
    .await;
    frozen.signal(libc::SIGSTOP);
    scene.etsy.faults.release();
    let second = scene.worker("second");
    in_the_end("somebody else goes on", &scene, async || {
        let status = scene.status(1).await;
        (status["status"] == "up_to_date" && status["to_upload"] == 0).then_some(())
    })
    .await;
    let done = scene.asked("PATCH");
    assert!(done >= 30 && scene.etsy.calls().len() > at);
    scene.etsy.edit(ids[0], "title", "The seller's");
    frozen.signal(libc::SIGCONT);
    // It has something to do again, like everybody.
    scene.connect(2).await;
    in_the_end("shop 2 is done", &scene, async || {
        (scene.status(2).await["status"] == "up_to_date").then_some(())
    })
    .await;
    second.kill();
    scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await;
    in_the_end("the frozen one works again", &scene, async || {
        (!scene.status(1).await["last_success_at"]["forced_download"].is_null()).then_some(())
    })
    .await;
    assert_eq!(scene.asked("PATCH"), done, "it has sent nothing late");
    assert_eq!(scene.etsy.listing(ids[0]).unwrap()["title"], "The seller's");
    scene.clean();
}
