//! A store under test.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::error::StoreError;
use windlass_core::store::Store;

use crate::clock::FakeClock;

/// A place where one store keeps its data: a temporary folder, a database of
/// its own. It is gone when the subject is dropped.
#[async_trait]
pub trait Subject: Sized + Send + Sync + 'static {
    /// The store's name, for messages.
    const NAME: &'static str;
    /// Whether several processes may have it open at once.
    const SHARED: bool;
    /// Whether each change writes the whole store, so that it costs what is stored.
    const REWRITES: bool = false;

    /// Whether its history can be cut, by [`Subject::cut`].
    const CUTS: bool = false;

    /// An empty place whose stores run on `clock`.
    async fn create(clock: FakeClock) -> Self;

    /// Opens the store. May be called again: after the stores before were
    /// dropped (a restart), or, when [`Subject::SHARED`], beside them.
    async fn open(&self) -> Result<Arc<dyn Store>, StoreError>;

    /// Cuts the history of the store, as a restore does: the next that is opened begins a new epoch. None is open.
    async fn cut(&self) {}

    /// Makes the place empty again, faster than creating a new one. Stores
    /// that are open stay open and see an empty store.
    async fn wipe(&self);
}
