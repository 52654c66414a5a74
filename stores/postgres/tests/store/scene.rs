//! Small words for the tests of this store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio_postgres::{Client, NoTls};
use uuid::Uuid;
use windlass_core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::store::{ClaimRequest, LeaseRef, Settlement};
use windlass_core::transition::Outcome;
use windlass_postgres::{Options, PostgresStore};
use windlass_testkit::clock::FakeClock;
use windlass_testkit::postgres::{Database, Server};

/// A database of the test's own and a client that is not the store's.
pub struct Scene {
    pub database: Database,
    pub client: Client,
}

impl Scene {
    pub async fn new() -> Self {
        let database = Server::shared().await.fresh_database().await;
        let client = client(&database.url()).await;
        Self { database, client }
    }

    /// Counts commits from now on; there has to be a store.
    pub async fn watch_commits(&self) {
        self.client.batch_execute(WATCH).await.expect("a trigger");
    }

    /// How many commits wrote events of this sort, or of any.
    pub async fn commits(&self, what: Option<i16>) -> i64 {
        let sql = "SELECT count(DISTINCT xid) FROM public.commits WHERE what = $1 OR $1 IS NULL";
        self.client.query_one(sql, &[&what]).await.expect("commits").get(0)
    }

    pub async fn store(&self, clock: Option<FakeClock>) -> Arc<PostgresStore> {
        self.store_with(Options { clock: clock.map(|clock| Arc::new(clock) as _), ..Options::default() })
            .await
    }

    pub async fn store_with(&self, options: Options) -> Arc<PostgresStore> {
        PostgresStore::connect_with(&self.database.url(), options).await.expect("a store in a fresh database")
    }
}

/// Writes down in which transaction each event was written: what went together.
const WATCH: &str = "CREATE TABLE public.commits (xid xid8, what smallint);
    CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO public.commits VALUES (pg_current_xact_id(), NEW.what); RETURN NEW; END';
    CREATE TRIGGER note AFTER INSERT ON windlass.events FOR EACH ROW EXECUTE FUNCTION public.note()";

/// A connection of one's own.
pub async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the test's database");
    tokio::spawn(connection);
    client
}

pub fn job(n: u128) -> NewJob {
    let payload = Json::payload(format!("{{\"n\":{n}}}")).expect("JSON");
    let spec = JobSpec::new(Kind::new("k").expect("a kind"), queue(), payload);
    NewJob { id: JobId(Uuid::from_u128(n)), spec, start: Start::Now }
}

pub fn queue() -> QueueName {
    QueueName::new("q").expect("a queue")
}

static REQUESTS: AtomicU64 = AtomicU64::new(1);

/// A wish that nobody has made before.
pub fn wish(limit: u32) -> ClaimRequest {
    ClaimRequest {
        request_id: Uuid::from_u128(u128::from(REQUESTS.fetch_add(1, Ordering::Relaxed)) << 64),
        worker: WorkerName::new("w").expect("a worker"),
        queues: vec![queue()],
        kinds: None,
        limit,
        lease_ms: None,
    }
}

pub fn ends(leases: &[LeaseRef], outcome: &Outcome) -> Vec<Settlement> {
    leases.iter().map(|lease| Settlement { lease: *lease, outcome: outcome.clone() }).collect()
}
