//! A server on the store of a fleet, and somebody who listens to it over HTTP: whenever the stream ends he comes back, and says
//! where he was.

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use windlass::JobId;
use windlass::world::{RealWorld, World};
use windlass_testkit::binary;
use windlass_testkit::eventually::eventually;

use crate::fleet::Fleet;

pub struct Served {
    program: Child,
    address: String,
    heard: Arc<Mutex<Heard>>,
    listener: JoinHandle<()>,
}

/// What he heard.
#[derive(Default)]
struct Heard {
    /// Where he is.
    at: Option<String>,
    /// Where he was when he was told of another epoch.
    before: Option<String>,
    /// Jobs of whose end he was told, since then.
    completed: HashSet<JobId>,
}

impl Served {
    pub async fn start(url: &str) -> Self {
        let mut command = Command::new(binary::windlass());
        command.args(["serve", "--listen", "127.0.0.1:0"]).env("WINDLASS_STORE", url);
        let mut program =
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts");
        let mut said = String::new();
        let stdout = program.stdout.take().expect("what it says");
        BufReader::new(stdout).read_line(&mut said).expect("a line");
        let after = said.split("http://").nth(1).expect("an address");
        let address = after.split([' ', '/', '\n']).next().expect("an address").to_owned();
        let heard = Arc::<Mutex<Heard>>::default();
        let listener = tokio::spawn(listen(address.clone(), Arc::clone(&heard)));
        let served = Self { program, address, heard, listener };
        eventually("he hears something", async || locked(&served.heard).at.clone()).await;
        served
    }

    /// After history was cut he is told so, and then once more of all that is kept; a page at his position of before is refused
    /// with where to begin.
    pub async fn tells_of_another_epoch(&self, fleet: &Fleet) {
        let before =
            eventually("he is told to begin anew", async || locked(&self.heard).before.clone()).await;
        let completed = fleet.completed().await;
        assert!(!completed.is_empty());
        let all = async || locked(&self.heard).completed.is_superset(&completed).then_some(());
        eventually("he is told of what is kept", all).await;
        let answer =
            asked(&self.address, &format!("/v1/events/page?after={before}")).await.expect("an answer");
        assert!(answer.starts_with("HTTP/1.0 410") || answer.starts_with("HTTP/1.1 410"), "{answer}");
        let body = answer.split("\r\n\r\n").nth(1).expect("a body");
        let body: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["error"]["code"], "position_of_another_epoch");
        let begin = body["error"]["details"]["begin"].as_str().expect("where to begin");
        let answer =
            asked(&self.address, &format!("/v1/events/page?after={begin}")).await.expect("an answer");
        assert!(answer.contains(" 200 "), "{answer}");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.listener.abort();
        // It may have ended by itself, which the listener would have shown.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn locked(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In the version of before, which has no chunks.
async fn request(host: &str, path: &str, more: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect(host).await?;
    let head = format!("GET {path} HTTP/1.0\r\nHost: {host}\r\n{more}\r\n");
    stream.write_all(head.as_bytes()).await?;
    Ok(stream)
}

async fn asked(host: &str, path: &str) -> std::io::Result<String> {
    let mut answer = String::new();
    request(host, path, "").await?.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn listen(host: String, heard: Arc<Mutex<Heard>>) {
    let world = RealWorld::new();
    loop {
        // A stream that ends is an outage; he comes back.
        let _ = listen_once(&host, &heard).await;
        world.sleep_ms(100).await;
    }
}

async fn listen_once(host: &str, heard: &Mutex<Heard>) -> std::io::Result<()> {
    let at = locked(heard).at.clone();
    let said = at.map(|at| format!("Last-Event-ID: {at}\r\n")).unwrap_or_default();
    let stream = request(host, "/v1/events", &said).await?;
    let mut lines = tokio::io::BufReader::new(stream).lines();
    let (mut id, mut event) = (None, String::new());
    while let Some(line) = lines.next_line().await? {
        match line.split_once(": ") {
            Some(("id", value)) => id = Some(value.to_owned()),
            Some(("event", value)) => value.clone_into(&mut event),
            Some(("data", value)) => locked(heard).hear(id.take(), &event, value),
            _ => {}
        }
    }
    Ok(())
}

impl Heard {
    fn hear(&mut self, id: Option<String>, event: &str, data: &str) {
        let before = self.at.clone();
        self.at = id.or(before.clone());
        if event == "reset" {
            *self = Self { at: self.at.take(), before, completed: HashSet::new() };
        }
        if event == "completed" {
            let data: Value = serde_json::from_str(data).expect("JSON");
            let jobs = data["jobs"].as_array().expect("jobs").iter();
            self.completed
                .extend(jobs.map(|id| JobId(id.as_str().and_then(|id| id.parse().ok()).expect("an id"))));
        }
    }
}
