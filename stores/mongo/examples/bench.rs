//! Measures what the store costs: `cargo run --release -p windlass-mongo --example bench -- URL [JOBS]`, on an empty
//! database of a replica set. Batches of 100, one caller; then memory, opening, and claims beside what others stored.
//! (Against Agenda: `bench/run --only windlass-mongo,windlass-rows,agenda-5`.)

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use uuid::Uuid;
use windlass_core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::store::{ClaimRequest, Settlement, Source, Store};
use windlass_core::transition::Outcome;
use windlass_mongo::MongoStore;

const BATCH: usize = 100;
const DELAY_MS: u64 = 86_400_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("say which database: mongodb://HOST/DATABASE?replicaSet=NAME")?;
    let jobs: usize = arguments.next().map_or(Ok(10_000), |count| count.parse())?;
    let store = MongoStore::connect(&url).await?;
    let few = jobs.min(20_000);
    fill(&store, "mail", 0, few, BATCH, Start::Now).await?;
    drain(&store, "mail", few).await?;
    println!("memory with {few} finished jobs: {:.0} MiB", memory_mib());
    fill(&store, "later", few, jobs, 1_000, Start::AfterMs(DELAY_MS)).await?;
    println!("memory with {jobs} jobs more: {:.0} MiB", memory_mib());
    fill(&store, "mail", few + jobs, 2_000, BATCH, Start::Now).await?;
    drain(&store, "mail", 2_000).await?;
    in_vain(&store, "nothing").await?;
    in_vain(&store, "later").await?;
    beside(&store, few + jobs + 10_000).await?;
    let (began, cpu) = (now(), cpu_ms());
    let other = MongoStore::connect(&url).await?;
    println!(
        "opened by another in {:.2} s ({:.0} ms of CPU); memory of both {:.0} MiB",
        seconds(began),
        cpu_ms() - cpu,
        memory_mib()
    );
    by_two(store, other, few + jobs + 40_000).await
}

/// One enqueues and another works, so that each meets what the other wrote.
async fn by_two(store: Arc<MongoStore>, other: Arc<MongoStore>, from: usize) -> Result<(), Box<dyn Error>> {
    const MANY: usize = 2_000;
    let (began, mut done) = (now(), 0);
    let writing = tokio::spawn(async move {
        for first in (0..MANY).step_by(BATCH) {
            let jobs = (first..first + BATCH).map(|n| new_job("two", from + n, Start::Now).expect("a job"));
            store.enqueue(jobs.collect()).await.expect("an enqueue");
        }
    });
    while done < MANY {
        let leases = other.claim(claim("two", from + done)?).await?.leases;
        done += leases.len();
        if !leases.is_empty() {
            settle(other.as_ref(), &leases).await?;
        }
    }
    writing.await?;
    say("two programs, one enqueues and one works", MANY, began);
    Ok(())
}

/// Claims of one, beside jobs of ever more queues of others.
async fn beside(store: &MongoStore, from: usize) -> Result<(), Box<dyn Error>> {
    const ASKED: usize = 200;
    let (mut others, mut made) = (0, from);
    for queues in [10, 1_000, 10_000] {
        while others < queues {
            let many = (queues - others).min(1_000);
            let jobs: Result<Vec<NewJob>, _> =
                (0..many).map(|n| new_job(&format!("other-{}", others + n), made + n, Start::Now)).collect();
            store.enqueue(jobs?).await?;
            (others, made) = (others + many, made + many);
        }
        fill(store, "one", made, ASKED, ASKED, Start::Now).await?;
        let (began, cpu) = (now(), cpu_ms());
        for at in 0..ASKED {
            let request = ClaimRequest { limit: 1, ..claim("one", made + at)? };
            assert_eq!(store.claim(request).await?.leases.len(), 1);
        }
        made += ASKED;
        let each = (cpu_ms() - cpu) / ASKED as f64;
        say(
            &format!("claims of one beside {queues} queues of others ({each:.2} ms of CPU each)"),
            ASKED,
            began,
        );
    }
    Ok(())
}

async fn in_vain(store: &MongoStore, queue: &str) -> Result<(), Box<dyn Error>> {
    const ASKED: usize = 20;
    let began = now();
    for at in 0..ASKED {
        assert!(store.claim(claim(queue, at)?).await?.leases.is_empty());
    }
    println!("a claim in vain of {queue:?}: {:.1} ms", seconds(began) * 1e3 / ASKED as f64);
    Ok(())
}

async fn fill(
    store: &MongoStore,
    queue: &str,
    from: usize,
    many: usize,
    batch: usize,
    start: Start,
) -> Result<(), Box<dyn Error>> {
    let began = now();
    for first in (from..from + many).step_by(batch) {
        let jobs: Result<Vec<NewJob>, _> = (first..first + batch).map(|n| new_job(queue, n, start)).collect();
        store.enqueue(jobs?).await?;
    }
    say(&format!("{queue}: enqueued in batches of {batch}"), many, began);
    Ok(())
}

async fn drain(store: &MongoStore, queue: &str, jobs: usize) -> Result<(), Box<dyn Error>> {
    let (began, mut done) = (now(), 0);
    while done < jobs {
        let leases = store.claim(claim(queue, (jobs << 24) | done)?).await?.leases;
        if leases.is_empty() {
            return Err("there is less to do than was enqueued: is the database empty?".into());
        }
        done += leases.len();
        settle(store, &leases).await?;
    }
    say(&format!("{queue}: drained in batches of {BATCH}"), jobs, began);
    Ok(())
}

async fn settle(store: &MongoStore, leases: &[windlass_core::store::Leased]) -> Result<(), Box<dyn Error>> {
    let end = |lease| Settlement { lease, outcome: Outcome::DONE };
    store.settle(leases.iter().map(|leased| end(leased.lease_ref())).collect()).await?;
    Ok(())
}

fn claim(queue: &str, number: usize) -> Result<ClaimRequest, Box<dyn Error>> {
    Ok(ClaimRequest {
        request_id: Uuid::from_u128(((number as u128 + 1) << 32) | queue.len() as u128),
        worker: WorkerName::new("bench")?,
        queues: vec![QueueName::new(queue)?],
        kinds: None,
        limit: BATCH as u32,
        lease_ms: None,
    })
}

fn new_job(queue: &str, number: usize, start: Start) -> Result<NewJob, Box<dyn Error>> {
    let payload = Json::payload(format!(r#"{{"to":"someone@example.com","n":{number}}}"#))?;
    let spec = JobSpec::new(Kind::new("send")?, QueueName::new(queue)?, payload);
    Ok(NewJob { id: JobId(Uuid::from_u128(number as u128 + 1)), spec, start })
}

/// The processor time of this process, in milliseconds.
fn cpu_ms() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks =
        |at: usize| rest.split(' ').nth(at).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) * 10.0
}

fn memory_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let now =
        status.lines().find(|line| line.starts_with("VmRSS")).and_then(|line| line.split_whitespace().nth(1));
    now.and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1_024.0
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn now() -> Instant {
    Instant::now()
}

fn seconds(began: Instant) -> f64 {
    began.elapsed().as_secs_f64()
}

fn say(what: &str, jobs: usize, began: Instant) {
    let seconds = seconds(began);
    println!("{what}: {jobs} in {seconds:.2} s, {:.0} per second", jobs as f64 / seconds);
}
