//! What programs that have nothing to do cost a database: a count of its transactions, over a stretch of real time, since
//! what is counted is how often somebody asks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use windlass_engine::core::id::JobId;
use windlass_engine::core::store::Store;
use windlass_engine::world::{RealWorld, World};
use windlass_postgres::PostgresStore;
use windlass_testkit::binary;
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::{Database, Pooler, Server};

/// Until programs have found out that nothing happens, and have pruned for the second time.
const SETTLES_MS: u64 = 65_000;
/// How long is counted.
const COUNTED_MS: u64 = 60_000;
/// How often it is counted at most. A loaded machine settles later, and work that is due every few minutes falls into
/// one of these; what a program does all the time is in each of them.
const WINDOWS_MAX: u32 = 3;
/// One in five seconds.
const TRANSACTIONS_MAX: i64 = COUNTED_MS as i64 / 5_000;
/// One in a second, where nobody can be told.
const POOLED_MAX: i64 = COUNTED_MS as i64 / 1_000;

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
async fn an_idle_server_with_a_page_open_is_cheap() {
    let database = database().await;
    let mut server = start(&["serve", "--listen", "127.0.0.1:0"], &database.url());
    listen(&address(&mut server));
    rests(&database, TRANSACTIONS_MAX).await;
}

async fn an_idle_worker_is_cheap() {
    let database = database().await;
    let _worker = start(&["work", "--kind", "greet", "--", "true"], &database.url());
    rests(&database, TRANSACTIONS_MAX).await;
}

/// The same behind a transaction pooler, where LISTEN does not get through: one transaction in a second.
async fn an_idle_server_behind_a_pooler_asks_once_a_second() {
    let database = database().await;
    let pooler = Pooler::before(&database.server().authority(), "").await;
    let mut server = start(&["serve", "--listen", "127.0.0.1:0"], &pooler.url(database.name()));
    listen(&address(&mut server));
    rests(&database, POOLED_MAX).await;
}

async fn an_idle_worker_behind_a_pooler_asks_once_a_second() {
    let database = database().await;
    let pooler = Pooler::before(&database.server().authority(), "").await;
    let _worker = start(&["work", "--kind", "greet", "--", "true"], &pooler.url(database.name()));
    rests(&database, POOLED_MAX).await;
}

/// All of them at the same time, each with a server of Postgres of its own: most of it is waiting.
#[tokio::test(flavor = "multi_thread")]
async fn idle_programs_are_cheap() {
    let all = [
        ("a server with a page open", tokio::spawn(an_idle_server_with_a_page_open_is_cheap())),
        ("a worker", tokio::spawn(an_idle_worker_is_cheap())),
        ("a server behind a pooler", tokio::spawn(an_idle_server_behind_a_pooler_asks_once_a_second())),
        ("a worker behind a pooler", tokio::spawn(an_idle_worker_behind_a_pooler_asks_once_a_second())),
    ];
    for (what, counting) in all {
        counting.await.unwrap_or_else(|why| panic!("{what}: {why}"));
    }
}

/// Enqueues over HTTP, and answers with the id.
fn enqueue(host: &str) -> JobId {
    let mut stream = TcpStream::connect(host).expect("the server");
    let body = r#"{"kind": "greet"}"#;
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n"
    );
    write!(stream, "{head}Content-Length: {}\r\n\r\n{body}", body.len()).expect("a question");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let json = answer.split("\r\n\r\n").nth(1).expect("a body");
    let json: serde_json::Value = serde_json::from_str(json).expect("JSON");
    id(json["id"].as_str().expect("an id"))
}

fn id(text: &str) -> JobId {
    JobId(text.parse().expect("an id"))
}

/// How long after this moment of the database's clock an attempt of a job began.
async fn picked_up_after(store: &PostgresStore, id: JobId, from_ms: Option<i64>) -> i64 {
    let started = async || store.get(id).await.ok().flatten().filter(|job| job.started_at.is_some());
    let job = eventually("the job starts", started).await;
    let started_ms = job.started_at.map_or(0, windlass_engine::core::time::Time::ms);
    started_ms - from_ms.unwrap_or(job.created_at.ms())
}

/// A worker that has rested behind a pooler finds what is enqueued over HTTP, by SQL, and in a transaction that stays open for
/// longer than a look is apart from the next: that is seen before it commits.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_worker_behind_a_pooler_starts_in_time() {
    const REST_MS: u64 = 35_000;
    const OPEN_MS: u64 = 3_000;
    const MILLISECONDS: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    const ENQUEUE: &str = "SELECT windlass.enqueue('greet', '{}')::text";
    let database = database().await;
    let pooler = Pooler::before(&database.server().authority(), "").await;
    let store = PostgresStore::connect(&database.url()).await.expect("a store");
    let mut server = start(&["serve", "--listen", "127.0.0.1:0"], &pooler.url(database.name()));
    let host = address(&mut server);
    let _worker = start(&["work", "--kind", "greet", "--", "true"], &pooler.url(database.name()));
    let world = RealWorld::new();
    let connected = tokio_postgres::connect(&database.url(), tokio_postgres::NoTls).await;
    let (client, connection) = connected.expect("the database");
    tokio::spawn(connection);
    world.sleep_ms(REST_MS).await;

    client.batch_execute("BEGIN").await.expect("a transaction");
    let open: String = client.query_one(ENQUEUE, &[]).await.expect("a job").get(0);
    world.sleep_ms(OPEN_MS).await;
    client.batch_execute("COMMIT").await.expect("a commit");
    let committed_ms: i64 = client.query_one(MILLISECONDS, &[]).await.expect("a moment").get(0);
    let ms = picked_up_after(&store, id(&open), Some(committed_ms)).await;
    assert!(ms <= 5_000, "in a transaction: {ms} ms after it had committed");

    let ms = picked_up_after(&store, enqueue(&host), None).await;
    assert!(ms <= 2_000, "over HTTP: {ms} ms");

    let alone: String = client.query_one(ENQUEUE, &[]).await.expect("a job").get(0);
    let ms = picked_up_after(&store, id(&alone), None).await;
    assert!(ms <= 2_000, "by SQL: {ms} ms");
}
