//! What programs that have nothing to do cost a database: a count of its transactions, over a stretch of real time, since
//! what is counted is how often somebody asks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use windlass_engine::world::{RealWorld, World};
use windlass_testkit::binary;
use windlass_testkit::postgres::{Database, Server};

/// Until programs have found out that nothing happens.
const SETTLES_MS: u64 = 45_000;
/// How long is counted.
const COUNTED_MS: u64 = 60_000;
/// One in five seconds.
const TRANSACTIONS_MAX: i64 = COUNTED_MS as i64 / 5_000;

/// A program, until it is dropped.
pub struct Running(Child);

impl Running {
    /// Asks it to end, and waits until it has.
    pub fn terminate(&mut self) {
        let pid = i32::try_from(self.0.id()).expect("an id");
        // SAFETY: a signal to a program that we have started and not waited for.
        assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
        self.0.wait().expect("its end");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, which the count would have shown.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub fn start(arguments: &[&str], url: &str) -> Running {
    let mut command = Command::new(binary::windlass());
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("WINDLASS_STORE", url);
    Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts"))
}

/// The address that a server names in its first line.
pub fn address(server: &mut Running) -> String {
    let mut said = String::new();
    let stdout = server.0.stdout.take().expect("what it says");
    BufReader::new(stdout).read_line(&mut said).expect("a line");
    let after = said.split("http://").nth(1).expect("an address");
    after.split([' ', '/', '\n']).next().expect("an address").to_owned()
}

/// Listens as an open page does, until the program ends.
fn listen(address: &str) {
    let mut stream = TcpStream::connect(address).expect("the server");
    write!(stream, "GET /v1/events?ticks=5 HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("a question");
    let mut first = [0; 12];
    stream.read_exact(&mut first).expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200");
    let host = address.to_owned();
    // A page looks when there is a tick.
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if line.starts_with("event: tick") {
                look(&host);
            }
        }
    });
}

fn look(host: &str) {
    let Ok(mut stream) = TcpStream::connect(host) else { return };
    let asked = write!(stream, "GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    if asked.is_ok() {
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

async fn counted(database: &Database) -> i64 {
    let world = RealWorld::new();
    world.sleep_ms(SETTLES_MS).await;
    let before = database.transactions().await;
    world.sleep_ms(COUNTED_MS).await;
    database.transactions().await - before
}

/// A database whose transactions are those of the programs alone: nobody else uses its server, nor clears it up.
async fn database() -> Database {
    let server = Arc::new(Server::own().await);
    server.sql("ALTER SYSTEM SET autovacuum = off").await;
    server.sql("SELECT pg_reload_conf()").await;
    server.fresh_database().await
}

/// A server, with a page open and a listener of events: one transaction in five seconds for the one and for the other.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_server_with_a_page_open_is_cheap() {
    let database = database().await;
    let mut server = start(&["serve", "--listen", "127.0.0.1:0"], &database.url());
    listen(&address(&mut server));
    let count = counted(&database).await;
    assert!((1..=TRANSACTIONS_MAX).contains(&count), "{count} transactions in {COUNTED_MS} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_is_cheap() {
    let database = database().await;
    let _worker = start(&["work", "--kind", "greet", "--", "true"], &database.url());
    let count = counted(&database).await;
    assert!((1..=TRANSACTIONS_MAX).contains(&count), "{count} transactions in {COUNTED_MS} ms");
}
