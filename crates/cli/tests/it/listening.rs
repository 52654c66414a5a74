//! Whoever listens to events misses none, however often the server that tells them comes and goes, while others go on
//! writing to the store.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use windlass_engine::world::{RealWorld, World};
use windlass_testkit::binary;
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::Server;

use crate::crash::crashes;
use crate::idle::{address, start};

/// How soon a listener comes again while nobody serves.
const AGAIN_MS: u64 = 5;

/// What a listener heard.
#[derive(Default)]
struct Heard {
    /// The position of the last frame, from which it goes on.
    at: String,
    /// The place of each event.
    places: Vec<u64>,
    /// The jobs of which it heard that they were enqueued.
    enqueued: Vec<String>,
    /// What it was told beside events.
    beside: Vec<String>,
    /// How often it was answered.
    connections: u32,
}

impl Heard {
    fn take(&mut self, id: &str, what: &str, data: &str) {
        id.clone_into(&mut self.at);
        match what {
            "hello" => self.connections += 1,
            "gap" | "reset" => self.beside.push(format!("{what} {data}")),
            _ => {
                self.places.push(id.split('-').nth(1).expect("a place").parse().expect("a number"));
                if what == "enqueued" {
                    let data: Value = serde_json::from_str(data).expect("JSON");
                    let jobs = data["jobs"].as_array().expect("jobs").iter();
                    self.enqueued.extend(jobs.map(|job| job.as_str().expect("an id").to_owned()));
                }
            }
        }
    }
}

/// Listens, and comes again at once with where it was whenever it is cut off.
async fn listen(address: String, heard: Arc<Mutex<Heard>>) {
    let world = RealWorld::new();
    loop {
        if let Ok(stream) = TcpStream::connect(&address).await {
            // A connection that breaks is what this is about.
            let _ = hear(stream, &heard).await;
        }
        world.sleep_ms(AGAIN_MS).await;
    }
}

/// Hears what comes over one connection. A frame counts when its last line has come whole: one that was torn leaves the
/// position where it was.
async fn hear(mut stream: TcpStream, heard: &Mutex<Heard>) -> std::io::Result<()> {
    let at = heard.lock().expect("what was heard").at.clone();
    let host = stream.peer_addr()?;
    let question = format!("GET /v1/events HTTP/1.0\r\nHost: {host}\r\nLast-Event-ID: {at}\r\n\r\n");
    stream.write_all(question.as_bytes()).await?;
    let (mut id, mut what) = (String::new(), String::new());
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        match line.strip_suffix('\n').and_then(|line| line.trim_end().split_once(": ")) {
            Some(("id", text)) => text.clone_into(&mut id),
            Some(("event", text)) => text.clone_into(&mut what),
            Some(("data", data)) if what != "tick" => {
                heard.lock().expect("what was heard").take(&id, &what, data);
            }
            _ => {}
        }
        line.clear();
    }
    Ok(())
}

/// Enqueues one job, as a program beside the server does, and answers its id.
fn enqueue(store: &str) -> String {
    let mut command = Command::new(binary::windlass());
    command.args(["enqueue", "beat", "--json"]).env_clear().env("PATH", "/usr/bin:/bin");
    let output = command.env("WINDLASS_STORE", store).output().expect("the program");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    said["id"].as_str().expect("an id").to_owned()
}

/// Restarts a server again and again, by turns with and without warning, while jobs are enqueued and one listens.
async fn nothing_is_missed(store: &str) {
    let port =
        TcpListener::bind("127.0.0.1:0").await.expect("a port").local_addr().expect("its address").port();
    let at = format!("127.0.0.1:{port}");
    let heard = Arc::new(Mutex::new(Heard::default()));
    let listener = tokio::spawn(listen(at.clone(), heard.clone()));
    let connections = |n: u32| {
        let heard = heard.clone();
        async move { (heard.lock().expect("what was heard").connections > n).then_some(()) }
    };
    let mut server = start(&["serve", "--listen", &at], store);
    assert_eq!(address(&mut server), at);
    eventually("it listens", async || connections(0).await).await;
    let stop = Arc::new(AtomicBool::new(false));
    let (stopped, ours) = (stop.clone(), store.to_owned());
    let writer = tokio::task::spawn_blocking(move || {
        let mut ids = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            ids.push(enqueue(&ours));
        }
        ids
    });
    for round in 0..crashes() {
        if round % 2 == 0 {
            server.terminate();
        }
        // One that was not asked to end is killed.
        drop(server);
        server = start(&["serve", "--listen", &at], store);
        assert_eq!(address(&mut server), at);
        let before = round + 1;
        eventually("it listens again", async || connections(before).await).await;
    }
    stop.store(true, Ordering::Relaxed);
    let wrote = writer.await.expect("the writer");
    let all = async || {
        let heard = heard.lock().expect("what was heard");
        wrote.iter().all(|id| heard.enqueued.contains(id)).then_some(())
    };
    eventually("all was heard", all).await;
    listener.abort();
    let heard = heard.lock().expect("what was heard");
    assert!(heard.beside.is_empty(), "{:?}", heard.beside);
    assert!(heard.places.is_sorted_by(|a, b| a + 1 == *b), "each once, in order: {:?}", heard.places);
    assert_eq!(heard.enqueued, wrote, "each once, in order");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_a_file_that_comes_and_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    nothing_is_missed(&format!("sqlite:{}", folder.path().join("jobs.db").display())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_on_postgres_that_comes_and_goes() {
    let database = Server::shared().await.fresh_database().await;
    nothing_is_missed(&database.url()).await;
}
