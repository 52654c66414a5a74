//! What the listener reaches, on a real replica set of one node on this machine, with the program that is built.
//!
//! `bench/listener/run [ROUNDS] [throughput|status|latency|burst|takeover|neighbours|memory]…`. Beside seconds it tells
//! processor time: on a machine that others use, that says more.

use std::process::{Command, Stdio};
use std::time::Duration;

use mongodb::bson::{Bson, Document, doc};
use mongodb::{Client, Collection};
use windlass_engine::world::monotonic_ns;
use windlass_testkit::mongo::{Options, ReplicaSet};
use windlass_testkit::program::Program;

const HOME: &str = "airank";
/// Unrelated inserts of one run, in thousands; and how long listeners are let settle before.
const NEIGHBOURS_BATCHES: usize = 200;
const SETTLE_MS: u64 = 4_000;

struct Bench {
    set: ReplicaSet,
    client: Client,
}

impl Bench {
    async fn start() -> Self {
        let set = ReplicaSet::with(Options { oplog_mb: 2_000, ..Options::default() }).await;
        let client = set.client().await;
        Self { set, client }
    }

    fn program(&self, port: u16, more: &[(&str, &str)]) -> Program {
        let mut command = Command::new(windlass_testkit::binary::windlass_full());
        command.args(["listener", "--listen", &format!("127.0.0.1:{port}")]);
        command.env_clear().env("MONGODB_URI", self.set.uri()).envs(more.iter().copied());
        Program::start(command.stdout(Stdio::null()))
    }

    fn own(&self, name: &str) -> Collection<Document> {
        self.client.database(HOME).collection(name)
    }

    fn people(&self) -> Collection<Document> {
        self.client.database("workspace_a").collection("people")
    }

    async fn listener(&self, id: &str, more: Document) {
        let mut document = doc! { "_id": id, "collection": "people", "jobName": id, "database": "workspace_a", "operationType": ["insert"], "statusField": Bson::Null };
        document.extend(more);
        self.own("listeners").insert_one(document).await.expect("a listener");
    }

    async fn live(&self, port: u16, lanes: usize) {
        loop {
            let status = ask(port, "/status").await.unwrap_or_default();
            if status.matches("\"following\":\"live\"").count() >= lanes {
                return;
            }
            pause(100).await;
        }
    }

    /// The process of the instance that is there.
    async fn pid(&self) -> u64 {
        let instances = self.own("listener_instances");
        let newest = instances.find_one(doc! {}).sort(doc! { "lastSeen": -1 }).await;
        let instance = newest.expect("an answer").expect("an instance");
        u64::try_from(instance.get_i64("pid").expect("its number")).unwrap_or(0)
    }

    /// The process of the server.
    async fn server(&self) -> u64 {
        let status = self.client.database("admin").run_command(doc! { "serverStatus": 1 }).await;
        status.ok().and_then(|status| status.get_i64("pid").ok()).unwrap_or(0) as u64
    }

    /// Waits until so many documents have their status, by what the program counts: to count documents without an index
    /// costs the server more than what is measured, and an index costs the updates.
    async fn statuses(&self, port: u16, wanted: u64) {
        while counted(port, "statuses_total").await < wanted {
            pause(20).await;
        }
    }

    /// Waits until the program has written as many rows; answers the seconds since `began`.
    async fn rows(&self, port: u16, wanted: u64, began: u64) -> f64 {
        while counted(port, "jobs_total").await < wanted {
            pause(5).await;
        }
        (monotonic_ns() - began) as f64 / 1e9
    }

    /// Writes so many documents by several writers, as fast as they go.
    async fn write(&self, many: usize, batch: usize, from: usize) {
        let writers = (0..4).map(|writer| {
            let people = self.people();
            tokio::spawn(async move {
                let pad = "x".repeat(200);
                for part in 0..many / 4 / batch {
                    let document =
                        |n: usize| doc! { "_id": format!("{from}-{writer}-{part}-{n}"), "pad": &pad };
                    people.insert_many((0..batch).map(document)).await.expect("inserts");
                }
            })
        });
        futures::future::join_all(writers).await;
    }
}

async fn ask(port: u16, path: &str) -> Option<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let head = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

/// A number of `/metrics`.
async fn counted(port: u16, name: &str) -> u64 {
    let metrics = ask(port, "/metrics").await.unwrap_or_default();
    let of_name =
        |line: &str| line.strip_prefix("windlass_listener_")?.strip_prefix(name)?.trim().parse().ok();
    metrics.lines().find_map(of_name).unwrap_or(0)
}

