//! Where the sample runs, once somebody has started it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use windlass_engine::core::store::Store;

/// The stage of one server.
pub struct Stage {
    store: Arc<dyn Store>,
    stop: watch::Sender<bool>,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl Stage {
    /// A stage on which nothing happens yet.
    pub fn new(store: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self { store, stop: watch::Sender::new(false), running: Mutex::new(None) })
    }

    /// Starts the sample and returns at once.
    pub fn start(&self) {
        let running = tokio::spawn(super::run(self.store.clone(), self.stop.subscribe()));
        *self.running() = Some(running);
    }

    /// Ends the sample: its worker gives back what it holds.
    pub async fn end(&self) {
        self.stop.send_replace(true);
        let running = self.running().take();
        if let Some(running) = running {
            // A sample that panicked has said so already.
            let _ = running.await;
        }
    }

    fn running(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
