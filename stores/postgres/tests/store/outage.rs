//! A server that goes away, connections that are cut, a disk that is full.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::id::JobId;
use windlass_core::store::{Source, Store};
use windlass_core::transition::Outcome;
use windlass_postgres::{Options, PostgresStore};
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::Server;
use windlass_testkit::small_disk::SmallDisk;

use crate::scene::{client, ends, job, wish};

/// Enqueues and drains without end; repeats what has an unknown outcome.
struct Load {
    stop: AtomicBool,
    accepted: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
}

impl Load {
    fn start(store: &Arc<PostgresStore>) -> (Arc<Self>, Vec<tokio::task::JoinHandle<BTreeSet<u128>>>) {
        let load = Arc::new(Self {
            stop: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        });
        let tasks = (0..4).map(|n| {
            let (load, store) = (Arc::clone(&load), Arc::clone(store));
            tokio::spawn(async move { load.run(&store, (n + 1) << 40).await })
        });
        let tasks = tasks.collect();
        (load, tasks)
    }

    async fn run(&self, store: &PostgresStore, mut id: u128) -> BTreeSet<u128> {
        let mut accepted = BTreeSet::new();
        while !self.stop.load(Ordering::Relaxed) {
            id += 1;
            while !self.stop.load(Ordering::Relaxed) {
                match store.enqueue(vec![job(id)]).await {
                    Ok(_) => {
                        accepted.insert(id);
                        self.accepted.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                    Err(error) => self.unknown(&error),
                }
            }
            if let Ok(answer) = store.claim(wish(1)).await.inspect_err(|error| self.unknown(error)) {
                let held: Vec<_> = answer.leases.iter().map(|leased| leased.lease_ref()).collect();
                let settled = store.settle(ends(&held, &Outcome::DONE)).await;
                match settled {
                    Ok(_) => drop(self.done.fetch_add(held.len() as u64, Ordering::Relaxed)),
                    Err(error) => self.unknown(&error),
                }
            }
        }
        accepted
    }

    fn unknown(&self, error: &StoreError) {
        assert!(error.is_transient(), "an outage is no other error than this: {error}");
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    async fn goes_on(&self) {
        let from = self.done.load(Ordering::Relaxed);
        eventually("work goes on", async || (self.done.load(Ordering::Relaxed) > from + 20).then_some(()))
            .await;
    }
}

async fn all_are_there(store: &PostgresStore, accepted: &BTreeSet<u128>) {
    for id in accepted {
        let kept = store.get(job(*id).id).await.expect("get");
        assert!(kept.is_some(), "job {id} was accepted and is lost");
    }
}

/// Fault 15: the server is killed and started again under load: the store goes
/// on by itself and nothing that was accepted is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fault_15_a_restart_of_the_server() {
    let server = Arc::new(Server::own().await);
    let database = server.fresh_database().await;
    let store = PostgresStore::connect_with(&database.url(), Options::default()).await.expect("a store");
    let (load, tasks) = Load::start(&store);
    load.goes_on().await;
    server.restart().await;
    load.goes_on().await;
    load.stop.store(true, Ordering::Relaxed);
    let mut accepted = BTreeSet::new();
    for task in tasks {
        accepted.extend(task.await.expect("a task under load"));
    }
    assert!(load.failed.load(Ordering::Relaxed) > 0, "the restart was not felt");
    all_are_there(&store, &accepted).await;
}

/// All connections of the store are cut, again and again, under load.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cut_connections_lose_nothing() {
    let server = Server::shared().await;
    let database = server.fresh_database().await;
    let store = PostgresStore::connect_with(&database.url(), Options::default()).await.expect("a store");
    let cutter = client(&database.url()).await;
    let (load, tasks) = Load::start(&store);
    for _ in 0..5 {
        load.goes_on().await;
        let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname = current_database() AND pid <> pg_backend_pid()";
        cutter.query(cut, &[]).await.expect("the connections are cut");
    }
    load.goes_on().await;
    load.stop.store(true, Ordering::Relaxed);
    let mut accepted = BTreeSet::new();
    for task in tasks {
        accepted.extend(task.await.expect("a task under load"));
    }
    assert!(load.failed.load(Ordering::Relaxed) > 0, "the cuts were not felt");
    all_are_there(&store, &accepted).await;
}

/// Fault 10: a full disk is a refusal that changes nothing; the server stays up,
/// and the store goes on when there is room again.
#[tokio::test(flavor = "multi_thread")]
async fn fault_10_a_full_disk() {
    if !windlass_testkit::needs::root() {
        return;
    }
    let small = SmallDisk::mount(40 << 20);
    small.give_to("postgres");
    let place = small.path().display().to_string();
    let server = Arc::new(Server::own().await);
    server.sql(&format!("CREATE TABLESPACE small LOCATION '{place}'")).await;
    server.sql("CREATE DATABASE cramped TEMPLATE template0 TABLESPACE small").await;
    let filler = small.path().join("filler");
    std::fs::write(&filler, vec![1; 8 << 20]).expect("a file that takes room");
    let store =
        PostgresStore::connect_with(&server.url("cramped"), Options::default()).await.expect("a store");
    let mut accepted = BTreeSet::new();
    let large = |n: u128| {
        let mut large = job(n);
        // Digits that do not compress well.
        let mut x = n;
        let digits = std::iter::repeat_with(|| {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
                & u128::from(u64::MAX);
            char::from(b'a' + (x >> 40) as u8 % 26)
        });
        let text: String = digits.take(100_000).collect();
        large.spec.payload = windlass_core::json::Json::payload(format!("\"{text}\"")).expect("JSON");
        large
    };
    let refused = loop {
        let n = accepted.len() as u128 + 1;
        assert!(n < 1_000, "the disk did not get full");
        match store.enqueue(vec![large(n)]).await {
            Ok(_) => drop(accepted.insert(n)),
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, StoreError::CannotWrite(_)) && refused.is_transient(), "{refused}");
    let next = accepted.len() as u128 + 1;
    assert_eq!(store.get(job(next).id).await.expect("the server is up"), None, "a refusal changed nothing");
    all_are_there(&store, &accepted).await;
    let not_ready = store.accepts().await.expect_err("whoever sends jobs here would be refused");
    assert!(matches!(not_ready, StoreError::CannotWrite(_)), "{not_ready}");
    std::fs::remove_file(&filler).expect("room again");
    store.accepts().await.expect("there is room again");
    assert_eq!(store.get(JobId(Uuid::nil())).await.expect("get"), None, "what was tried was taken back");
    store.enqueue(vec![large(next)]).await.expect("the store goes on");
    drop(store);
    server.stop().await;
}
