//! A collection of a test's own, and a worker that is stepped by hand.

use std::ops::Range;
use std::sync::Arc;

use mongodb::Collection;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, Document, doc};
use uuid::Uuid;
use windlass_core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_core::store::{ClaimRequest, LeaseRef, Leased, Settlement, Source, Written};
use windlass_core::transition::Outcome;
use windlass_mongo::agenda::{AgendaRows, NewRow, Options, ensure_index, ensure_locked_index, row_id};
use windlass_testkit::mongo::{Database, ReplicaSet};

/// The collection that all of them work.
pub const COLLECTION: &str = "jobs";

pub struct Scene {
    pub database: Database,
    pub agenda: Arc<AgendaRows>,
    pub rows: Collection<Document>,
}

impl Scene {
    /// With locks of this lifetime.
    pub async fn new(lock_lifetime_ms: u32) -> Self {
        Self::with(Options { lock_lifetime_ms, ..Options::default() }).await
    }

    pub async fn with(options: Options) -> Self {
        let database = ReplicaSet::shared().await.fresh_database().await;
        let agenda = AgendaRows::connect(&database.url(), COLLECTION, options).await.expect("a collection");
        let rows = database.open().collection(COLLECTION);
        ensure_index(&rows).await.expect("Agenda's index");
        ensure_locked_index(&rows).await.expect("our index");
        Self { database, agenda, rows }
    }

    /// Writes rows that are due, the first of them first.
    pub async fn rows(&self, name: &str, count: usize) -> Vec<ObjectId> {
        let rows = self.fresh_rows(name, 0..count).await;
        let ids = rows.iter().map(|row| row.get_object_id("_id").expect("an id")).collect();
        self.rows.insert_many(rows).await.expect("rows");
        ids
    }

    /// Rows that are due and not yet written.
    pub async fn fresh_rows(&self, name: &str, numbers: Range<usize>) -> Vec<Document> {
        let now = self.now().await;
        let row = |at: usize| NewRow {
            id: row_id(&[name.as_bytes(), &at.to_be_bytes()]),
            name: name.to_owned(),
            data: Bson::Document(doc! { "n": at as i32 }),
            priority: 0,
            next_run_at: DateTime::from_millis(now.timestamp_millis() - 60_000 + at as i64),
            last_modified_by: "test".to_owned(),
        };
        numbers.map(|at| row(at).document()).collect()
    }

    pub async fn row(&self, id: ObjectId) -> Document {
        self.rows.find_one(doc! { "_id": id }).await.expect("an answer").expect("the row")
    }

    pub async fn set(&self, id: ObjectId, set: Document) {
        self.rows.update_one(doc! { "_id": id }, doc! { "$set": set }).await.expect("an update");
    }

    pub async fn now(&self) -> DateTime {
        let hello = self.database.open().run_command(doc! { "hello": 1 }).await.expect("hello");
        *hello.get_datetime("localTime").expect("the time")
    }

    pub async fn claim(&self, limit: u32) -> Vec<Leased> {
        self.agenda.claim(request(1, limit)).await.expect("a claim").leases
    }

    /// Claims the one row that must be due.
    pub async fn claim_one(&self) -> Leased {
        let mut leases = self.claim(10).await;
        assert_eq!(leases.len(), 1, "one row is due");
        leases.remove(0)
    }

    pub async fn settle(&self, leased: &Leased, outcome: Outcome) -> Written {
        let settlement = Settlement { lease: leased.lease_ref(), outcome };
        self.agenda.settle(vec![settlement]).await.expect("a settlement").remove(0)
    }

    /// Whether a renewal says that it is still held.
    pub async fn is_held(&self, lease: LeaseRef) -> bool {
        let answer = self.agenda.renew(vec![lease]).await.expect("a renewal");
        assert_eq!(answer.renewed.len() + answer.lost.len(), 1);
        answer.renewed == [lease.job_id]
    }

    /// Waits until a lock has run out and is taken back.
    pub async fn take_back(&self, id: ObjectId) {
        windlass_testkit::eventually::eventually("the lock runs out", async || {
            let expired = self.agenda.expire().await.expect("a sweep");
            expired.jobs.iter().any(|job| row_of(*job) == id).then_some(())
        })
        .await;
    }
}

/// A fresh request of a worker.
pub fn request(worker: u32, limit: u32) -> ClaimRequest {
    static NUMBER: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    ClaimRequest {
        request_id: Uuid::from_u128(u128::from(number) << 32 | u128::from(std::process::id())),
        worker: WorkerName::new(format!("worker-{worker}")).expect("a name"),
        queues: vec![QueueName::new("agenda").expect("a name")],
        kinds: None,
        limit,
        lease_ms: None,
    }
}

/// The row that a job is.
pub fn row_of(job: JobId) -> ObjectId {
    let mut id = [0; 12];
    id.copy_from_slice(&job.0.as_bytes()[4..]);
    ObjectId::from_bytes(id)
}

pub fn row_of_lease(leased: &Leased) -> ObjectId {
    row_of(leased.job.id)
}

pub fn kind(name: &str) -> Kind {
    Kind::new(name).expect("a kind")
}

/// The fields of a row that are dates, by name; what is null or absent is left out.
pub fn dates(row: &Document) -> Vec<&str> {
    let is_date =
        |(key, value): (&'static str, Option<&Bson>)| matches!(value, Some(Bson::DateTime(_))).then_some(key);
    ["lockedAt", "nextRunAt", "lastRunAt", "lastFinishedAt", "failedAt"]
        .into_iter()
        .map(|key| (key, row.get(key)))
        .filter_map(is_date)
        .collect()
}
