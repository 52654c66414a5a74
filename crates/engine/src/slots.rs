//! Slots: how many jobs may run here at once, and how many do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// The slots of a worker.
pub(crate) struct Slots {
    total: usize,
    taken: AtomicUsize,
    changed: Notify,
}

impl Slots {
    pub(crate) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { total, taken: AtomicUsize::new(0), changed: Notify::new() })
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Acquire)
    }

    pub(crate) fn free(&self) -> usize {
        self.total.saturating_sub(self.taken())
    }

    pub(crate) fn take(self: &Arc<Self>) -> Slot {
        self.taken.fetch_add(1, Ordering::AcqRel);
        Slot(self.clone())
    }

    /// Says that there may be room again.
    pub(crate) fn room_made(&self) {
        self.changed.notify_one();
    }

    /// Waits until room was made since the last wait.
    pub(crate) async fn room(&self) {
        self.changed.notified().await;
    }
}

/// A slot that is taken, until it is dropped: with the last clone of the context, by the handler's own
/// end, and not when the engine gives up waiting for it. So a handler that never yields keeps its slot out
/// of use and cannot pile up.
pub(crate) struct Slot(Arc<Slots>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
        self.0.room_made();
    }
}
