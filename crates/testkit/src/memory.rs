//! The reference store: core's own, in memory.

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;
use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::store::Store;

use crate::clock::FakeClock;
use crate::subject::Subject;

pub use windlass_core::memory::MemoryStore;

/// A book that stays while its stores come and go.
pub struct MemorySubject(pub MemoryStore);

#[async_trait]
impl Subject for MemorySubject {
    const NAME: &'static str = "memory";
    const SHARED: bool = true;
    const CUTS: bool = true;

    async fn create(clock: FakeClock) -> Self {
        Self(MemoryStore::new(Arc::new(clock)))
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        Ok(Arc::new(self.0.clone()))
    }

    async fn cut(&self) {
        cut(&self.0).await;
    }

    async fn wipe(&self) {
        *self.0.book() = Book::new();
    }
}

/// Begins a new epoch of a store in memory.
pub async fn cut(store: &MemoryStore) {
    let now = store.now().await.expect("memory answers");
    let mut book = store.book();
    let number = u128::from(book.epoch().number) + 1;
    book.turn(Uuid::from_u128(number << 96), 77, true, now);
}
