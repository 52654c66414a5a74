//! A database of a test's own, with the store in it.

use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt;
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, Bson, DateTime, Document, doc};
use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::store::Store;
use windlass_core::time::Clock as _;
use windlass_mongo::{MongoStore, Options};
use windlass_testkit::clock::FakeClock;
use windlass_testkit::mongo::{Database, ReplicaSet};
use windlass_testkit::subject::Subject;

/// A database of a test's own.
pub struct Place {
    database: Database,
    clock: FakeClock,
}

#[async_trait]
impl Subject for Place {
    const NAME: &'static str = "mongo";
    const SHARED: bool = true;
    const CUTS: bool = true;

    async fn create(clock: FakeClock) -> Self {
        Self { database: ReplicaSet::shared().await.fresh_database().await, clock }
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        // Snapshots come often, so that every promise is also kept by what is read from one.
        let clock: Option<Arc<dyn windlass_core::time::Clock>> = Some(Arc::new(self.clock.clone()));
        let options = Options { clock, snapshot_bytes_min: 4_096, ..Options::default() };
        Ok(MongoStore::connect_with(&self.database.url(), options).await?)
    }

    /// As after a restore: the journal is another collection, with the same in it.
    async fn cut(&self) {
        let database = self.database.open();
        let journal = database.collection::<Document>("windlass_journal");
        let copied = journal.aggregate([doc! { "$out": "restored" }]).await.expect("a copy");
        drop(copied);
        let name = |name: &str| format!("{}.{name}", self.database.name());
        let rename =
            doc! { "renameCollection": name("restored"), "to": name("windlass_journal"), "dropTarget": true };
        database.client().database("admin").run_command(rename).await.expect("a restored journal");
    }

    /// Not by emptying it: that would be another history, and a new epoch. A snapshot of nothing is put behind all there
    /// is, as if others had gone on for long.
    async fn wipe(&self) {
        let database = self.database.open();
        let journal = database.collection::<Document>("windlass_journal");
        let last = journal.find_one(doc! {}).sort(doc! { "_id": -1 }).await.expect("an answer");
        let number = last.map_or(0, |last| last.get_i64("_id").expect("a number")) + 1;
        let history = self.history().await;
        for name in MongoStore::COLLECTIONS {
            database.collection::<Document>(name).delete_many(doc! {}).await.expect("an empty collection");
        }
        let mut book = Book::new();
        book.begin(uuid::Uuid::from_u128(1 << 96));
        let bytes = serde_json::to_vec(&book.to_document()).expect("a document");
        let (mark, at) = (ObjectId::new(), self.clock.wall().ms());
        let bytes = Binary { subtype: BinarySubtype::Generic, bytes };
        let part = doc! { "_id": "empty.000000", "number": number, "bytes": bytes };
        let newest = doc! { "_id": "newest", "number": number, "name": "empty", "parts": 1_i64, "at": at, "mark": mark, "bytes": 1_i64, "history": history };
        let body = Binary { subtype: BinarySubtype::Generic, bytes: b"[]".to_vec() };
        let entry = doc! { "_id": number, "mark": mark, "at": DateTime::from_millis(at), "by": mark, "meaning": 4, "body": body, "parts": 0 };
        for (name, document) in
            [("windlass_chunks", part), ("windlass_snapshots", newest), ("windlass_journal", entry)]
        {
            database.collection::<Document>(name).insert_one(document).await.expect("a document");
        }
    }
}

impl Place {
    /// What was last written down of the history of this store.
    async fn history(&self) -> Option<Bson> {
        let entries = self.database.open().collection::<Document>("windlass_journal");
        let mut found = entries.find(doc! {}).sort(doc! { "_id": -1 }).await.expect("entries");
        while let Some(entry) = found.try_next().await.expect("an entry") {
            let body = entry.get_binary_generic("body").expect("operations");
            let ops: Vec<serde_json::Value> = serde_json::from_slice(body).unwrap_or_default();
            let turned = ops.iter().find_map(|op| op.get("Turn")).and_then(|turn| turn.get("history"));
            if let Some(history) = turned {
                return Bson::try_from(history.clone()).ok();
            }
        }
        let snapshots = self.database.open().collection::<Document>("windlass_snapshots");
        snapshots.find_one(doc! {}).await.expect("a snapshot")?.get("history").cloned()
    }
}