async fn pause(ms: u64) {
    // The world outside is measured; there is nothing to step.
    let _ = tokio::time::timeout(Duration::from_millis(ms), std::future::pending::<()>()).await;
}

fn port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port()
}

/// The server and the program, and the processor time that they had when the measure began.
struct Cpu {
    server: (u64, f64),
    program: (u64, f64),
    began: u64,
}

impl Cpu {
    async fn begin(bench: &Bench) -> Self {
        let server = bench.server().await;
        let program = bench.pid().await;
        Self { server: (server, used(server)), program: (program, used(program)), began: monotonic_ns() }
    }

    /// Says what each event has cost.
    fn tell(&self, events: usize) {
        let each = |(pid, before): (u64, f64)| (used(pid) - before) * 1e6 / events as f64;
        let seconds = (monotonic_ns() - self.began) as f64 / 1e9;
        println!(
            "  processor time an event: {:.0} µs of the server (writers included), {:.0} µs of the program, over {seconds:.1} s",
            each(self.server),
            each(self.program)
        );
    }
}

/// The processor time of a process, in seconds; of a clock of 100 ticks a second.
fn used(pid: u64) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks =
        |at: usize| rest.split(' ').nth(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn memory_mib(pid: u64) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak =
        status.lines().find(|line| line.starts_with("VmHWM")).and_then(|line| line.split_whitespace().nth(1));
    peak.and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1_024.0
}

async fn throughput(status: bool) {
    let bench = Bench::start().await;
    let field = if status { Bson::String("metadata.listener".into()) } else { Bson::Null };
    bench.listener("all", doc! { "statusField": field }).await;
    let port = port();
    let _program = bench.program(port, &[]);
    bench.live(port, 1).await;
    let many = if status { 30_000 } else { 100_000 };
    let cpu = Cpu::begin(&bench).await;
    let began = monotonic_ns();
    bench.write(many, 500, 0).await;
    let written = (monotonic_ns() - began) as f64 / 1e9;
    let seconds = bench.rows(port, many as u64, began).await;
    println!(
        "{many} inserts written in {written:.2} s, all rows after {seconds:.2} s: {:.0} events/s",
        many as f64 / seconds
    );
    if status {
        bench.statuses(port, many as u64).await;
        let seconds = (monotonic_ns() - began) as f64 / 1e9;
        println!("all statuses after {seconds:.2} s: {:.0} events/s", many as f64 / seconds);
    }
    cpu.tell(many);
}

async fn latency() {
    let bench = Bench::start().await;
    bench.listener("all", doc! {}).await;
    let port = port();
    let _program = bench.program(port, &[]);
    bench.live(port, 1).await;
    let cpu = Cpu::begin(&bench).await;
    let began = monotonic_ns();
    for tick in 0..2_000_u64 {
        let people = bench.people();
        let many = (0..10).map(|n| doc! { "_id": format!("{tick}-{n}"), "pad": "x".repeat(200) });
        people.insert_many(many).await.expect("inserts");
        let due = began + (tick + 1) * 10_000_000;
        let now = monotonic_ns();
        if due > now {
            pause((due - now) / 1_000_000).await;
        }
    }
    bench.rows(port, 20_000, began).await;
    let metrics = ask(port, "/metrics").await.unwrap_or_default();
    println!(
        "1,000 events a second for {:.0} s, from commit to durable row:",
        (monotonic_ns() - began) as f64 / 1e9
    );
    let buckets: Vec<(&str, f64)> = metrics.lines().filter_map(bucket).collect();
    let all = buckets.last().map_or(1.0, |(_, count)| *count);
    for (bound, count) in &buckets {
        println!("  within {bound} s: {:.2} %", count * 100.0 / all);
    }
    let p99 = buckets.iter().find(|(_, count)| *count >= all * 0.99).map_or("?", |(bound, _)| bound);
    println!("  p99 within {p99} s");
    cpu.tell(20_000);
}

/// A line of the histogram: its bound, and how many lie below it.
fn bucket(line: &str) -> Option<(&str, f64)> {
    let rest = line.strip_prefix("windlass_listener_delay_seconds_bucket{le=\"")?;
    let (bound, count) = rest.split_once("\"} ")?;
    Some((bound, count.parse().ok()?))
}

