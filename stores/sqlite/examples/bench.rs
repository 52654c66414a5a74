//! Measures the store: `cargo run --release -p windlass-sqlite --example bench -- [folder] [jobs]`.
//!
//! Reported: batches of 1,000, single enqueues from 16 tasks, and a drain in
//! claims and settlements of 1,000; payloads of 100 bytes, `synchronous = FULL`.

use std::sync::Arc;

use uuid::Uuid;
use windlass_core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::store::{ClaimRequest, Settlement, Source, Store};
use windlass_core::time::{Clock, Time};
use windlass_core::transition::Outcome;
use windlass_sqlite::{Options, SqliteStore};

const BATCH: u32 = 1_000;
const TASKS: u32 = 16;

/// The machine's clock.
struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "an example is its own world")]
    fn wall(&self) -> Time {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Time::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn boot_ms(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        now.tv_sec.unsigned_abs() * 1_000 + now.tv_nsec.unsigned_abs() / 1_000_000
    }

    fn boot_id(&self) -> Uuid {
        Uuid::from_u128(1)
    }
}

/// Ids as a client makes them: the time first, then noise.
fn new_job(number: u128) -> NewJob {
    let noise = number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_0C3F_5D2B_4A11) & 0xFFFF_FFFF_FFFF;
    let kind = Kind::new("bench").expect("a kind");
    let payload = Json::payload(format!("{{\"text\":\"{}\"}}", "x".repeat(89))).expect("a payload");
    let spec = JobSpec::new(kind, QueueName::default(), payload);
    NewJob { id: JobId(Uuid::from_u128(number << 64 | noise)), spec, start: Start::Now }
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
async fn measure(what: &str, jobs: u32, work: impl Future<Output = ()>) {
    let start = std::time::Instant::now();
    work.await;
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {jobs} jobs in {seconds:.2} s, {:.0} jobs/s", f64::from(jobs) / seconds);
}

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let folder = args.next().map_or_else(std::env::temp_dir, Into::into);
    let jobs: u32 = args.next().and_then(|text| text.parse().ok()).unwrap_or(200_000);
    let home = tempfile::tempdir_in(folder).expect("a folder for the file");
    let path = home.path().join("bench.db");
    let store = SqliteStore::open_with(&path, Options::new(Arc::new(SystemClock))).await.expect("a store");

    let batches: Vec<Vec<NewJob>> = (0..jobs / BATCH)
        .map(|batch| (0..BATCH).map(|at| new_job(u128::from(batch * BATCH + at))).collect())
        .collect();
    measure("enqueue, batches of 1000", jobs / BATCH * BATCH, async {
        for batch in batches {
            store.enqueue(batch).await.expect("a batch that is taken");
        }
    })
    .await;
    let singles = jobs / 4 / TASKS * TASKS;
    measure("enqueue, single, 16 tasks", singles, enqueue_singles(&store, jobs, singles / TASKS)).await;
    let all = jobs / BATCH * BATCH + singles;
    measure("drain, claim 1000 + settle 1000", all, drain(&store, all)).await;
    let bytes = std::fs::metadata(&path).map(|meta| meta.len()).unwrap_or(0);
    println!("file: {} MB", bytes / 1_000_000);
}

async fn enqueue_singles(store: &Arc<SqliteStore>, from: u32, each: u32) {
    let task = |task: u32| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for at in 0..each {
                let number = u128::from(from) + u128::from(at * TASKS + task);
                store.enqueue(vec![new_job(number)]).await.expect("a job that is taken");
            }
        })
    };
    let tasks: Vec<_> = (0..TASKS).map(task).collect();
    for task in tasks {
        task.await.expect("a task that ends");
    }
}

async fn drain(store: &Arc<SqliteStore>, jobs: u32) {
    let mut done = 0;
    while done < jobs {
        let request = ClaimRequest {
            request_id: Uuid::from_u128(u128::from(done) + 1),
            worker: WorkerName::new("bench").expect("a name"),
            queues: vec![QueueName::default()],
            kinds: None,
            limit: BATCH,
            lease_ms: None,
        };
        let leases = store.claim(request).await.expect("a claim").leases;
        assert!(!leases.is_empty(), "{done} of {jobs} jobs came back");
        done += leases.len() as u32;
        let settle = |lease: &windlass_core::store::Leased| Settlement {
            lease: lease.lease_ref(),
            outcome: Outcome::DONE,
        };
        store.settle(leases.iter().map(settle).collect()).await.expect("a settlement");
    }
}
