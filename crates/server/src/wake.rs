//! One registration at the store wakes everybody in the server who waits.

use std::sync::Arc;

use tokio::sync::watch;
use windlass_engine::core::store::Store;

/// Counts the wakes; those who wait watch the count.
pub(crate) struct Wake(watch::Sender<u64>);

impl Wake {
    /// Registers at the store. A store keeps what was registered for ever, so
    /// it only gets a weak hold.
    pub(crate) fn on(store: &dyn Store) -> Arc<Self> {
        let wake = Arc::new(Self(watch::Sender::new(0)));
        let weak = Arc::downgrade(&wake);
        store.on_work(Arc::new(move || {
            if let Some(wake) = weak.upgrade() {
                wake.0.send_modify(|count| *count += 1);
            }
        }));
        wake
    }

    /// Sees every wake from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
