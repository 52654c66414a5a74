//! A client of a few lines: one request, one connection, one answer.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Value,
}

/// Asks, with further header lines.
pub async fn ask(addr: SocketAddr, method: &str, path: &str, headers: &str, body: &str) -> Reply {
    let text = try_ask(addr, method, path, headers, body).await.expect("the server answers");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let body = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body:?}"));
    Reply { status, head: head.to_owned(), body }
}

/// What the server says, of a server that may be killed meanwhile.
pub async fn try_ask(
    addr: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(addr).await?;
    let own = headers.to_ascii_lowercase().contains("host:");
    let host = if own { String::new() } else { format!("host: {addr}\r\n") };
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{host}{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}
