//! Uploads: what users changed arrives, merged, once, and for free.

use serde_json::{Value, json};
use windlass_standins::{Fault, NewListing};
use windlass_testkit::eventually::eventually;
use windlass_testkit::program::Program;

use crate::scene::Scene;

/// A shop whose listings are here already.
async fn shop(scene: &Scene, listings: Vec<NewListing>) -> (Program, Vec<u64>) {
    let all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let ids = listings.into_iter().map(|listing| scene.etsy.add_listing(1, listing)).collect();
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    (all, ids)
}

fn at_etsy(scene: &Scene, id: u64) -> Value {
    scene.etsy.listing(id).unwrap()
}

fn price(scene: &Scene, id: u64, product: usize) -> Value {
    at_etsy(scene, id)["inventory"]["products"][product]["offerings"][0]["price"]["amount"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_arrive() {
    let scene = Scene::new().await;
    let (_all, ids) =
        shop(&scene, vec![NewListing::new("Hat"), NewListing::new("Cap").sizes(&["S", "M"])]).await;
    let (status, edited) = scene
        .edit(1, ids[0], json!({"title": "New hat", "tags": ["wool", "red"], "price": 15.5, "quantity": 7, "section": "Hats"}))
        .await;
    assert_eq!((status, &edited["dirty"], &edited["title"]), (202, &json!(true), &json!("New hat")));
    let variants = json!({"variants": {"Size=M": {"price": "20.00"}, "SKU-3S": {"quantity": 2}}});
    assert_eq!(scene.edit(1, ids[1], variants).await.0, 202);
    scene.settled(1).await;
    let hat = at_etsy(&scene, ids[0]);
    assert_eq!(
        (&hat["title"], &hat["tags"], &hat["quantity"]),
        (&json!("New hat"), &json!(["wool", "red"]), &json!(7))
    );
    assert_eq!((price(&scene, ids[0], 0), scene.etsy.sections(1)), (json!(1550), vec!["Hats".to_owned()]));
    let cap = at_etsy(&scene, ids[1]);
    assert_eq!((price(&scene, ids[1], 0), price(&scene, ids[1], 1)), (json!(1250), json!(2000)));
    assert_eq!(cap["quantity"], 12);
    assert_eq!(cap["inventory"]["products"].as_array().unwrap().len(), 2);
    let mine = scene.listing(1, ids[0]).await;
    assert_eq!(
        (&mine["dirty"], &mine["section"], &mine["price"]),
        (&json!(false), &json!("Hats"), &json!(15.5))
    );
    let status = scene.status(1).await;
    assert!(status["last_success_at"]["upload_changes"].is_string());
    assert_eq!(scene.edit(1, ids[0], json!({"title": "New hat"})).await.0, 200, "nothing to send");
    scene.clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn conflicts_are_recorded_and_sales_are_kept() {
    let mut scene = Scene::new().await;
    scene.set("VELA_LADDER_UPLOAD", "1s 1s 1s 1s");
    let (_all, ids) =
        shop(&scene, vec![NewListing::new("Hat"), NewListing::new("Cap"), NewListing::new("Scarf")]).await;
    scene.etsy.faults.always(Fault::Status(503, None));
    scene.edit(1, ids[0], json!({"title": "Mine", "quantity": 7})).await;
    scene.edit(1, ids[1], json!({"title": "Same"})).await;
    scene.edit(1, ids[2], json!({"title": "Never sent"})).await;
    scene.until(1, "waiting_retry").await;
    // Meanwhile, at Etsy.
    scene.etsy.edit(ids[0], "title", "Theirs");
    scene.etsy.sell(ids[0], 0, 2);
    scene.etsy.edit(ids[1], "title", "Same");
    scene.etsy.delete(ids[2]);
    scene.etsy.faults.clear();
    scene.settled(1).await;
    let hat = at_etsy(&scene, ids[0]);
    assert_eq!((&hat["title"], &hat["quantity"]), (&json!("Mine"), &json!(5)), "10 - 2 sold - 3 taken away");
    let mine = scene.listing(1, ids[0]).await;
    let conflict = json!([{"field": "title", "base": "Hat", "remote": "Theirs", "local": "Mine"}]);
    assert_eq!(mine["conflicts"], conflict);
    assert_eq!(scene.listing(1, ids[1]).await["conflicts"], json!([]));
    let gone = scene.listing(1, ids[2]).await;
    assert_eq!(
        (&gone["status"], &gone["title"]),
        (&json!("conflict_deleted"), &json!("Never sent")),
        "it is kept"
    );
    assert_eq!(scene.status(1).await["conflicts_deleted"], 1);
    let (status, settled) =
        scene.post(&format!("/shops/1/conflicts/{}", ids[0]), json!({"take": "remote"})).await;
    assert_eq!((status, &settled["title"]), (202, &json!("Theirs")));
    scene.settled(1).await;
    assert_eq!(at_etsy(&scene, ids[0])["title"], "Theirs");
    let (status, settled) =
        scene.post(&format!("/shops/1/conflicts/{}", ids[2]), json!({"take": "discard"})).await;
    assert_eq!((status, &settled["status"]), (200, &json!("deleted")));
    scene.clean();
}

/// What Etsy refuses of one listing keeps no other from arriving.
#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_is_refused_stops_nobody() {
    let scene = Scene::new().await;
    let (_all, ids) = shop(&scene, (0..12).map(|n| NewListing::new(&format!("Hat {n}"))).collect()).await;
    let (status, refused) = scene.edit(1, ids[0], json!({"title": "a & b & c", "price": -1})).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (422, &json!("invalid_fields")),
        "refused before a call is spent"
    );
    assert!(
        refused["error"]["details"]["title"].is_string() && refused["error"]["details"]["price"].is_string()
    );
    // Only Etsy knows that the second image is gone.
    let images = scene.listing(1, ids[0]).await["images"].clone();
    let image = |at: usize| images[at]["listing_image_id"].clone();
    scene.etsy.edit(ids[0], "image_ids", json!([image(0)]));
    scene.edit(1, ids[0], json!({"image_ids": [image(1)]})).await;
    for id in &ids[1..] {
        scene.edit(1, *id, json!({"title": "Sent"})).await;
    }
    eventually("all others are sent", async || (scene.status(1).await["to_upload"] == 0).then_some(())).await;
    scene.until(1, "up_to_date").await;
    assert!(ids[1..].iter().all(|id| at_etsy(&scene, *id)["title"] == "Sent"));
    let refused = scene.listing(1, ids[0]).await;
    assert_eq!((&refused["status"], &refused["dirty"]), (&json!("refused"), &json!(true)));
    assert!(refused["error"].as_str().unwrap().contains("image_ids must name images"), "{refused}");
    let status = scene.status(1).await;
    assert_eq!((&status["refused"], &status["last_error"]["listing_id"]), (&json!(1), &json!(ids[0])));
    let calls = scene.asked("PATCH");
    scene.post("/tasks", json!({"type": "upload_changes", "shop_id": 1})).await;
    eventually("nothing is left", async || {
        let tasks = scene.get("/tasks?shop_id=1").await;
        tasks["tasks"].as_array().unwrap().is_empty().then_some(())
    })
    .await;
    assert_eq!(scene.asked("PATCH"), calls, "it waits for its next edit");
    scene.edit(1, ids[0], json!({"image_ids": [image(0)]})).await;
    scene.settled(1).await;
    assert_eq!(at_etsy(&scene, ids[0])["images"].as_array().unwrap().len(), 1);
    scene.clean();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_yes_that_is_a_lie_is_found_out() {
    let scene = Scene::new().await;
    let (_all, ids) = shop(&scene, vec![NewListing::new("Hat")]).await;
    scene.etsy.lie_about("materials");
    scene.edit(1, ids[0], json!({"materials": ["gold"], "title": "New"})).await;
    let lied = eventually("it is found out", async || {
        let listing = scene.listing(1, ids[0]).await;
        listing["error"].is_string().then_some(listing)
    })
    .await;
    assert!(lied["error"].as_str().unwrap().contains("did not change materials"), "{lied}");
    assert_eq!(
        (&lied["changes"].as_object().unwrap().len(), &at_etsy(&scene, ids[0])["title"]),
        (&1, &json!("New"))
    );
}

/// Nothing goes on sale by itself: that costs the seller a fee.
#[tokio::test(flavor = "multi_thread")]
async fn no_fee_is_ever_spent_without_a_word() {
    let scene = Scene::new().await;
    let listings =
        ["draft", "expired", "sold_out", "active"].map(|state| NewListing::new(state).state(state));
    let (_all, ids) = shop(&scene, listings.to_vec()).await;
    for id in &ids {
        scene.edit(1, *id, json!({"title": "Changed"})).await;
    }
    scene.settled(1).await;
    assert!(ids.iter().all(|id| at_etsy(&scene, *id)["title"] == "Changed"));
    for id in &ids[..3] {
        scene.edit(1, *id, json!({"state": "active"})).await;
    }
    scene.edit(1, ids[2], json!({"quantity": 5})).await;
    eventually("all three are refused", async || (scene.status(1).await["refused"] == 3).then_some(())).await;
    assert_eq!(scene.etsy.fees(), 0);
    scene.edit(1, ids[3], json!({"state": "inactive"})).await;
    eventually("this one is free", async || (at_etsy(&scene, ids[3])["state"] == "inactive").then_some(()))
        .await;
    scene.clean();
    scene.edit(1, ids[0], json!({"state": "active", "accept_fee": true})).await;
    eventually("it was said", async || (at_etsy(&scene, ids[0])["state"] == "active").then_some(())).await;
    assert_eq!(scene.etsy.fees(), 1);
}

/// An inventory that arrived although its answer was lost is not taken for one that did not: no difference counts twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_takes_no_difference_twice() {
    let scene = Scene::new().await;
    let (_all, ids) = shop(&scene, vec![NewListing::new("Hat").quantity(10)]).await;
    // Sections, the listing and its inventory are read; then the write arrives, and its answer does not.
    (0..3).for_each(|_| scene.etsy.faults.push_ok());
    scene.etsy.faults.push(Fault::CutBody { after: 0 });
    scene.edit(1, ids[0], json!({"quantity": 7})).await;
    eventually("it has arrived", async || (at_etsy(&scene, ids[0])["quantity"] == 7).then_some(())).await;
    scene.etsy.sell(ids[0], 0, 1);
    scene.settled(1).await;
    assert_eq!(at_etsy(&scene, ids[0])["quantity"], 6, "7, and one was sold");
    assert_eq!(scene.asked("PUT"), 1);
    scene.clean();
}

/// Both sides have changed a field, and the answer to ours is lost: that there was a conflict is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_loses_no_conflict() {
    let mut scene = Scene::new().await;
    scene.set("VELA_LADDER_UPLOAD", "1s 1s 1s 1s");
    let (_all, ids) = shop(&scene, vec![NewListing::new("Hat")]).await;
    scene.etsy.edit(ids[0], "title", "Theirs");
    // Sections and the listing are read; then the write arrives, and its answer does not.
    (0..2).for_each(|_| scene.etsy.faults.push_ok());
    scene.etsy.faults.push(Fault::CutBody { after: 0 });
    scene.edit(1, ids[0], json!({"title": "Mine"})).await;
    scene.settled(1).await;
    assert_eq!(at_etsy(&scene, ids[0])["title"], "Mine");
    let conflict = json!([{"field": "title", "base": "Hat", "remote": "Theirs", "local": "Mine"}]);
    assert_eq!(scene.listing(1, ids[0]).await["conflicts"], conflict);
    scene.clean();
}

