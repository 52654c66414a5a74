//! Downloads: all of a shop, in few calls, whatever happens meanwhile.

use serde_json::{Value, json};
use windlass_standins::NewListing;
use windlass_testkit::eventually::eventually;

use crate::scene::Scene;

async fn titles(scene: &Scene, shop: u64) -> Vec<(u64, Value)> {
    let all = scene.listings(shop).await;
    let there = all.iter().filter(|listing| listing["deleted_at"].is_null());
    there.map(|listing| (listing["listing_id"].as_u64().unwrap(), listing["title"].clone())).collect()
}

fn at_etsy(scene: &Scene, shop: u64) -> Vec<(u64, Value)> {
    let all = scene.etsy.listings(shop);
    all.iter().map(|listing| (listing["listing_id"].as_u64().unwrap(), listing["title"].clone())).collect()
}

async fn download(scene: &Scene, shop: u64, kind: &str) {
    let before = scene.status(shop).await["last_success_at"][kind].clone();
    let (status, _) = scene.post("/tasks", json!({"type": kind, "shop_id": shop})).await;
    assert!([200, 201].contains(&status));
    eventually("the download is done", async || {
        let status = scene.status(shop).await;
        (status["last_success_at"][kind] != before && status["status"] == "up_to_date").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_import_has_everything_in_few_calls() {
    let scene = Scene::new().await;
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    for (state, count) in [("active", 230), ("inactive", 30), ("sold_out", 5), ("draft", 3), ("expired", 2)] {
        scene.etsy.fill(1, count, state);
    }
    scene.etsy.add_listing(1, NewListing::new("Hat").sizes(&["S", "M"]).cents(1999));
    scene.connect_with(1, &tokens).await;
    let status = scene.until(1, "up_to_date").await;
    assert_eq!(
        (&status["to_download"], &status["downloaded"], &status["listings"]),
        (&json!(0), &json!(271), &json!(271))
    );
    assert_eq!((&status["name"], &status["to_upload"]), (&json!("Shop1"), &json!(0)));
    assert!(scene.etsy.calls().len() <= 9, "{:?}", scene.etsy.calls());
    assert_eq!(titles(&scene, 1).await, at_etsy(&scene, 1));
    let hat = scene.listings(1).await.into_iter().find(|listing| listing["title"] == "Hat").unwrap();
    assert_eq!(hat["variants"]["Size=M"]["price"], json!(19.99));
    assert_eq!((&hat["price"], &hat["quantity"]), (&json!(19.99), &json!(20)));
    assert_eq!(hat["images"].as_array().unwrap().len(), 2);
    assert!(hat["translations"]["en-US"]["title"].is_string());
    scene.clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_at_etsy_comes_and_what_is_gone_goes() {
    let scene = Scene::new().await;
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let ids = scene.etsy.fill(1, 120, "active");
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    scene.etsy.edit(ids[3], "title", "Renamed");
    scene.etsy.delete(ids[7]);
    scene.etsy.sell(ids[9], 0, 4);
    scene.etsy.add_listing(1, NewListing::new("New one").state("draft"));
    download(&scene, 1, "regular_download").await;
    assert_eq!(titles(&scene, 1).await, at_etsy(&scene, 1));
    assert_eq!(scene.listing(1, ids[9]).await["quantity"], 6);
    let gone = scene.listing(1, ids[7]).await;
    assert_eq!((&gone["status"], gone["deleted_at"].is_string()), (&json!("deleted"), true));
    assert_eq!(scene.edit(1, ids[7], json!({"title": "x"})).await.0, 409);
    download(&scene, 1, "forced_download").await;
    assert_eq!(titles(&scene, 1).await, at_etsy(&scene, 1));
    scene.clean();
}

/// Pages shift while they are read, and Etsy's own order is broken: nothing is missed, and nothing that is there is
/// taken for deleted.
#[tokio::test(flavor = "multi_thread")]
async fn pages_that_shift_lose_nothing() {
    let scene = Scene::new().await;
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let ids = scene.etsy.fill(1, 450, "active");
    scene.etsy.shuffle_pages(true);
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    assert_eq!(titles(&scene, 1).await, at_etsy(&scene, 1), "walked from both ends");
    scene.etsy.shuffle_pages(false);
    let doomed = ids.clone();
    scene.etsy.between_pages(move |shop, page| {
        shop.add(1, NewListing::new(&format!("Between {page}")));
        shop.delete(doomed[(page * 11) % doomed.len()]);
        shop.sell(doomed[(page * 7) % doomed.len()], 0, 1);
    });
    download(&scene, 1, "regular_download").await;
    scene.etsy.between_pages(|_, _| {});
    let kept: Vec<u64> = titles(&scene, 1).await.into_iter().map(|(id, _)| id).collect();
    let known: std::collections::BTreeSet<u64> = kept.iter().copied().collect();
    let lost: Vec<u64> =
        ids.iter().copied().filter(|id| scene.etsy.listing(*id).is_some() && !known.contains(id)).collect();
    assert_eq!(lost, Vec::<u64>::new(), "taken for deleted although they are there");
    download(&scene, 1, "regular_download").await;
    assert_eq!(titles(&scene, 1).await, at_etsy(&scene, 1));
    scene.clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn skus_that_etsy_leaves_out_are_asked_for() {
    let scene = Scene::new().await;
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let hat = scene.etsy.add_listing(1, NewListing::new("Hat").sizes(&["S", "M"]));
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    assert_eq!(scene.listing(1, hat).await["variants"]["Size=S"]["sku"], "SKU-3S");
    scene.etsy.blank_skus();
    scene.etsy.edit(hat, "title", "Cap");
    download(&scene, 1, "regular_download").await;
    let cap = scene.listing(1, hat).await;
    assert_eq!((&cap["title"], &cap["variants"]["Size=S"]["sku"]), (&json!("Cap"), &json!("SKU-3S")));
    scene.clean();
}

/// A user's changes outlive a download, forced or not.
#[tokio::test(flavor = "multi_thread")]
async fn a_download_throws_no_change_away() {
    let mut scene = Scene::new().await;
    scene.set("VELA_LADDER_UPLOAD", "1h");
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let id = scene.etsy.fill(1, 1, "active")[0];
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    // The upload fails and waits for its rung; the listing stays dirty.
    scene.etsy.faults.always(windlass_standins::Fault::Status(503, None));
    assert_eq!(scene.edit(1, id, json!({"title": "Mine"})).await.0, 202);
    scene.until(1, "waiting_retry").await;
    scene.etsy.faults.clear();
    scene.etsy.edit(id, "description", "Theirs");
    let (status, _) = scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await;
    assert_eq!(status, 201);
    eventually("the download is done", async || {
        (!scene.status(1).await["last_success_at"]["forced_download"].is_null()).then_some(())
    })
    .await;
    let mine = scene.listing(1, id).await;
    assert_eq!(
        (&mine["title"], &mine["description"], &mine["dirty"]),
        (&json!("Mine"), &json!("Theirs"), &json!(true))
    );
    let dirty = scene.get("/shops/1/listings?dirty=true").await;
    assert_eq!(dirty["listings"].as_array().unwrap().len(), 1);
}

/// A forced download takes over from a regular one that is under way.
#[tokio::test(flavor = "multi_thread")]
async fn a_forced_download_promotes_a_regular_run() {
    let scene = Scene::new().await;
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    scene.etsy.fill(1, 900, "active");
    // The walk stands still in its fifth call until it is let go.
    (0..4).for_each(|_| scene.etsy.faults.push_ok());
    scene.etsy.faults.push(windlass_standins::Fault::HoldHead);
    scene.connect_with(1, &tokens).await;
    eventually("the first page is stored", async || {
        (scene.status(1).await["downloaded"].as_u64() > Some(0)).then_some(())
    })
    .await;
    let partly = scene.status(1).await;
    let both = partly["to_download"].as_u64().unwrap() + partly["downloaded"].as_u64().unwrap();
    assert_eq!((&partly["status"], both), (&json!("downloading"), 900));
    let (status, _) = scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await;
    assert_eq!(status, 201);
    scene.etsy.faults.release();
    let done = eventually("it is done", async || {
        let status = scene.status(1).await;
        (status["status"] == "up_to_date" && !status["last_success_at"]["forced_download"].is_null())
            .then_some(status)
    })
    .await;
    assert_eq!(done["listings"], 900);
    // Had the regular one gone on to its end, there would be two whole walks.
    assert!(scene.asked("/listings") < 26, "{}", scene.asked("/listings"));
}

/// A first import is cheap: of a day's calls a shop of 5,000 listings takes no more than 60.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_import_of_five_thousand_takes_sixty_calls_at_most() {
    let scene = Scene::new().await;
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    scene.etsy.fill(1, 5_000, "active");
    scene.connect_with(1, &tokens).await;
    let status = scene.until(1, "up_to_date").await;
    assert_eq!((&status["listings"], &status["downloaded"]), (&json!(5_000), &json!(5_000)));
    assert!(scene.etsy.calls().len() <= 60, "{}", scene.etsy.calls().len());
    scene.clean();
}
