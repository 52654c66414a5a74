//! A database of a test's own, with the store in it.

use std::sync::Arc;

use async_trait::async_trait;
use mongodb::bson::{Document, doc};
use windlass_core::error::StoreError;
use windlass_core::store::Store;
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

    async fn create(clock: FakeClock) -> Self {
        Self { database: ReplicaSet::shared().await.fresh_database().await, clock }
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        // Snapshots come often, so that every promise is also kept by what is read from one.
        let clock: Option<Arc<dyn windlass_core::time::Clock>> = Some(Arc::new(self.clock.clone()));
        let options = Options { clock, snapshot_bytes_min: 4_096, ..Options::default() };
        Ok(MongoStore::connect_with(&self.database.url(), options).await?)
    }

    async fn wipe(&self) {
        for name in ["windlass_journal", "windlass_snapshots", "windlass_parts", "windlass_chunks"] {
            self.database
                .open()
                .collection::<Document>(name)
                .delete_many(doc! {})
                .await
                .expect("an empty collection");
        }
    }
}
