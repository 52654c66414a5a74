//! A store in memory that loses the answers to writes of records.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use windlass_engine::core::decorate::{SourceDecorator, StoreDecorator};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::{Label, RecordKey, ShelfName};
use windlass_engine::core::record::{BatchAnswer, Record, RecordBatch, RecordPage, Records, Scan};
use windlass_engine::core::store::{Source, Store};
use windlass_engine::testing::MemoryStore;

/// Passes everything on, and loses answers.
pub struct Forgetful {
    inner: Arc<MemoryStore>,
    lost: AtomicU32,
    full: AtomicBool,
    writes: AtomicU32,
}

impl Forgetful {
    pub fn new(inner: Arc<MemoryStore>) -> Self {
        Self { inner, lost: AtomicU32::new(0), full: AtomicBool::new(false), writes: AtomicU32::new(0) }
    }

    /// The next so many writes are done, and nobody hears of it.
    pub fn lose(&self, answers: u32) {
        self.lost.store(answers, Ordering::SeqCst);
    }

    /// It takes no more.
    pub fn fill(&self) {
        self.full.store(true, Ordering::SeqCst);
    }

    /// How often it was asked to write.
    pub fn writes(&self) -> u32 {
        self.writes.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Records for Forgetful {
    async fn write(&self, batch: RecordBatch) -> Result<BatchAnswer, StoreError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        if self.full.load(Ordering::SeqCst) {
            return Err(StoreError::Full("no more room".into()));
        }
        let answer = Records::write(&*self.inner, batch).await?;
        match self.lost.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)) {
            Ok(_) => Err(StoreError::Unavailable("the line was cut".into())),
            Err(_) => Ok(answer),
        }
    }

    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError> {
        self.inner.read(shelf, keys).await
    }

    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError> {
        self.inner.scan(scan).await
    }

    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError> {
        self.inner.count(shelf, prefix).await
    }
}

impl SourceDecorator for Forgetful {
    fn source(&self) -> &dyn Source {
        &*self.inner
    }
}

impl StoreDecorator for Forgetful {
    fn store(&self) -> &dyn Store {
        &*self.inner
    }

    fn records(&self) -> Result<&dyn Records, StoreError> {
        Ok(self)
    }
}
