//! Tasks by plain SQL on Postgres, inside of the web's own transaction; and the whole sync on that store.

use serde_json::json;
use tokio_postgres::NoTls;
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::Server;

use crate::scene::Scene;

/// The statement of the guide, for a shop.
fn enqueue(shop: u64) -> String {
    let guide = include_str!("../../../../docs/guide/vela.md");
    let (_, block) = guide.split_once("```sql\n").unwrap();
    let (statement, _) = block.split_once(";\n```").unwrap();
    let statement = statement.replace("12345678", &shop.to_string());
    assert!(statement.contains("\"forced_download:1\""), "{statement}");
    format!("SELECT id::text FROM ({statement}) AS asked(id)")
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_come_with_the_webs_own_transaction() {
    let database = Server::shared().await.fresh_database().await;
    let mut scene = Scene::new().await;
    scene.set("VELA_STORE", &database.url());
    let manager = scene.manager().await;
    let worker = scene.worker("w1");
    let tokens = scene.etsy.add_shop(1, 5_001);
    let ids = scene.etsy.fill(1, 130, "active");
    scene.connect_with(1, &tokens).await;
    scene.until(1, "up_to_date").await;
    worker.kill();
    let (mut client, connection) = tokio_postgres::connect(&database.url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE wishes (shop bigint)").await.unwrap();
    let (kind, wish) = ("forced_download", enqueue(1));
    let taken_back = client.transaction().await.unwrap();
    taken_back.execute("INSERT INTO wishes VALUES (1)", &[]).await.unwrap();
    taken_back.query_one(&wish, &[]).await.unwrap();
    taken_back.rollback().await.unwrap();
    assert_eq!(scene.get("/tasks?shop_id=1").await["tasks"], json!([]), "it never was");
    let kept = client.transaction().await.unwrap();
    kept.execute("INSERT INTO wishes VALUES (1)", &[]).await.unwrap();
    let first: String = kept.query_one(&wish, &[]).await.unwrap().get(0);
    kept.commit().await.unwrap();
    let second: String = client.query_one(&wish, &[]).await.unwrap().get(0);
    assert_eq!(first, second, "equal ones are one");
    let (status, again) = scene.post("/tasks", json!({"type": kind, "shop_id": 1})).await;
    assert_eq!((status, &again["task"]["id"]), (200, &json!(first)), "by whatever way they come");
    let _worker = scene.worker("w2");
    eventually("it is done", async || {
        (!scene.status(1).await["last_success_at"]["forced_download"].is_null()).then_some(())
    })
    .await;
    scene.edit(1, ids[0], json!({"title": "By Postgres", "quantity": 3})).await;
    scene.settled(1).await;
    let there = scene.etsy.listing(ids[0]).unwrap();
    assert_eq!((&there["title"], &there["quantity"]), (&json!("By Postgres"), &json!(3)));
    assert_eq!(scene.listings(1).await.len(), 130);
    scene.clean();
    drop(manager);
}
