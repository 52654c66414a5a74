//! How fast the store is, on a database that may be thrown away:
//!
//! `cargo run --release -p windlass-postgres --example bench -- postgres://…/empty_database`
//!
//! Batches of 1,000 jobs, payload of 64 bytes, the database's own clock and
//! durability. One line per figure, data to stdout.

#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and draws ids; nothing here decides"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;
use windlass_core::id::{JobId, Key, Kind, QueueName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::store::{ClaimRequest, Settlement, Source, Store};
use windlass_core::transition::Outcome;
use windlass_postgres::{Options, PostgresStore};

const BATCH: usize = 1_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).ok_or("give the URL of an empty database")?;
    let store = PostgresStore::connect_with(&url, Options::default()).await?;
    let mut next = Ids(Uuid::from_u128(u128::from(std::process::id()) << 96).as_u128());
    let backlog = 100_000;
    let took = enqueue(&store, &mut next, backlog, None).await?;
    report("batch enqueue of 1,000", backlog, took);
    let p50 = claim_p50(&store, &mut next).await?;
    println!("claim of 1 at a backlog of {backlog}: p50 {:.2} ms", p50.as_secs_f64() * 1e3);
    let (done, took) = drain(&store, &mut next).await?;
    report("drain (claim 1,000 + settle 1,000)", done, took);
    enqueue(&store, &mut next, backlog, Some("k")).await?;
    let (done, took) = drain(&store, &mut next).await?;
    report("drain of jobs with a key each", done, took);
    let (done, took) = singles(&store, &mut next).await?;
    report("16 tasks, one job per call", done, took);
    Ok(())
}

struct Ids(u128);

impl Ids {
    fn next(&mut self) -> Uuid {
        self.0 += 1;
        // Spread over the index like ids of many clients.
        Uuid::from_u128(self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835))
    }
}

fn report(what: &str, jobs: usize, took: Duration) {
    println!(
        "{what}: {:.0} jobs/s ({jobs} in {:.2} s)",
        jobs as f64 / took.as_secs_f64(),
        took.as_secs_f64()
    );
}

fn job(ids: &mut Ids, key: Option<&str>) -> Result<NewJob, Box<dyn std::error::Error>> {
    let id = ids.next();
    let payload = Json::payload(format!("{{\"order\":\"{id}\",\"n\":12345}}"))?;
    let mut spec = JobSpec::new(Kind::new("bench")?, QueueName::default(), payload);
    spec.key = key.map(|key| Key::new(format!("{key}{id}"))).transpose()?;
    Ok(NewJob { id: JobId(id), spec, start: Start::Now })
}

async fn enqueue(
    store: &PostgresStore,
    ids: &mut Ids,
    jobs: usize,
    key: Option<&str>,
) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut batches = Vec::new();
    for _ in 0..jobs / BATCH {
        batches.push((0..BATCH).map(|_| job(ids, key)).collect::<Result<Vec<_>, _>>()?);
    }
    let start = Instant::now();
    for batch in batches {
        store.enqueue(batch).await?;
    }
    Ok(start.elapsed())
}

fn wish(ids: &mut Ids, limit: usize) -> Result<ClaimRequest, Box<dyn std::error::Error>> {
    Ok(ClaimRequest {
        request_id: ids.next(),
        worker: WorkerName::new("bench")?,
        queues: vec![QueueName::default()],
        kinds: None,
        limit: limit as u32,
        lease_ms: None,
    })
}

async fn claim_p50(store: &PostgresStore, ids: &mut Ids) -> Result<Duration, Box<dyn std::error::Error>> {
    let mut times = Vec::new();
    for _ in 0..500 {
        let request = wish(ids, 1)?;
        let start = Instant::now();
        let answer = store.claim(request).await?;
        times.push(start.elapsed());
        let done = answer.leases.iter().map(|l| Settlement { lease: l.lease_ref(), outcome: Outcome::DONE });
        store.settle(done.collect()).await?;
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

async fn drain(
    store: &PostgresStore,
    ids: &mut Ids,
) -> Result<(usize, Duration), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let mut done = 0;
    loop {
        let answer = store.claim(wish(ids, BATCH)?).await?;
        if answer.leases.is_empty() {
            return Ok((done, start.elapsed()));
        }
        done += answer.leases.len();
        let settle =
            answer.leases.iter().map(|l| Settlement { lease: l.lease_ref(), outcome: Outcome::DONE });
        store.settle(settle.collect()).await?;
    }
}

async fn singles(
    store: &Arc<PostgresStore>,
    ids: &mut Ids,
) -> Result<(usize, Duration), Box<dyn std::error::Error>> {
    let mut work: Vec<Vec<NewJob>> = Vec::new();
    for _ in 0..16 {
        work.push((0..500).map(|_| job(ids, None)).collect::<Result<Vec<_>, _>>()?);
    }
    let start = Instant::now();
    let tasks: Vec<_> = work
        .into_iter()
        .map(|jobs| {
            let store = Arc::clone(store);
            tokio::spawn(async move {
                for job in jobs {
                    store.enqueue(vec![job]).await?;
                }
                Ok::<(), windlass_core::error::StoreError>(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    Ok((16 * 500, start.elapsed()))
}
