//! One request, one connection, one answer.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Asks, with further header lines; answers everything that came back.
pub async fn ask(addr: SocketAddr, line: &str, headers: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.expect("the port is open");
    let own = headers.to_ascii_lowercase().contains("host:");
    let host = if own { String::new() } else { format!("host: {addr}\r\n") };
    let length = body.len();
    let head =
        format!("{line} HTTP/1.1\r\n{host}{headers}content-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all((head + body).as_bytes()).await.expect("it listens");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("it answers");
    text
}