async fn burst() {
    let bench = Bench::start().await;
    bench.listener("all", doc! { "statusField": "metadata.listener" }).await;
    let port = port();
    let _program = bench.program(port, &[]);
    bench.live(port, 1).await;
    let began = monotonic_ns();
    bench
        .people()
        .insert_many((0..5_000).map(|n| doc! { "_id": n, "pad": "x".repeat(200) }))
        .await
        .expect("inserts");
    let seconds = bench.rows(port, 5_000, began).await;
    bench.statuses(port, 5_000).await;
    println!(
        "a burst of 5,000: rows after {seconds:.2} s, statuses after {:.2} s",
        (monotonic_ns() - began) as f64 / 1e9
    );
}

async fn takeover() {
    let bench = Bench::start().await;
    bench.listener("all", doc! {}).await;
    let (one, two) = (port(), port());
    let first = bench.program(one, &[]);
    bench.live(one, 1).await;
    let _second = bench.program(two, &[]);
    while ask(two, "/healthz").await.is_none() {
        pause(50).await;
    }
    first.kill();
    let began = monotonic_ns();
    bench.people().insert_one(doc! { "_id": 1 }).await.expect("an insert");
    let seconds = bench.rows(two, 1, began).await;
    println!("takeover after kill -9, with a lease of 30 s: {seconds:.1} s");
}

async fn neighbours() {
    let bench = Bench::start().await;
    for n in 0..500 {
        let more = doc! { "database": format!("workspace_{}", n % 100), "collection": format!("c{}", n % 5) };
        bench.listener(&format!("l{n}"), more).await;
    }
    let other: Collection<Document> = bench.client.database("elsewhere").collection("other");
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut cpu_with, mut cpu_without) = (Vec::new(), Vec::new());
    let server = bench.server().await;
    for round in 0..5 {
        for listening in [false, true] {
            let port = port();
            let program = listening.then(|| bench.program(port, &[]));
            if listening {
                bench.live(port, 500).await;
                // The first look of recovery at each of them is over: a steady state is measured.
                pause(SETTLE_MS).await;
            }
            let (began, cpu) = (monotonic_ns(), used(server));
            for batch in 0..NEIGHBOURS_BATCHES {
                let many = (0..1_000).map(
                    |n| doc! { "_id": format!("{round}-{listening}-{batch}-{n}"), "pad": "x".repeat(200) },
                );
                other.insert_many(many).await.expect("inserts");
            }
            let many = (NEIGHBOURS_BATCHES * 1_000) as f64;
            let rate = many / ((monotonic_ns() - began) as f64 / 1e9);
            let cpu = (used(server) - cpu) * 1e6 / many;
            if listening {
                with.push(rate);
                cpu_with.push(cpu);
            } else {
                without.push(rate);
                cpu_without.push(cpu);
            }
            if let Some(program) = program {
                program.signal(libc::SIGTERM);
                program.wait();
            }
        }
    }
    let median = |rates: &mut Vec<f64>| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    };
    let (with, without) = (median(&mut with), median(&mut without));
    println!(
        "unrelated inserts: {without:.0}/s alone, {with:.0}/s beside 500 listeners: {:.1} % less",
        (1.0 - with / without) * 100.0
    );
    println!(
        "  processor time of the server an insert: {:.1} µs alone, {:.1} µs beside them",
        median(&mut cpu_without),
        median(&mut cpu_with)
    );
}

async fn memory() {
    let bench = Bench::start().await;
    bench.listener("all", doc! {}).await;
    let port = port();
    let _program = bench.program(port, &[]);
    bench.live(port, 1).await;
    let cpu = Cpu::begin(&bench).await;
    let began = monotonic_ns();
    bench.write(600_000, 1_000, 0).await;
    let seconds = bench.rows(port, 600_000, began).await;
    let pid = bench.pid().await;
    println!(
        "600,000 events in {seconds:.1} s ({:.0}/s), memory at most {:.0} MiB",
        600_000.0 / seconds,
        memory_mib(pid)
    );
    cpu.tell(600_000);
}

#[tokio::main]
async fn main() {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    let all = ["throughput", "status", "latency", "burst", "takeover", "neighbours", "memory"];
    for name in all {
        if !asked.is_empty() && !asked.iter().any(|word| word == name) {
            continue;
        }
        match name {
            "throughput" => throughput(false).await,
            "status" => throughput(true).await,
            "latency" => latency().await,
            "burst" => burst().await,
            "takeover" => takeover().await,
            "neighbours" => neighbours().await,
            _ => memory().await,
        }
    }
}
