//! A database of a test's own, with the store in it.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_postgres::NoTls;
use windlass_core::error::StoreError;
use windlass_core::store::Store;
use windlass_postgres::{Options, PostgresStore};
use windlass_testkit::clock::FakeClock;
use windlass_testkit::postgres::{Database, Server};
use windlass_testkit::subject::Subject;

/// A database of a test's own.
pub struct Place {
    database: Database,
    clock: FakeClock,
}

#[async_trait]
impl Subject for Place {
    const NAME: &'static str = "postgres";
    const SHARED: bool = true;
    const CUTS: bool = true;

    async fn create(clock: FakeClock) -> Self {
        Self { database: Server::shared().await.fresh_database().await, clock }
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let options = Options { clock: Some(Arc::new(self.clock.clone())), ..Options::default() };
        Ok(PostgresStore::connect_with(&self.database.url(), options).await?)
    }

    async fn cut(&self) {
        // As after a restore: the store was made by another server.
        self.run("UPDATE windlass.epoch SET history = '1/' || split_part(history, '/', 2)").await;
    }

    async fn wipe(&self) {
        let tables = "jobs, runs, ready, delayed, waiting, ended, tally, steps, keys, queues, budgets, schedules, workers, requests, grants, events, feed, long_leases, pauses, records, batches";
        // They hold few rows: deleting these is faster than making the tables anew.
        let deletes: Vec<String> =
            tables.split(", ").map(|table| format!("DELETE FROM windlass.{table}")).collect();
        let epoch =
            "UPDATE windlass.epoch SET number = 1, floor = 0, began_ms = 0, first_seq = 0, lossy = false";
        self.run(&format!("{}; {epoch}", deletes.join("; "))).await;
    }
}

impl Place {
    async fn run(&self, sql: &str) {
        let (client, connection) =
            tokio_postgres::connect(&self.database.url(), NoTls).await.expect("the test's own database");
        let connection = tokio::spawn(connection);
        client.batch_execute(sql).await.expect("tables of the store");
        drop(client);
        drop(connection.await);
    }
}
