//! A store as a process sees it that is killed at its n-th operation: before that operation is done, or after it
//! and before anybody hears of it. From then on nothing is answered any more.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_engine::core::decorate::{Call, SourceDecorator, StoreDecorator};
use windlass_engine::core::id::{Label, RecordKey, ShelfName};
use windlass_engine::core::record::{BatchAnswer, Record, RecordBatch, RecordPage, Records, Scan};
use windlass_engine::core::store::OfferFn;
use windlass_engine::core::wake::Registration;
use windlass_engine::testing::MemoryStore;
use windlass_engine::{Source, Store, StoreError};

/// When a process dies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// At which operation, counted from 1.
    pub at: u64,
    /// Whether that operation is done.
    pub done: bool,
}

pub struct Dying {
    store: Arc<MemoryStore>,
    death: Option<Death>,
    count: AtomicU64,
    dead: AtomicBool,
    /// While it is so, the store does not answer.
    pub away: AtomicBool,
    /// How many records each batch wrote.
    pub writes: std::sync::Mutex<Vec<usize>>,
    died: watch::Sender<bool>,
}

impl Dying {
    pub fn new(store: Arc<MemoryStore>, death: Option<Death>) -> Arc<Self> {
        let (count, dead) = (AtomicU64::new(0), AtomicBool::new(false));
        let (away, writes) = (AtomicBool::new(false), Default::default());
        Arc::new(Self { store, death, count, dead, away, writes, died: watch::Sender::new(false) })
    }

    /// kill -9, from outside.
    pub fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    /// Waits for the death.
    pub async fn died(&self) {
        let _ = self.died.subscribe().wait_for(|died| *died).await;
    }

    async fn op<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if self.dead.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("it is away".to_owned()));
        }
        let at = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        let dies = self.death.filter(|death| death.at == at);
        if let Some(death) = dies {
            self.dead.store(true, Ordering::SeqCst);
            if death.done {
                let _ = work.await;
            }
            self.died.send_replace(true);
            std::future::pending::<()>().await;
            unreachable!();
        }
        work.await
    }
}

impl SourceDecorator for Dying {
    fn source(&self) -> &dyn Source {
        &*self.store
    }

    fn around<'a, T: Send + 'a>(&'a self, call: Call<'a, T>) -> Call<'a, T> {
        Box::pin(self.op(call))
    }

    /// Nobody claims for a process inside of the commits of others: they would do so for one that is dead.
    fn on_commit(&self, _: OfferFn) -> Registration {
        Registration::none()
    }
}

impl StoreDecorator for Dying {
    fn store(&self) -> &dyn Store {
        &*self.store
    }

    fn records(&self) -> Result<&dyn Records, StoreError> {
        Ok(self)
    }
}

#[async_trait]
impl Records for Dying {
    async fn write(&self, batch: RecordBatch) -> Result<BatchAnswer, StoreError> {
        self.writes.lock().unwrap().push(batch.writes.len());
        self.op(self.store.write(batch)).await
    }

    async fn read(&self, shelf: ShelfName, keys: Vec<RecordKey>) -> Result<Vec<Option<Record>>, StoreError> {
        self.op(self.store.read(shelf, keys)).await
    }

    async fn scan(&self, scan: Scan) -> Result<RecordPage, StoreError> {
        self.op(self.store.scan(scan)).await
    }

    async fn count(&self, shelf: ShelfName, prefix: String) -> Result<Vec<(Option<Label>, u64)>, StoreError> {
        self.op(self.store.count(shelf, prefix)).await
    }
}
