//! A Postgres that freezes, with real programs: fault D of "the promises hold when the store freezes".

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use windlass::core::state::StateName;
use windlass::core::store::{Source, Store};
use windlass::core::time::Clock;
use windlass::postgres::PostgresStore;
use windlass::process::Command;
use windlass::world::RealWorld;
use windlass::{Client, Housekeeper, JobRequest, Worker};
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::{Database, Server};
use windlass_testkit::relay::{Relay, Way};

const LEASE: Duration = Duration::from_secs(5);
const FROZEN_MS: u64 = 9_000;
/// Says when it begins, and ends when a file says so.
const SCRIPT: &str = r#"cd "$FOLDER"; echo $$ >> begun; while [ ! -e finish ]; do sleep 0.05; done"#;

/// The letter of a process's state; nothing when it is gone.
fn state_of(pid: &str) -> String {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    let rest = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    rest.chars().take(1).collect()
}

/// The store is frozen for 9 s, with a lease of 5 s and others who look for lost leases: the healthy job goes on, is not
/// booked as crashed, and its program is started once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_postgres_that_freezes_is_no_crash() {
    let server = Arc::new(Server::own().await);
    let database = server.fresh_database().await;
    let folder = tempfile::tempdir().unwrap();
    let store = PostgresStore::connect(&database.url()).await.unwrap();
    let other = PostgresStore::connect(&database.url()).await.unwrap();
    let house = tokio::spawn(async move { Housekeeper::new(other).run().await });
    let command = Command::new(["/bin/sh", "-c", SCRIPT]).unwrap().env("FOLDER", folder.path());
    let (stop, stopped) = oneshot::channel::<()>();
    let worker = Worker::new(store.clone()).lease(LEASE).handle_command("run", command);
    let working = tokio::spawn(worker.run_until(async move {
        let _ = stopped.await;
    }));
    let job = JobRequest::new("run", &serde_json::Value::Null);
    let id = Client::new(store.clone()).enqueue(job).await.unwrap().id();
    let begun = || std::fs::read_to_string(folder.path().join("begun")).unwrap_or_default();
    let pid = eventually("the program begins", async || begun().lines().next().map(str::to_owned)).await;

    let clock = RealWorld::new();
    let frozen_at = clock.boot_ms();
    server.freeze();
    eventually("the program stands still", async || (state_of(&pid) == "T").then_some(())).await;
    eventually("nine seconds", async || (clock.boot_ms() >= frozen_at + FROZEN_MS).then_some(())).await;
    assert_eq!(state_of(&pid), "T", "still");
    server.thaw();
    eventually("the program goes on", async || (state_of(&pid) != "T").then_some(())).await;
    // Long enough for a second look, had nobody renewed.
    let back_at = clock.boot_ms();
    eventually("three seconds", async || (clock.boot_ms() >= back_at + 3_000).then_some(())).await;
    let job = store.get(id).await.unwrap().unwrap();
    assert_eq!((job.state.name(), job.attempt, job.crashes, job.fence), (StateName::Running, 1, 0, 1));

    std::fs::write(folder.path().join("finish"), "").unwrap();
    let job = eventually("the job is completed", async || {
        store.get(id).await.unwrap().filter(|job| job.state.name() == StateName::Completed)
    })
    .await;
    assert_eq!((job.attempt, job.crashes, job.history.len()), (1, 0, 0));
    assert_eq!(begun().lines().count(), 1, "its program is started once");
    let _ = stop.send(());
    let summary = working.await.unwrap().unwrap();
    assert_eq!((summary.settled, summary.lost), (1, 0));
    house.abort();
}

/// What is left of the time in which a connection that is dead is noticed: it is asked every four seconds and has two to
/// answer. The rest is for a machine that has other things to do.
const NOTICED_MS: u64 = 8_000;
/// How long work may take to be found by whoever is not told of it, or is again.
const PICKED_UP_MS: i64 = 5_000;

/// A store with a worker of a program that ends at once, and a client that knows another way to the database.
struct Listening {
    store: Arc<PostgresStore>,
    client: Client,
    clock: RealWorld,
    worker: tokio::task::JoinHandle<()>,
}

impl Listening {
    async fn start(url: &str, database: &Database) -> Self {
        let store = PostgresStore::connect(url).await.unwrap();
        let client = Client::new(PostgresStore::connect(&database.url()).await.unwrap());
        let worker = Worker::new(store.clone()).handle_command("run", Command::new(["/bin/true"]).unwrap());
        let worker = tokio::spawn(async move {
            worker.run_until(std::future::pending()).await.unwrap();
        });
        let listening = Self { store, client, clock: RealWorld::new(), worker };
        listening.until("it listens", true).await;
        listening.picks_up().await;
        listening
    }

    /// Waits until others are heard, or are not; answers how long that took.
    async fn until(&self, what: &str, tells: bool) -> u64 {
        let from = self.clock.boot_ms();
        eventually(what, async || (self.store.capabilities().tells == tells).then_some(())).await;
        self.clock.boot_ms() - from
    }

    /// Enqueues on the other way; it starts soon.
    async fn picks_up(&self) {
        let job = JobRequest::new("run", &serde_json::Value::Null);
        let id = self.client.enqueue(job).await.unwrap().id();
        let started = async || self.store.get(id).await.ok().flatten().filter(|job| job.started_at.is_some());
        let job = eventually("the job starts", started).await;
        let ms = job.started_at.map_or(i64::MAX, |at| at.ms() - job.created_at.ms());
        assert!(ms <= PICKED_UP_MS, "picked up after {ms} ms");
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.worker.abort();
    }
}

/// Nothing comes any more on the connection that listens, nobody is told so, and all others are well: it is noticed, work is
/// found all the same, and others are heard again when they can be.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_that_listens_to_nobody_is_noticed() {
    let server = Arc::new(Server::own().await);
    let database = server.fresh_database().await;
    let relay = Relay::to(&server.authority()).await;
    let url = format!("postgres://postgres@{}/{}", relay.authority(), database.name());
    let listening = Listening::start(&url, &database).await;
    relay.cut_where(Way::ToPrograms, "LISTEN windlass_work");
    let ms = listening.until("it is noticed", false).await;
    assert!(ms <= NOTICED_MS, "noticed after {ms} ms");
    listening.picks_up().await;
    assert!(!listening.store.capabilities().tells, "nobody can be heard yet");
    relay.heal();
    listening.until("others are heard again", true).await;
    listening.picks_up().await;
}

/// The server ends the connection that listens: there is another at once, and what was said in between is made up for.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_connection_that_listens_and_is_ended_comes_back() {
    const ENDED: &str = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN windlass_work%' AND datname = ";
    let server = Arc::new(Server::own().await);
    let database = server.fresh_database().await;
    let listening = Listening::start(&database.url(), &database).await;
    let called = Arc::new(Notify::new());
    let calling = called.clone();
    let _registration = listening.store.on_work(Arc::new(move |_| calling.notify_one()));
    server.sql(&format!("{ENDED}'{}'", database.name())).await;
    tokio::time::timeout(Duration::from_millis(NOTICED_MS), called.notified())
        .await
        .expect("whoever rests is called");
    listening.until("others are heard again", true).await;
    listening.picks_up().await;
}
