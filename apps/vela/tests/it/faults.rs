//! Etsy misbehaves in every way that it is known for: what is here ends as what is there.

use std::time::Duration;

use serde_json::json;
use windlass_standins::{Answer, Fault};

use crate::scene::Scene;

fn faults() -> Vec<Fault> {
    vec![
        Fault::Status(500, None),
        Fault::Status(503, Some("1")),
        Fault::CutHead,
        Fault::CutBody { after: 30 },
        Fault::HoldHead,
        Fault::HoldBody { after: 30 },
        Fault::Trickle { every: Duration::from_millis(100) },
        Fault::Garbage,
        Fault::Answer(Answer::new(200, "text/html", "<html>maintenance</html>")),
        Fault::Answer(Answer::new(200, "application/json", "{\"count\": 3, \"results\": [{\"listing")),
        Fault::Answer(Answer::new(200, "application/json", "{}")),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn downloads_and_uploads_survive_every_fault() {
    let mut scene = Scene::new().await;
    scene.short_lease();
    let _all = scene.all().await;
    let tokens = scene.etsy.add_shop(1, 5_001);
    let ids = scene.etsy.fill(1, 230, "active");
    for fault in faults() {
        scene.etsy.faults.push_ok();
        scene.etsy.faults.push(fault);
    }
    scene.connect_with(1, &tokens).await;
    let status = scene.until(1, "up_to_date").await;
    assert_eq!(status["listings"], 230);
    for fault in faults() {
        scene.etsy.faults.push_ok();
        scene.etsy.faults.push(fault);
    }
    for id in &ids[..12] {
        let (status, _) =
            scene.edit(1, *id, json!({"title": format!("Title {id}"), "quantity": 8, "price": 20})).await;
        assert_eq!(status, 202);
    }
    scene.settled(1).await;
    for id in &ids[..12] {
        let listing = scene.etsy.listing(*id).unwrap();
        assert_eq!(
            (&listing["title"], &listing["quantity"], &listing["price"]["amount"]),
            (&json!(format!("Title {id}")), &json!(8), &json!(2000)),
            "{}",
            scene.last_words()
        );
    }
    scene.clean();
}
