//! Measures the store and Agenda's rows: `cargo run --release -p windlass-mongo --example bench -- URL [JOBS]`, on an
//! empty database of a replica set. Batches of 100, one caller.

use std::error::Error;
use std::time::Instant;

use uuid::Uuid;
use windlass_core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::store::{ClaimRequest, Settlement, Source, Store};
use windlass_core::transition::Outcome;
use windlass_mongo::MongoStore;
use windlass_mongo::agenda::{self, AgendaRows, NewRow, row_id};
use windlass_mongo::mongodb::Client;
use windlass_mongo::mongodb::bson::{Document, doc};

const BATCH: usize = 100;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("say which database: mongodb://HOST/DATABASE?replicaSet=NAME")?;
    let jobs = arguments.next().map_or(Ok(10_000), |count| count.parse())?;
    let store = MongoStore::connect(&url).await?;
    let began = now();
    for first in (0..jobs).step_by(BATCH) {
        store.enqueue((first..first + BATCH).map(new_job).collect::<Result<_, _>>()?).await?;
    }
    say("store: enqueued", jobs, began);
    drain("store: drained", store.as_ref(), "mail", jobs).await?;

    let database = Client::with_uri_str(&url).await?;
    let database = database.default_database().ok_or("the URL names no database")?;
    let rows = database.collection::<Document>("jobs");
    agenda::ensure_index(&rows).await?;
    agenda::ensure_locked_index(&rows).await?;
    let hello = database.run_command(doc! { "hello": 1 }).await?;
    let row = |number: usize| NewRow {
        id: row_id(&[&number.to_be_bytes()]),
        name: "mail".to_owned(),
        data: doc! { "to": "someone@example.com", "n": number as i64 }.into(),
        priority: 0,
        next_run_at: *hello.get_datetime("localTime").expect("a primary tells its time"),
        last_modified_by: "bench".to_owned(),
    };
    let documents: Vec<Document> = (0..jobs).map(|number| row(number).document()).collect();
    rows.insert_many(documents).await?;
    let source = AgendaRows::of(&database, "jobs", agenda::Options::default()).await?;
    drain("Agenda's rows: drained", source.as_ref(), "agenda", jobs).await
}

async fn drain(what: &str, source: &dyn Source, queue: &str, jobs: usize) -> Result<(), Box<dyn Error>> {
    let (began, mut done) = (now(), 0);
    while done < jobs {
        let request = ClaimRequest {
            request_id: Uuid::from_u128((done as u128 + 1) << 32 | queue.len() as u128),
            worker: WorkerName::new("bench")?,
            queues: vec![QueueName::new(queue)?],
            kinds: None,
            limit: BATCH as u32,
            lease_ms: None,
        };
        let leases = source.claim(request).await?.leases;
        if leases.is_empty() {
            return Err("there is less to do than was enqueued: is the database empty?".into());
        }
        done += leases.len();
        let end = |lease| Settlement { lease, outcome: Outcome::DONE };
        source.settle(leases.iter().map(|leased| end(leased.lease_ref())).collect()).await?;
    }
    say(what, jobs, began);
    Ok(())
}

fn new_job(number: usize) -> Result<NewJob, Box<dyn Error>> {
    let payload = Json::payload(format!(r#"{{"to":"someone@example.com","n":{number}}}"#))?;
    let spec = JobSpec::new(Kind::new("send")?, QueueName::new("mail")?, payload);
    Ok(NewJob { id: JobId(Uuid::from_u128(number as u128 + 1)), spec, start: Start::Now })
}

#[expect(clippy::disallowed_methods, reason = "a measurement reads the clock")]
fn now() -> Instant {
    Instant::now()
}

fn say(what: &str, jobs: usize, began: Instant) {
    let seconds = began.elapsed().as_secs_f64();
    println!("{what} {jobs} in {seconds:.2} s: {:.0} per second (batches of {BATCH})", jobs as f64 / seconds);
}
