//! The way to a stand-in: a relay of connections on a port that stays the same, with a switch that cuts it off as
//! a broken network would.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A relay. It ends when it is dropped.
pub struct Relay {
    address: SocketAddr,
    open: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    /// Passes connections on to `to`.
    pub async fn start(port: u16, to: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        let address = listener.local_addr()?;
        let open = watch::Sender::new(true);
        let task = tokio::spawn(accept(listener, to, open.subscribe()));
        Ok(Self { address, open, task })
    }

    /// An address of the stand-in, as it is seen through the relay.
    pub fn through(&self, url: &str, to: SocketAddr) -> String {
        url.replace(&to.to_string(), &self.address.to_string())
    }

    /// Where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts it off, or lets it go on.
    pub fn switch(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// Whether it passes anything on.
    pub fn is_open(&self) -> bool {
        *self.open.borrow()
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, open: watch::Receiver<bool>) {
    loop {
        let Ok((near, _)) = listener.accept().await else { continue };
        // Whoever is cut off finds the connection closed.
        if *open.borrow() {
            tokio::spawn(pass(near, to, open.clone()));
        }
    }
}

async fn pass(mut near: TcpStream, to: SocketAddr, mut open: watch::Receiver<bool>) {
    let Ok(mut far) = TcpStream::connect(to).await else { return };
    // How a connection ends is between the two who had it.
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        _ = open.wait_for(|open| !open) => {}
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_switch_cuts_off_and_lets_go_on() {
        let far = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Relay::start(0, far.local_addr().unwrap()).await.unwrap();
        tokio::spawn(async move {
            loop {
                let (mut tcp, _) = far.accept().await.unwrap();
                tokio::spawn(async move { tcp.write_all(b"hello").await });
            }
        });
        let ask = async || {
            let mut said = String::new();
            let mut tcp = TcpStream::connect(relay.address()).await.unwrap();
            // A connection that is cut off may be reset.
            let _ = tcp.read_to_string(&mut said).await;
            said
        };
        assert_eq!(ask().await, "hello");
        relay.switch(false);
        assert_eq!(ask().await, "");
        relay.switch(true);
        assert_eq!(ask().await, "hello");
    }
}
