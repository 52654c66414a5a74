//! Limits: how many jobs run at once, of a listener and in all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mongodb::bson::doc;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use windlass_testkit::eventually::eventually;

use crate::scene::{Scene, hold};

/// How many are inside, and were at most: by path, by document, and in all.
#[derive(Default)]
struct Inside {
    now: BTreeMap<String, usize>,
    most: BTreeMap<String, usize>,
    /// The positions of a document's changes, in the order in which they came.
    order: BTreeMap<String, Vec<String>>,
    done: usize,
}

impl Inside {
    fn step(&mut self, path: &str, document: &str, is_in: bool) {
        for name in [path, document, "all"] {
            let now = self.now.entry(name.to_owned()).or_default();
            *now = if is_in { *now + 1 } else { *now - 1 };
            let now = *now;
            let most = self.most.entry(name.to_owned()).or_default();
            *most = now.max(*most);
        }
        self.done += usize::from(!is_in);
    }
}

/// An endpoint whose work takes a while.
async fn endpoint() -> (u16, Arc<Mutex<Inside>>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let inside = Arc::new(Mutex::new(Inside::default()));
    let counted = inside.clone();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let inside = counted.clone();
            tokio::spawn(async move {
                let mut head = Vec::new();
                let mut part = [0; 4_096];
                while !String::from_utf8_lossy(&head).ends_with("}}") {
                    match stream.read(&mut part).await {
                        Ok(0) | Err(_) => return,
                        Ok(many) => head.extend_from_slice(&part[..many]),
                    }
                }
                let head = String::from_utf8_lossy(&head).into_owned();
                let path = head.split(' ').nth(1).unwrap().to_owned();
                let body: Value = serde_json::from_str(head.split_once("\r\n\r\n").unwrap().1).unwrap();
                let word = |name: &str| body["data"][name].as_str().unwrap().to_owned();
                let (document, token) = (word("documentId"), word("token"));
                inside.lock().unwrap().order.entry(document.clone()).or_default().push(token);
                inside.lock().unwrap().step(&path, &document, true);
                hold(Duration::from_millis(60)).await;
                inside.lock().unwrap().step(&path, &document, false);
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").await;
            });
        }
    });
    (port, inside)
}

async fn most(target: &str) -> BTreeMap<String, usize> {
    let mut scene = Scene::new().await;
    let (port, inside) = endpoint().await;
    let config = format!(
        "concurrency = 8\nconcurrency_in_all = 4\n[jobs.job-one]\nurl = \"http://127.0.0.1:{port}/one\"\n[jobs.job-many]\nurl = \"http://127.0.0.1:{port}/many\"\nconcurrency = 8\n"
    );
    let file = scene.folder.path().join("listener.toml");
    std::fs::write(&file, config).unwrap();
    scene.set("LISTENER_CONFIG", &file.display().to_string());
    scene.set("JOBS_TARGET", target);
    scene.listener("one", doc! { "operationType": ["insert"], "concurrency": 1 }).await;
    scene.listener("many", doc! { "operationType": ["insert"] }).await;
    let instance = scene.start("one").await;
    scene.live(&["one", "many"], &[&instance]).await;
    scene.people().insert_many((0..30).map(|n| doc! { "_id": n })).await.unwrap();
    eventually("all have run", async || (inside.lock().unwrap().done == 60).then_some(())).await;
    let most = inside.lock().unwrap().most.clone();
    println!("{target}: {most:?}");
    most
}

/// A listener's own limit, and that of the program, hold for rows of Agenda's and for jobs of the store.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_keep_to_the_limits_of_their_listener_and_of_all() {
    for target in ["agenda", "windlass"] {
        let most = most(target).await;
        assert_eq!(most["/one"], 1, "{target}: {most:?}");
        assert!((2..=4).contains(&most["/many"]) && most["all"] <= 4, "{target}: {most:?}");
    }
}

/// T24: changes that come while a job of their document runs have jobs of their own, which run behind it and never beside
/// it, in their order: in two programs that share the rows, and for jobs of the store.
#[tokio::test(flavor = "multi_thread")]
async fn t24_jobs_of_one_document_never_overlap() {
    const CHANGES: usize = 15;
    for target in ["agenda", "windlass"] {
        let mut scene = Scene::new().await;
        let (port, inside) = endpoint().await;
        let config = format!("concurrency = 8\n[jobs.job-all]\nurl = \"http://127.0.0.1:{port}/all\"\n");
        let file = scene.folder.path().join("listener.toml");
        std::fs::write(&file, config).unwrap();
        scene.set("LISTENER_CONFIG", &file.display().to_string());
        scene.set("JOBS_TARGET", target);
        scene.listener("all", doc! { "operationType": ["insert", "update"] }).await;
        let (one, two) = (scene.start("one").await, scene.start("two").await);
        scene.live(&["all"], &[&one, &two]).await;
        let people = scene.people();
        people.insert_many(["x", "y"].map(|id| doc! { "_id": id })).await.unwrap();
        for n in 1..CHANGES as i32 {
            for id in ["x", "y"] {
                people.update_one(doc! { "_id": id }, doc! { "$set": { "n": n } }).await.unwrap();
            }
        }
        eventually("all have run", async || (inside.lock().unwrap().done == 2 * CHANGES).then_some(())).await;
        let inside = inside.lock().unwrap();
        assert_eq!((inside.most["x"], inside.most["y"]), (1, 1), "{target}: {:?}", inside.most);
        for (document, tokens) in &inside.order {
            assert!(tokens.is_sorted(), "{target}: {document} out of order: {tokens:?}");
        }
    }
}
