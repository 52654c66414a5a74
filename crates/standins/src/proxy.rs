//! An HTTP proxy with a door-keeper.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Lets those through who know its user and password: by `CONNECT`, and by
/// requests with a whole address, one for each connection.
pub struct Proxy {
    address: SocketAddr,
    credentials: String,
    asked: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Starts it for `USER:PASSWORD`.
    pub async fn start(credentials: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let wanted =
            format!("proxy-authorization: basic {}", STANDARD.encode(credentials)).to_ascii_lowercase();
        let log = asked.clone();
        let task = tokio::spawn(async move {
            loop {
                let Ok((tcp, _)) = listener.accept().await else { continue };
                tokio::spawn(serve(tcp, wanted.clone(), log.clone()));
            }
        });
        Self { address, credentials: credentials.to_owned(), asked, task }
    }

    /// What goes into `HTTP_PROXY`.
    pub fn url(&self) -> String {
        format!("http://{}@{}", self.credentials, self.address)
    }

    /// The first lines of all requests that it let through.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn serve(mut tcp: TcpStream, wanted: String, log: Arc<Mutex<Vec<String>>>) -> Option<()> {
    let head = head(&mut tcp).await?;
    let line = head.lines().next()?.to_owned();
    if !head.to_ascii_lowercase().contains(&wanted) {
        let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nproxy-authenticate: Basic\r\n\
                       content-length: 0\r\nconnection: close\r\n\r\n";
        return tcp.write_all(refusal.as_bytes()).await.ok();
    }
    log.lock().unwrap_or_else(PoisonError::into_inner).push(line.clone());
    let mut words = line.split(' ');
    let (method, target) = (words.next()?, words.next()?);
    let mut onward = if method == "CONNECT" {
        let onward = TcpStream::connect(target).await.ok()?;
        tcp.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.ok()?;
        onward
    } else {
        let rest = target.strip_prefix("http://")?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let mut onward = TcpStream::connect(host).await.ok()?;
        let fields: Vec<&str> = head.lines().skip(1).filter(|line| !is_hop(line)).collect();
        let head =
            format!("{method} {path} HTTP/1.1\r\n{}\r\nconnection: close\r\n\r\n", fields.join("\r\n"));
        onward.write_all(head.as_bytes()).await.ok()?;
        onward
    };
    // Either side may end first.
    let _ = copy_bidirectional(&mut tcp, &mut onward).await;
    Some(())
}

/// Whether a line of a head is for the proxy alone.
fn is_hop(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    line.is_empty() || line.starts_with("proxy-") || line.starts_with("connection:")
}

async fn head(tcp: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}
