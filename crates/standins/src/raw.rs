//! A server that writes whatever it was given, HTTP or not.

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Answers every connection with the same bytes and closes it.
pub struct Raw {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Raw {
    /// Starts it.
    pub async fn start(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a loopback port is free");
        let address = listener.local_addr().expect("a listener has an address");
        let task = tokio::spawn(async move {
            loop {
                let Ok((tcp, _)) = listener.accept().await else { continue };
                tokio::spawn(answer(tcp, bytes.clone()));
            }
        });
        Self { address, task }
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(tcp: tokio::net::TcpStream, bytes: Bytes) {
    // A server that answers before it was asked would be cut off by the client.
    let mut question = [0; 4096];
    loop {
        if tcp.readable().await.is_err() {
            return;
        }
        match tcp.try_read(&mut question) {
            Ok(_) => break,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
    let mut left = &bytes[..];
    while !left.is_empty() {
        if tcp.writable().await.is_err() {
            return;
        }
        match tcp.try_write(left) {
            Ok(written) => left = &left[written..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}
