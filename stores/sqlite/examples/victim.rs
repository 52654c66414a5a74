//! A program to be killed: it adds, claims and completes jobs, with a record and
//! a further job from each, and says on stdout what was answered. The tests of crash points run it under strace.
//!
//! `victim FILE JOBS [abort]`: with `abort` it dies at the end, as if it was killed

use std::sync::Arc;

use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::id::{JobId, Kind, QueueName, RecordKey, ShelfName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::record::{BatchAnswer, IfRev, Keep, Put, RecordBatch, RecordWrite};
use windlass_core::store::{ClaimRequest, LeaseRef, Settlement, Source, Store, Written};
use windlass_core::time::{Clock, Time};
use windlass_core::transition::Outcome;
use windlass_sqlite::{Options, SqliteStore};

/// A clock that stands still: no lease runs out while strace slows everything down.
struct StoppedClock;

impl Clock for StoppedClock {
    fn wall(&self) -> Time {
        Time::from_ms(1_767_225_600_000)
    }

    fn boot_ms(&self) -> u64 {
        3_600_000
    }

    fn boot_id(&self) -> Uuid {
        Uuid::from_u128(1)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a file");
    let jobs: u128 = args.next().and_then(|text| text.parse().ok()).expect("a number of jobs");
    let store = match SqliteStore::open_with(path, Options::new(Arc::new(StoppedClock))).await {
        Ok(store) => store,
        Err(error) => return println!("open {}", error.code()),
    };
    println!("open ok");
    for number in 1..=jobs {
        live(&store, number).await;
    }
    let found = store.get(JobId(Uuid::from_u128(1))).await;
    println!("get {}", found.map_or_else(|error| error.code(), |_| "ok"));
    if args.next().is_some() {
        std::process::abort();
    }
}

/// One life of a job, as far as it goes.
async fn live(store: &SqliteStore, number: u128) {
    let id = JobId(Uuid::from_u128(number));
    let spec = JobSpec::new(Kind::new("k").expect("a kind"), QueueName::default(), Json::null());
    let added = store.enqueue(vec![NewJob { id, spec, start: Start::Now }]).await;
    say("enqueued", number, added.map(drop));
    let claimed = store.claim(request(number)).await;
    let lease = claimed.as_ref().ok().and_then(|answer| answer.leases.first()).map(|found| found.lease_ref());
    say("claimed", number, claimed.map(drop));
    let lease = lease.unwrap_or(LeaseRef::new(id, 1));
    let written = store.records().expect("records").write(batch(number, lease)).await;
    match written {
        Ok(BatchAnswer::Done { .. }) => say("written", number, Ok(())),
        Ok(_) => println!("written {number} refused"),
        Err(error) => say("written", number, Err(error)),
    }
    let settled = store.settle(vec![Settlement { lease, outcome: Outcome::DONE }]).await;
    match settled.as_deref() {
        Ok([Written::Done]) => say("settled", number, Ok(())),
        Ok(_) => println!("settled {number} lost"),
        Err(error) => say("settled", number, Err(error.clone())),
    }
}

/// A record and a job that belong together.
fn batch(number: u128, lease: LeaseRef) -> RecordBatch {
    let put = Put { value: Json::null(), sort: 0, label: None, keep: Keep::Forever };
    let write = RecordWrite {
        shelf: ShelfName::new("s").expect("a name"),
        key: RecordKey::new(number.to_string()).expect("a name"),
        if_rev: IfRev::Absent,
        put: Some(put),
    };
    let (kind, queue) = (Kind::new("k").expect("a kind"), QueueName::new("later").expect("a name"));
    let spec = JobSpec::new(kind, queue, Json::null());
    let job = NewJob { id: JobId(Uuid::from_u128(1_000 + number)), spec, start: Start::Now };
    RecordBatch { id: Uuid::from_u128(number), lease: Some(lease), writes: vec![write], jobs: vec![job] }
}

fn request(number: u128) -> ClaimRequest {
    ClaimRequest {
        request_id: Uuid::from_u128(number),
        worker: WorkerName::new("victim").expect("a name"),
        queues: vec![QueueName::default()],
        kinds: None,
        limit: 1,
        lease_ms: None,
    }
}

fn say(what: &str, number: u128, answer: Result<(), StoreError>) {
    println!("{what} {number} {}", answer.map_or_else(|error| error.code(), |()| "ok"));
}
