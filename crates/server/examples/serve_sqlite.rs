//! The API on a SQLite file, for measuring and for trying it out:
//! `cargo run --release -p windlass-server --example serve_sqlite -- 127.0.0.1:7717 windlass.db`
//!
//! With a third argument it first fills the file with so many finished jobs.

use std::sync::Arc;

use windlass_engine::core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_engine::core::job::{JobSpec, NewJob, Start};
use windlass_engine::core::json::Json;
use windlass_engine::core::store::{CLAIM_MAX, ClaimRequest, Leased, Settlement, Store};
use windlass_engine::core::transition::Outcome;
use windlass_engine::shutdown_on_signals;
use windlass_engine::world::{RealWorld, new_id};
use windlass_server::{Secret, Server, Settings, serve};
use windlass_sqlite::SqliteStore;

const BATCH: usize = 10_000;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::WARN).init();
    let mut args = std::env::args().skip(1);
    let listen = args.next().unwrap_or_else(|| "127.0.0.1:7717".to_owned());
    let file = args.next().unwrap_or_else(|| "windlass.db".to_owned());
    let store: Arc<dyn Store> = SqliteStore::open(file).await?;
    if let Some(count) = args.next() {
        fill(&*store, count.parse()?).await?;
    }
    let token = std::env::var("WINDLASS_TOKEN").ok().map(Secret::new);
    let listener = tokio::net::TcpListener::bind(&listen).await?;
    println!("http://{}", listener.local_addr()?);
    let shutdown = shutdown_on_signals()?;
    let server = Server::new(store, Settings { token, ..Settings::default() });
    serve(listener, shutdown, server).await?;
    Ok(())
}

async fn fill(store: &dyn Store, count: usize) -> anyhow::Result<()> {
    let world = RealWorld::new();
    let spec = JobSpec::new(Kind::new("filler")?, QueueName::new("filler")?, Json::payload(r#"{"n":1}"#)?);
    let mut first: Option<JobId> = None;
    for _ in 0..count.div_ceil(BATCH) {
        let job = |_| NewJob { id: new_id(&world), spec: spec.clone(), start: Start::Now };
        let jobs: Vec<NewJob> = (0..BATCH).map(job).collect();
        first = first.or(jobs.first().map(|job| job.id));
        store.enqueue(jobs).await?;
        finish(store, &spec.queue).await?;
    }
    if let Some(id) = first {
        println!("filled; the first job is {id}");
    }
    Ok(())
}

/// Completes all that is queued, as a worker would.
async fn finish(store: &dyn Store, queue: &QueueName) -> anyhow::Result<()> {
    let request = ClaimRequest {
        request_id: new_id(&RealWorld::new()).0,
        worker: WorkerName::new("filler")?,
        queues: vec![queue.clone()],
        kinds: None,
        limit: CLAIM_MAX,
        lease_ms: None,
    };
    let leases = store.claim(request).await?.leases;
    let settle = |leased: &Leased| Settlement { lease: leased.lease_ref(), outcome: Outcome::DONE };
    store.settle(leases.iter().map(settle).collect()).await?;
    Ok(())
}
