//! Does a fixed piece of work on a JSON store and says each step once it was
//! answered. The tests kill it, fill its disk and break its calls.
//!
//! `json_churn FILE work`: enqueues, claims and completes jobs, one line per answer.
//! `json_churn FILE fill`: enqueues until the disk is full, makes room, goes on.
//! `json_churn FILE readonly`: has its folder made read-only and writable again.

use std::process::{Command, ExitCode};
use std::sync::Arc;

use windlass_core::error::StoreError;
use windlass_core::id::{JobId, Kind, QueueName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::store::{ClaimRequest, Settlement, Source, Store};
use windlass_core::transition::Outcome;
use windlass_json::{JsonStore, Options};
use windlass_testkit::clock::FakeClock;
use windlass_testkit::conformance::scene;

const JOBS: u128 = 3;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, path, mode] = arguments.as_slice() else {
        eprintln!("usage: json_churn FILE work|fill|readonly");
        return ExitCode::from(2);
    };
    let done = match mode.as_str() {
        "fill" => fill(path).await,
        "readonly" => read_only(path).await,
        _ => work(path).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error {}", error.code());
            ExitCode::from(3)
        }
    }
}

async fn open(path: &str) -> Result<Arc<JsonStore>, StoreError> {
    JsonStore::open_with(path, Options::new(Arc::new(FakeClock::default()))).await
}

async fn work(path: &str) -> Result<(), StoreError> {
    let store = open(path).await?;
    for n in 1..=JOBS {
        match step(&store, n).await {
            Ok(()) => {}
            Err(error) => {
                println!("error {}", error.code());
                // Once more: a store that stopped has to stay stopped.
                return step(&store, n + 100).await;
            }
        }
    }
    Ok(())
}

async fn step(store: &JsonStore, n: u128) -> Result<(), StoreError> {
    store.enqueue(vec![scene::job(n)]).await?;
    println!("enqueued {n}");
    let request = ClaimRequest {
        request_id: scene::id(n << 64).0,
        worker: scene::worker("w"),
        queues: vec![scene::queue("q")],
        kinds: None,
        limit: 1,
        lease_ms: None,
    };
    let lease = store.claim(request).await?.leases[0].lease_ref();
    println!("claimed {n}");
    store.settle(vec![Settlement { lease, outcome: Outcome::DONE }]).await?;
    println!("done {n}");
    Ok(())
}

fn heavy(n: u128) -> NewJob {
    let payload = Json::payload(format!("\"{}\"", "x".repeat(20_000))).expect("a payload");
    let spec = JobSpec::new(Kind::new("k").expect("a kind"), QueueName::default(), payload);
    NewJob { id: JobId(uuid::Uuid::from_u128(n)), spec, start: Start::Now }
}

async fn fill(path: &str) -> Result<(), StoreError> {
    let store = open(path).await?;
    let policy = QueuePolicy { delete_finished: true, ..Default::default() };
    store.put_queue(QueueName::default(), policy).await?;
    let mut kept = 0;
    let refused = loop {
        match store.enqueue(vec![heavy(kept + 1)]).await {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
    };
    println!("refused {}", refused.code());
    println!("phantom {}", store.get(scene::id(kept + 1)).await?.is_some());
    for n in 1..=4 {
        store.cancel(scene::id(n)).await?;
    }
    store.enqueue(vec![heavy(kept + 1)]).await?;
    drop(store);
    let store = open(path).await?;
    let mut found = 0;
    for n in 1..=kept + 1 {
        found += u128::from(store.get(scene::id(n)).await?.is_some());
    }
    println!("lost {}", (kept + 1 - 4) - found);
    Ok(())
}

async fn read_only(path: &str) -> Result<(), StoreError> {
    let store = open(path).await?;
    store.enqueue(vec![scene::job(1)]).await?;
    remount(path, "ro");
    let refused = store.enqueue(vec![scene::job(2)]).await;
    println!("refused {}", refused.expect_err("a read-only folder").code());
    println!("there {}", store.get(scene::id(1)).await?.is_some());
    remount(path, "rw");
    store.enqueue(vec![scene::job(2)]).await?;
    println!("healed");
    Ok(())
}

/// Lays a read-only view over the folder, or takes it away.
fn remount(path: &str, how: &str) {
    let folder = std::path::Path::new(path).parent().expect("a folder").display();
    let script = match how {
        "ro" => format!("mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}"),
        _ => format!("umount {folder}"),
    };
    let status = Command::new("sh").args(["-c", &script]).status();
    assert!(status.is_ok_and(|status| status.success()), "{script:?} needs root");
}
