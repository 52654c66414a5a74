//! Measures how long pruning holds up an enqueue:
//! `cargo run --release -p windlass-sqlite --example stall -- [folder] [finished jobs]`.
//!
//! Reported: the longest and the 99th percentile of single enqueues, one after the other, without pruning and
//! while all finished jobs are pruned; payloads of 100 bytes, `synchronous = FULL`.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use uuid::Uuid;
use windlass_core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::store::{ClaimRequest, Settlement, Source, Store};
use windlass_core::transition::Outcome;
use windlass_sqlite::SqliteStore;

const BATCH: u32 = 1_000;
/// So many enqueues without pruning.
const QUIET: usize = 1_000;

/// Ids as a client makes them: the time first, then noise.
fn new_job(number: u128) -> NewJob {
    let noise = number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_0C3F_5D2B_4A11) & 0xFFFF_FFFF_FFFF;
    let kind = Kind::new("bench").expect("a kind");
    let payload = Json::payload(format!("{{\"text\":\"{}\"}}", "x".repeat(89))).expect("a payload");
    let spec = JobSpec::new(kind, QueueName::default(), payload);
    NewJob { id: JobId(Uuid::from_u128(number << 64 | noise)), spec, start: Start::Now }
}

async fn finish(store: &SqliteStore, jobs: u32) {
    for batch in 0..jobs / BATCH {
        let new = (0..BATCH).map(|at| new_job(u128::from(batch * BATCH + at))).collect();
        store.enqueue(new).await.expect("jobs");
        let request = ClaimRequest {
            request_id: Uuid::from_u128(u128::from(batch) + 1),
            worker: WorkerName::new("w").expect("a name"),
            queues: vec![QueueName::default()],
            kinds: None,
            limit: BATCH,
            lease_ms: None,
        };
        let leases = store.claim(request).await.expect("a claim").leases;
        let done = |lease: &windlass_core::store::Leased| Settlement {
            lease: lease.lease_ref(),
            outcome: Outcome::DONE,
        };
        store.settle(leases.iter().map(done).collect()).await.expect("a settlement");
    }
}

/// Enqueues one job; answers how long that took.
#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
async fn enqueue(store: &SqliteStore, number: u128) -> Duration {
    let start = std::time::Instant::now();
    store.enqueue(vec![new_job(number)]).await.expect("a job");
    start.elapsed()
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |part: usize| times.get((times.len() * part / 100).min(times.len() - 1)).copied();
    let ms = |time: Option<Duration>| time.unwrap_or_default().as_secs_f64() * 1_000.0;
    println!(
        "{what}: {} enqueues, longest {:.1} ms, p99 {:.1} ms, median {:.2} ms",
        times.len(),
        ms(at(100)),
        ms(at(99)),
        ms(at(50))
    );
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let folder: PathBuf = args.next().map_or_else(std::env::temp_dir, Into::into);
    let jobs: u32 = args.next().and_then(|text| text.parse().ok()).unwrap_or(300_000);
    let home = tempfile::tempdir_in(folder).expect("a folder for the file");
    let store: Arc<SqliteStore> = SqliteStore::open(home.path().join("stall.db")).await.expect("a store");
    finish(&store, jobs).await;
    let mut number = u128::from(jobs);
    let mut quiet = Vec::new();
    for _ in 0..QUIET {
        number += 1;
        quiet.push(enqueue(&store, number).await);
    }
    report("without pruning", quiet);

    let policy = QueuePolicy { finished_max: 1, ..QueuePolicy::default() };
    store.put_queue(QueueName::default(), policy).await.expect("a policy");
    let over = Arc::new(AtomicBool::new(false));
    let pruning = tokio::spawn({
        let (store, over) = (Arc::clone(&store), Arc::clone(&over));
        async move {
            let start = std::time::Instant::now();
            let mut pruned = 0;
            loop {
                match store.prune().await.expect("a pruning") {
                    0 => break,
                    some => pruned += some,
                }
            }
            over.store(true, Ordering::Relaxed);
            println!("pruned {pruned} jobs in {:.1} s", start.elapsed().as_secs_f64());
        }
    });
    let mut busy = Vec::new();
    while !over.load(Ordering::Relaxed) {
        number += 1;
        busy.push(enqueue(&store, number).await);
    }
    pruning.await.expect("the pruning ends");
    report("while pruning", busy);
}
