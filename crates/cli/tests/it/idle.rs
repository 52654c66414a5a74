//! What programs that have nothing to do cost a database: a count of its transactions, over a stretch of real time, since
//! what is counted is how often somebody asks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use windlass_engine::world::{RealWorld, World};
use windlass_testkit::binary;
use windlass_testkit::postgres::{Database, Server};

/// Until programs have found out that nothing happens, and have pruned for the second time.
const SETTLES_MS: u64 = 65_000;
/// How long is counted.
const COUNTED_MS: u64 = 60_000;
/// How often it is counted at most. A loaded machine settles later, and work that is due every few minutes falls into
/// one of these; what a program does all the time is in each of them.
const WINDOWS_MAX: u32 = 3;
/// One in five seconds.
const TRANSACTIONS_MAX: i64 = COUNTED_MS as i64 / 5_000;

/// A program, until it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, which the count would have shown.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(arguments: &[&str], url: &str) -> Running {
    let mut command = Command::new(binary::windlass());
    command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin").env("WINDLASS_STORE", url);
    Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the program starts"))
}

/// The address that a server names in its first line.
fn address(server: &mut Running) -> String {
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

/// Counts the transactions of a stretch of time, until there is one with no more than `max`. None at all would be a program
/// that has ended.
async fn rests(database: &Database, max: i64) {
    let world = RealWorld::new();
    world.sleep_ms(SETTLES_MS).await;
    let mut counts = Vec::new();
    for _ in 0..WINDOWS_MAX {
        let before = database.transactions().await;
        world.sleep_ms(COUNTED_MS).await;
        counts.push(database.transactions().await - before);
        if counts.last().is_some_and(|count| (1..=max).contains(count)) {
            return;
        }
    }
    panic!("{counts:?} transactions in {COUNTED_MS} ms each, of at most {max}");
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
    rests(&database, TRANSACTIONS_MAX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_is_cheap() {
    let database = database().await;
    let _worker = start(&["work", "--kind", "greet", "--", "true"], &database.url());
    rests(&database, TRANSACTIONS_MAX).await;
}