/// A quantity that puts a listing on sale again, with a fee that was agreed to: its new state is known at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_is_filled_again_is_active() {
    let scene = Scene::new().await;
    let (_all, ids) = shop(&scene, vec![NewListing::new("Hat").state("sold_out")]).await;
    scene.edit(1, ids[0], json!({"quantity": 5, "accept_fee": true})).await;
    scene.settled(1).await;
    assert_eq!((at_etsy(&scene, ids[0])["state"].as_str(), scene.etsy.fees()), (Some("active"), 1));
    assert_eq!(scene.listing(1, ids[0]).await["state"], "active");
}

/// Dirty is what has changes that Etsy does not have, for whatever reason: the filter and the field agree, page by page.
#[tokio::test(flavor = "multi_thread")]
async fn dirty_means_the_same_everywhere() {
    let scene = Scene::new().await;
    let (all, ids) = shop(&scene, (0..9).map(|n| NewListing::new(&format!("Hat {n}"))).collect()).await;
    // One that Etsy refuses: only Etsy knows that the second image is gone.
    let images = scene.listing(1, ids[4]).await["images"].clone();
    scene.etsy.edit(ids[4], "image_ids", json!([images[0]["listing_image_id"]]));
    scene.edit(1, ids[4], json!({"image_ids": [images[1]["listing_image_id"]]})).await;
    eventually("it is refused", async || (scene.status(1).await["refused"] == 1).then_some(())).await;
    // One that is gone with changes, and one that is gone without.
    scene.etsy.delete(ids[1]);
    scene.edit(1, ids[1], json!({"title": "Never sent"})).await;
    eventually("it is gone", async || (scene.status(1).await["conflicts_deleted"] == 1).then_some(())).await;
    scene.etsy.delete(ids[6]);
    scene.post("/tasks", json!({"type": "forced_download", "shop_id": 1})).await;
    eventually("the other is gone", async || {
        (scene.listing(1, ids[6]).await["status"] == "deleted").then_some(())
    })
    .await;
    // And some that nobody sends, since nobody is at work.
    drop(all);
    let _manager = scene.manager().await;
    for at in [0, 2, 7, 8] {
        assert_eq!(scene.edit(1, ids[at], json!({"title": "Not sent yet"})).await.0, 202);
    }
    let of = |listings: &[Value]| -> Vec<u64> {
        listings.iter().map(|listing| listing["listing_id"].as_u64().unwrap()).collect()
    };
    let everything = scene.listings(1).await;
    for (word, is_dirty, at) in [
        ("true", true, &[0, 1, 2, 4, 7, 8][..]),
        ("false", false, &[3, 5, 6]),
        ("1", true, &[0, 1, 2, 4, 7, 8]),
    ] {
        let expected: Vec<u64> = at.iter().map(|at| ids[*at]).collect();
        let by_field: Vec<Value> =
            everything.iter().filter(|listing| listing["dirty"] == is_dirty).cloned().collect();
        assert_eq!(of(&by_field), expected, "{word}");
        for limit in [1, 2, 4, 200] {
            let found = scene.listings_by(1, &format!("limit={limit}&dirty={word}")).await;
            assert_eq!(of(&found), expected, "dirty={word} by {limit}");
        }
    }
    for (status, at) in [
        ("refused", &[4][..]),
        ("conflict_deleted", &[1]),
        ("deleted", &[6]),
        ("dirty", &[0, 2, 7, 8]),
        ("clean", &[3, 5]),
    ] {
        let expected: Vec<u64> = at.iter().map(|at| ids[*at]).collect();
        assert_eq!(
            of(&scene.listings_by(1, &format!("limit=2&status={status}")).await),
            expected,
            "{status}"
        );
    }
    assert_eq!(of(&scene.listings_by(1, "dirty=true&status=refused").await), [ids[4]]);
    assert_eq!(of(&scene.listings_by(1, "dirty=false&status=refused").await), [0_u64; 0]);
    for wrong in ["dirty=maybe", "status=shiny"] {
        assert_eq!(scene.ask("GET", &format!("/shops/1/listings?{wrong}"), None).await.0, 400, "{wrong}");
    }
}
