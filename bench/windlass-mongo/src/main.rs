//! Windlass on MongoDB as a user has it: a client, a worker, the store; with `--source rows` a worker on rows of
//! Agenda's instead, which are written as Agenda writes them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use peer::{Ask, Fault, Peer, Work};
use windlass::prelude::*;
use windlass_mongo::agenda::{AgendaRows, NewRow, Options, ensure_index, ensure_locked_index, row_id};
use windlass_mongo::mongodb::bson::{DateTime, Document, doc};
use windlass_mongo::mongodb::{Client as MongoClient, Collection};

#[derive(Serialize, Deserialize)]
#[serde(transparent)]
struct Bench(Work);

impl Job for Bench {
    const KIND: &'static str = "bench";
    type Output = ();
}

enum Place {
    Store { store: Arc<dyn Store>, client: Client },
    Rows { rows: Collection<Document>, source: Arc<AgendaRows>, made: AtomicU64 },
}

struct Windlass {
    place: Place,
    slots: usize,
}

impl Peer for Windlass {
    async fn connect(ask: &Ask) -> Result<Self, Fault> {
        let place = match ask.text("source") {
            Some("rows") => rows(&ask.url).await?,
            _ => {
                let store = windlass::open(&ask.url).await?;
                Place::Store { client: Client::new(store.clone()), store }
            }
        };
        Ok(Self { place, slots: ask.number("slots", 100) as usize })
    }

    async fn enqueue(&self, work: Work) -> Result<(), Fault> {
        self.enqueue_many(vec![work]).await
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> Result<(), Fault> {
        match &self.place {
            Place::Store { client, .. } => {
                client.enqueue_many(work.into_iter().map(|work| JobRequest::of(&Bench(work)))).await?;
            }
            Place::Rows { rows, made, .. } => {
                let row = |work: Work| NewRow {
                    id: row_id(&[&made.fetch_add(1, Ordering::Relaxed).to_be_bytes()]),
                    name: "bench".to_owned(),
                    data: doc! { "sent_ms": work.sent_ms, "filling": work.filling }.into(),
                    priority: 0,
                    next_run_at: DateTime::now(),
                    last_modified_by: "bench".to_owned(),
                };
                rows.insert_many(work.into_iter().map(|work| row(work).document())).await?;
            }
        }
        Ok(())
    }

    async fn work(&self) -> Result<(), Fault> {
        let worker = match &self.place {
            Place::Store { store, .. } => Worker::new(store.clone()),
            Place::Rows { source, .. } => Worker::from_source(source.clone()).queues(["agenda"]),
        };
        let worker = worker.slots(self.slots).handle(async |Bench(work): Bench, _: Context| {
            peer::ran(&work);
            Ok(())
        });
        tokio::spawn(worker.run_until_signal());
        Ok(())
    }
}

async fn rows(url: &str) -> Result<Place, Fault> {
    let client = MongoClient::with_uri_str(url).await?;
    let database = client.default_database().ok_or("the URL names no database")?;
    let rows = database.collection::<Document>("agendaJobs");
    ensure_index(&rows).await?;
    ensure_locked_index(&rows).await?;
    let source = AgendaRows::of(&database, "agendaJobs", Options::default()).await?;
    Ok(Place::Rows { rows, source, made: AtomicU64::new(0) })
}

fn main() {
    peer::contest::<Windlass>();
}
