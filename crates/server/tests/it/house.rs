//! A server of its own for each test, and a client of a few lines.

use std::collections::HashMap;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass_engine::core::store::Store;
use windlass_engine::world::RealWorld;
use windlass_server::{Server, Settings, serve};
use windlass_sqlite::{Options, SqliteStore};
use windlass_testkit::binary::windlass;
use windlass_testkit::eventually::eventually;
use windlass_testkit::program::Program;

const SIGTERM: i32 = 15;
/// The token of closed houses.
pub const TOKEN: &str = "canary-8d1c0c5b7f3e4a6e9b2d";

/// A server on a SQLite file in a temporary folder.
pub struct House {
    pub addr: SocketAddr,
    pub store: Arc<dyn Store>,
    pub token: Option<String>,
    served: Option<Served>,
    _folder: TempDir,
}

/// By whom.
enum Served {
    /// The program as its users get it.
    Program(Program),
    /// This process, with settings for which the program has no words.
    Here { stop: oneshot::Sender<()>, served: JoinHandle<std::io::Result<()>> },
}

impl House {
    /// The program, open to this machine.
    pub async fn open() -> Self {
        Self::program(None).await
    }

    /// The program, with a token that may do everything.
    pub async fn closed() -> Self {
        Self::program(Some(TOKEN)).await
    }

    async fn program(token: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("windlass.db");
        let store = format!("sqlite:{}", path.display());
        let (program, addr) = serving(&store, token, &folder.path().join("log")).await;
        let store = SqliteStore::open_with(&path, Options::new(Arc::new(RealWorld::new()))).await.unwrap();
        let token = token.map(str::to_owned);
        Self { addr, store, token, served: Some(Served::Program(program)), _folder: folder }
    }

    pub async fn with(settings: Settings) -> Self {
        Self::dressed(settings, |server| server).await
    }

    /// With more than settings.
    pub async fn dressed(settings: Settings, dress: impl FnOnce(Server) -> Server) -> Self {
        Self::inside(tempfile::tempdir().unwrap(), settings, dress).await
    }

    /// In a folder of one's own.
    pub async fn inside(folder: TempDir, settings: Settings, dress: impl FnOnce(Server) -> Server) -> Self {
        let options = Options::new(Arc::new(RealWorld::new()));
        let store: Arc<dyn Store> =
            SqliteStore::open_with(folder.path().join("windlass.db"), options).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let token = settings.token.as_ref().map(|_| TOKEN.to_owned());
        let server = dress(Server::new(store.clone(), settings));
        let shutdown = async { drop(stopped.await) };
        let served = tokio::spawn(serve(listener, shutdown, server));
        Self { addr, store, token, served: Some(Served::Here { stop, served }), _folder: folder }
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send("POST", path, &[("content-type", "application/json")], &body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.send("PUT", path, &[("content-type", "application/json")], &body.to_string()).await
    }

    /// Sends a request with the house's own token.
    pub async fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let bearer = self.token.as_ref().map(|token| format!("Bearer {token}"));
        let mut all = headers.to_vec();
        if let Some(bearer) = &bearer {
            all.push(("authorization", bearer));
        }
        send(self.addr, method, path, &all, body.as_bytes()).await
    }

    /// Enqueues a job and answers its id.
    pub async fn enqueue(&self, body: Value) -> String {
        let reply = self.post("/v1/jobs", body).await;
        assert_eq!(reply.status, 201, "{}", reply.text);
        reply.json()["id"].as_str().unwrap().to_owned()
    }

    /// Claims one job of the default queue.
    pub async fn claim(&self, worker: &str) -> Value {
        let body = json!({"worker": worker, "queues": ["default"], "limit": 1, "wait_ms": 5000});
        let reply = self.post("/v1/claim", body).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        reply.json()["leases"][0].clone()
    }

    /// Stops the server and waits for it.
    pub async fn close(&mut self) {
        match self.served.take() {
            Some(Served::Here { stop, served }) => {
                drop(stop);
                served.await.unwrap().unwrap();
            }
            Some(Served::Program(program)) => {
                program.signal(SIGTERM);
                assert!(tokio::task::spawn_blocking(|| program.wait()).await.unwrap().success());
            }
            None => {}
        }
    }
}

/// The program on a store, and where it serves.
pub async fn serving(store: &str, token: Option<&str>, log: &Path) -> (Program, SocketAddr) {
    let mut command = Command::new(windlass());
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", store]);
    command.env_clear().stdin(Stdio::null()).stdout(File::create(log).unwrap());
    command.envs(token.map(|token| ("WINDLASS_TOKEN", token)));
    let program = Program::start(&mut command);
    let addr = eventually("it says where it serves", async || {
        let said = std::fs::read_to_string(log).unwrap();
        let (_, rest) = said.split_once("http://")?;
        rest.split_once([' ', '/'])?.0.parse().ok()
    });
    (program, addr.await)
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: HashMap<String, String>,
    pub text: String,
}

impl Reply {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The code of a refusal.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_else(|| panic!("{}", self.text)).to_owned()
    }

    pub fn field(&self) -> String {
        self.json()["error"]["details"]["field"]
            .as_str()
            .unwrap_or_else(|| panic!("{}", self.text))
            .to_owned()
    }
}

/// One request on a connection of its own.
pub async fn send(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> Reply {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "host") {
        head += &format!("host: {addr}\r\n");
    }
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() || matches!(method, "POST" | "PUT") {
        head += &format!("content-length: {}\r\n", body.len());
    }
    head += "\r\n";
    // The server may refuse and close before it has read everything.
    let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
    read_reply(&mut stream).await.expect("an answer")
}

/// Reads an answer until the connection ends; nothing when it ends without one.
pub async fn read_reply(stream: &mut TcpStream) -> Option<Reply> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 16 * 1024];
    loop {
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => break,
            Ok(count) => bytes.extend_from_slice(&chunk[..count]),
        }
    }
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    Some(Reply { status, headers, text: body.to_owned() })
}
