//! A place for a store under test: a file in a temporary folder.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;
use tempfile::TempDir;
use windlass_core::error::StoreError;
use windlass_core::incarnation::Mark;
use windlass_core::store::Store;
use windlass_sqlite::{Options, SqliteStore};
use windlass_testkit::clock::FakeClock;
use windlass_testkit::subject::Subject;

use crate::audit::audit;

/// A file in a folder of its own.
pub struct SqliteSubject {
    folder: TempDir,
    clock: FakeClock,
}

impl SqliteSubject {
    /// The file.
    fn path(&self) -> PathBuf {
        self.folder.path().join("windlass.db")
    }
}

#[async_trait]
impl Subject for SqliteSubject {
    const NAME: &'static str = "sqlite";
    const SHARED: bool = true;
    const CUTS: bool = true;

    async fn create(clock: FakeClock) -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder"), clock }
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(SqliteStore::open_with(self.path(), Options::new(Arc::new(self.clock.clone()))).await?)
    }

    async fn cut(&self) {
        // As if the newest commits were gone from the file.
        let path = self.folder.path().join("windlass.db-mark");
        let mut mark = Mark::read(&std::fs::read(&path).expect("a mark")).expect("a whole mark");
        mark.commits += 3;
        std::fs::write(&path, mark.to_bytes()).expect("a mark");
    }

    async fn wipe(&self) {
        audit(&self.path());
        let conn = Connection::open(self.path()).expect("the file of the store");
        conn.execute_batch(include_str!("wipe.sql")).expect("an empty store");
    }
}
