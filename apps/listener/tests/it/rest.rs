//! Listeners by REST: changed, paused, resumed, read again, deleted; and the order in which the service starts and ends.

use mongodb::bson::doc;
use windlass_testkit::eventually::eventually;

use crate::scene::Scene;

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_is_changed_paused_resumed_and_deleted_by_rest() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "operationType": ["insert"], "statusField": "metadata.listener" }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    let ask = async |method: &str, path: &str, body: &str| scene.ask(&one, method, path, body).await.unwrap();
    let people = scene.people();
    let write = async |id: &str| drop(people.insert_one(doc! { "_id": id, "kind": "b" }).await.unwrap());
    // Changed: what cannot be is refused and changes nothing.
    let (code, answer) = ask("PATCH", "/listeners/all", r#"{"filter": {"$where": "1"}}"#).await;
    assert_eq!(code, 400, "{answer}");
    let (code, answer) = ask("PATCH", "/listeners/all", r#"{"lockInfo": {}}"#).await;
    assert_eq!(code, 400, "{answer}");
    let (code, answer) = ask("PATCH", "/listeners/nobody", r#"{"priority": 1}"#).await;
    assert_eq!(code, 404, "{answer}");
    let (code, answer) = ask("PATCH", "/listeners/all", r#"{"filter": {"kind": "a"}}"#).await;
    assert_eq!((code, &answer["filter"]["kind"]), (200, &serde_json::json!("a")), "{answer}");
    write("left-out").await;
    let (code, _) = ask("PATCH", "/listeners/all", r#"{"filter": null}"#).await;
    assert_eq!(code, 200);
    write("heard").await;
    scene.until("all", 1).await;
    assert_eq!(scene.count("all").await, 1, "{}", scene.last_words());
    // Paused, and resumed: what came meanwhile is left out.
    let (code, answer) = ask("POST", "/listeners/all/pause", "").await;
    assert_eq!((code, &answer["isActive"]), (200, &serde_json::json!(false)), "{answer}");
    eventually("its lock is released", async || scene.owner("all").await.is_none().then_some(())).await;
    write("meanwhile").await;
    let (code, answer) = ask("POST", "/listeners/all/resume", "").await;
    assert_eq!((code, &answer["isActive"]), (200, &serde_json::json!(true)), "{answer}");
    scene.live(&["all"], &[&one]).await;
    scene.settled("all", &people).await;
    assert_eq!(scene.count("all").await, 2, "{}", scene.last_words());
    // Read again: what has its row makes none.
    let (code, answer) = ask("POST", "/listeners/all/replay", r#"{"from": "yesterday"}"#).await;
    assert_eq!(code, 400, "{answer}");
    scene.own("jobs").delete_one(doc! { "data.documentId": "heard" }).await.unwrap();
    let body = format!(r#"{{"from": "{}"}}"#, scene.beginning());
    let (code, answer) = ask("POST", "/listeners/all/replay", &body).await;
    assert_eq!(code, 200, "{answer}");
    eventually("it is made anew", async || {
        scene.own("jobs").find_one(doc! { "data.documentId": "heard" }).await.unwrap().map(drop)
    })
    .await;
    scene.settled("all", &people).await;
    // Done again.
    let rows = async || scene.own("jobs").count_documents(doc! { "data.documentId": "heard" }).await.unwrap();
    let (code, answer) = ask("POST", "/retry", r#"{"document": "heard"}"#).await;
    assert_eq!((code, &answer["asked"]), (200, &serde_json::json!(1)), "{answer}");
    eventually("it has a second job", async || (rows().await == 2).then_some(())).await;
    for wrong in ["{}", r#"{"all_failed": false}"#, r#"{"document": "x", "all_failed": true}"#, "x"] {
        assert_eq!(ask("POST", "/retry", wrong).await.0, 400, "{wrong}");
    }
    assert_eq!(ask("POST", "/retry", r#"{"document": "nobody"}"#).await.0, 404);
    // Deleted: its jobs stay, and it hears nothing more.
    let (code, _) = ask("DELETE", "/listeners/all", "").await;
    assert_eq!(code, 200);
    assert_eq!(ask("DELETE", "/listeners/all", "").await.0, 404);
    assert_eq!(ask("GET", "/listeners/all", "").await.0, 404);
    let before = scene.count("all").await;
    scene.listener("watch", doc! { "operationType": ["insert"] }).await;
    scene.live(&["watch"], &[&one]).await;
    scene.settled("watch", &people).await;
    assert_eq!(scene.count("all").await, before);
    let left = scene.own("listener_positions").count_documents(doc! { "listener": "all" }).await.unwrap();
    assert_eq!(left, 0);
}

/// It starts with a name before it has locks, and ends with the locks behind the streams and the door at the last.
#[tokio::test(flavor = "multi_thread")]
async fn it_starts_and_ends_in_its_order() {
    let scene = Scene::new().await;
    scene.listener("all", doc! { "operationType": ["insert"] }).await;
    let one = scene.start("one").await;
    scene.live(&["all"], &[&one]).await;
    scene.settled("all", &scene.people()).await;
    one.program.signal(libc::SIGTERM);
    assert!(one.program.wait().success());
    let log = std::fs::read_to_string(scene.log("one")).unwrap();
    let said = [
        "has started",
        "A listener is ours",
        "join the shared stream",
        "All locks are released",
        "has ended",
    ];
    let places: Vec<Option<usize>> = said.iter().map(|words| log.find(words)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{log}");
    assert_eq!(scene.owner("all").await, None);
    assert_eq!(scene.own("listener_instances").count_documents(doc! {}).await.unwrap(), 0);
}
