//! A network between programs and a server: it can be cut in one direction or in both, and it can lead elsewhere.
//!
//! A cut holds what is sent, as TCP does while packets are lost: nobody is told, nothing is reset, and what was held goes on when
//! the cut heals.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// What programs ask.
    ToServer,
    /// What the server answers.
    ToPrograms,
}

#[derive(Clone)]
struct Net {
    server: String,
    cut: Option<Cut>,
}

#[derive(Clone)]
struct Cut {
    /// Nothing means both.
    way: Option<Way>,
    /// Only of connections on which the server was told this.
    said: Option<&'static str>,
}

impl Cut {
    fn holds(&self, way: Way, said: &Said) -> bool {
        self.way.is_none_or(|cut| cut == way) && self.said.is_none_or(|words| said.has(words))
    }
}

/// What the server was told on a connection, as far as it is remembered.
#[derive(Default)]
struct Said(Mutex<Vec<u8>>);

impl Said {
    fn add(&self, bytes: &[u8]) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = SAID_BYTES_MAX.saturating_sub(said.len()).min(bytes.len());
        said.extend(&bytes[..room]);
    }

    fn has(&self, words: &str) -> bool {
        let said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        said.windows(words.len()).any(|window| window == words.as_bytes())
    }
}

/// What of it is remembered: its beginning.
const SAID_BYTES_MAX: usize = 16 * 1024;

/// A door on the loopback that leads to a server. It is closed when dropped.
pub struct Relay {
    address: SocketAddr,
    net: Arc<watch::Sender<Net>>,
    door: JoinHandle<()>,
}

impl Relay {
    /// Leads to a server: its host and port.
    pub async fn to(server: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound port");
        let net = Arc::new(watch::Sender::new(Net { server: server.to_owned(), cut: None }));
        let door = tokio::spawn(open(listener, Arc::clone(&net)));
        Self { address, net, door }
    }

    /// Its host and port.
    pub fn authority(&self) -> String {
        self.address.to_string()
    }

    /// Holds what goes one way, of connections that are there and of new ones.
    pub fn cut(&self, way: Way) {
        self.net.send_modify(|net| net.cut = Some(Cut { way: Some(way), said: None }));
    }

    /// Holds what goes either way.
    pub fn cut_both_ways(&self) {
        self.net.send_modify(|net| net.cut = Some(Cut { way: None, said: None }));
    }

    /// Holds what goes one way, of those connections alone on which the server was told this, sooner or later.
    pub fn cut_where(&self, way: Way, said: &'static str) {
        self.net.send_modify(|net| net.cut = Some(Cut { way: Some(way), said: Some(said) }));
    }

    /// Lets everything through, also what was held.
    pub fn heal(&self) {
        self.net.send_modify(|net| net.cut = None);
    }

    /// Leads to another server; connections to the one before are ended.
    pub fn lead_to(&self, server: &str) {
        self.net.send_modify(|net| net.server = server.to_owned());
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.door.abort();
    }
}

async fn open(listener: TcpListener, net: Arc<watch::Sender<Net>>) {
    while let Ok((near, _)) = listener.accept().await {
        tokio::spawn(connection(near, net.subscribe()));
    }
}

/// One connection, until an end of it is closed, or the door leads elsewhere.
async fn connection(near: TcpStream, mut net: watch::Receiver<Net>) {
    let server = net.borrow().server.clone();
    // One that is not there is what a program sees as a connection that ends at once.
    let Ok(far) = TcpStream::connect(&server).await else { return };
    let ((from_near, to_near), (from_far, to_far)) = (near.into_split(), far.into_split());
    let said = Said::default();
    tokio::select! {
        () = pump(from_near, to_far, net.clone(), Way::ToServer, &said) => {}
        () = pump(from_far, to_near, net.clone(), Way::ToPrograms, &said) => {}
        _ = net.wait_for(|net| net.server != server) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut net: watch::Receiver<Net>,
    way: Way,
    said: &Said,
) {
    let mut bytes = vec![0; 16 * 1024];
    while let Ok(read) = from.read(&mut bytes).await {
        if way == Way::ToServer {
            said.add(&bytes[..read]);
        }
        let held = |net: &Net| net.cut.as_ref().is_some_and(|cut| cut.holds(way, said));
        let open = net.wait_for(|net| !held(net)).await.is_ok();
        if read == 0 || !open || to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers every byte with the next one.
    async fn server() -> String {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while let Ok(byte) = stream.read_u8().await {
                        drop(stream.write_u8(byte + 1).await);
                    }
                });
            }
        });
        address
    }

    /// What is cut is held and not lost, each way by itself; a door that leads elsewhere ends what was there.
    #[tokio::test]
    async fn a_cut_holds_what_is_sent() {
        let relay = Relay::to(&server().await).await;
        let mut stream = TcpStream::connect(relay.authority()).await.expect("a connection");
        for way in [Some(Way::ToServer), Some(Way::ToPrograms), None] {
            way.map_or_else(|| relay.cut_both_ways(), |way| relay.cut(way));
            stream.write_u8(7).await.expect("sent");
            let silence = tokio::time::timeout(std::time::Duration::from_millis(50), stream.read_u8()).await;
            assert!(silence.is_err(), "{way:?} is cut");
            relay.heal();
            assert_eq!(stream.read_u8().await.expect("an answer"), 8, "{way:?}");
        }
        relay.cut_where(Way::ToPrograms, "\t");
        stream.write_u8(8).await.expect("sent");
        assert_eq!(stream.read_u8().await.expect("an answer"), 9, "it has not said so");
        stream.write_u8(b'\t').await.expect("sent");
        let silence = tokio::time::timeout(std::time::Duration::from_millis(50), stream.read_u8()).await;
        assert!(silence.is_err(), "it has");
        relay.heal();
        assert_eq!(stream.read_u8().await.expect("an answer"), 10);
        relay.lead_to(&server().await);
        assert!(stream.read_u8().await.is_err(), "that connection is over");
        let mut stream = TcpStream::connect(relay.authority()).await.expect("a connection");
        stream.write_u8(1).await.expect("sent");
        assert_eq!(stream.read_u8().await.expect("an answer"), 2);
    }
}
