//! One call over HTTP, without a client: what is asked and answered is a few lines.

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The longest that a call may take: a server that stands still answers nothing.
const CALL_MAX: Duration = Duration::from_secs(8);

/// The status and the body; 0 when there was no answer.
pub(super) async fn call(port: u16, method: &str, path: &str, body: &Value) -> (u16, Value) {
    match tokio::time::timeout(CALL_MAX, talk(port, method, path, body)).await {
        Ok(Ok(answer)) => read(&answer).unwrap_or((0, Value::Null)),
        _ => (0, Value::Null),
    }
}

async fn talk(port: u16, method: &str, path: &str, body: &Value) -> std::io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n{kind}Content-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await?;
    Ok(answer)
}

/// Nothing when the answer is not whole: then it is as if there were none.
fn read(answer: &[u8]) -> Option<(u16, Value)> {
    let text = std::str::from_utf8(answer).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    if length.is_some_and(|length: usize| body.len() < length) {
        return None;
    }
    Some((status, serde_json::from_str(body).unwrap_or(Value::Null)))
}
