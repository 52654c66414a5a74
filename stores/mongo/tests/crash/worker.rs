//! A program that is killed: `crash_worker ROLE URL LOG`. It enqueues, or works jobs in steps, and writes down what it
//! was answered. A line is one write, so that the log has one order over all processes.

use std::fs::{File, OpenOptions};
use std::io::Write;

use mongodb::bson::oid::ObjectId;
use uuid::Uuid;
use windlass_core::id::{JobId, Kind, QueueName, StepName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::store::{ClaimRequest, Leased, Settlement, Source, StepWrite, Store, Written};
use windlass_core::transition::Outcome;
use windlass_mongo::{MongoStore, Options};

type Fault = Box<dyn std::error::Error>;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Fault> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [role, url, log] = arguments.as_slice() else { return Err("say ROLE URL LOG".into()) };
    let log = OpenOptions::new().append(true).create(true).open(log)?;
    let options = Options { snapshot_bytes_min: 8_192, ..Options::default() };
    let store = MongoStore::connect_with(url, options).await?;
    match role.as_str() {
        "producer" => produce(&store, log).await,
        "worker" => work(&store, log, false).await,
        "drain" => work(&store, log, true).await,
        other => Err(format!("no such role: {other}").into()),
    }
}

/// An id that no other process has.
fn fresh() -> Uuid {
    let mut bytes = [0; 16];
    bytes[4..].copy_from_slice(&ObjectId::new().bytes());
    Uuid::from_bytes(bytes)
}

fn say(mut log: &File, line: &str) -> Result<(), Fault> {
    log.write_all(format!("{line}\n").as_bytes())?;
    Ok(())
}

async fn produce(store: &MongoStore, log: File) -> Result<(), Fault> {
    loop {
        let spec = JobSpec::new(Kind::new("crash")?, QueueName::new("crash")?, Json::null());
        let new = |_| NewJob { id: JobId(fresh()), spec: spec.clone(), start: Start::Now };
        let jobs: Vec<NewJob> = (0..3).map(new).collect();
        for accepted in store.enqueue(jobs).await? {
            say(&log, &format!("acked {}", accepted.id))?;
        }
    }
}

async fn work(store: &MongoStore, log: File, until_done: bool) -> Result<(), Fault> {
    let name = WorkerName::new(format!("worker-{}", std::process::id()))?;
    loop {
        let expired = store.expire().await?;
        let request = ClaimRequest {
            request_id: fresh(),
            worker: name.clone(),
            queues: vec![QueueName::new("crash")?],
            kinds: None,
            limit: 4,
            lease_ms: Some(600),
        };
        let leases = store.claim(request).await?.leases;
        for leased in &leases {
            run(store, &log, leased).await?;
        }
        if leases.is_empty() && until_done && expired.next_in_ms.is_none() {
            return Ok(());
        }
    }
}

async fn run(store: &MongoStore, log: &File, leased: &Leased) -> Result<(), Fault> {
    let lease = leased.lease_ref();
    say(log, &format!("start {} {}", lease.job_id, lease.fence))?;
    let step = StepWrite { lease, name: StepName::new("one")?, output: Json::null() };
    if store.store_steps(vec![step]).await? != [Written::Done] {
        return Ok(());
    }
    let end = Settlement { lease, outcome: Outcome::DONE };
    if store.settle(vec![end]).await? == [Written::Done] {
        say(log, &format!("done {} {}", lease.job_id, lease.fence))?;
    }
    Ok(())
}
