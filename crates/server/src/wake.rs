//! One registration at the store wakes those in the server who wait for such work.

use std::sync::Arc;

use tokio::sync::{Notify, watch};
use windlass_engine::core::id::QueueName;
use windlass_engine::core::store::Store;
use windlass_engine::core::wake::{Registered, Registration, Work};

/// Those who wait.
pub(crate) struct Wake {
    /// Counts the wakes.
    count: Arc<watch::Sender<u64>>,
    waiting: Registered<Waiting>,
    _registration: Registration,
}

struct Waiting {
    queues: Vec<QueueName>,
    woken: Notify,
}

/// One who waits for work in some queues.
pub(crate) struct Waiter {
    waiting: Arc<Waiting>,
    _registration: Registration,
}

impl Waiter {
    /// Comes when there is work that nobody was told of since this came last.
    pub(crate) async fn woken(&self) {
        self.waiting.woken.notified().await;
    }
}

impl Wake {
    /// Registers at the store, until it is dropped.
    pub(crate) fn on(store: &dyn Store) -> Arc<Self> {
        let (count, waiting) = (Arc::new(watch::Sender::new(0)), Registered::<Waiting>::default());
        let registration = store.on_work(Arc::new({
            let (count, waiting) = (count.clone(), waiting.clone());
            move |work: &Work| {
                count.send_modify(|count| *count += 1);
                for one in waiting.all().iter().filter(|one| work.concerns(&one.queues)) {
                    one.woken.notify_one();
                }
            }
        }));
        Arc::new(Self { count, waiting, _registration: registration })
    }

    /// Sees every wake from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    /// Waits for work in these queues.
    pub(crate) fn wait_for(&self, queues: &[QueueName]) -> Waiter {
        let waiting = Arc::new(Waiting { queues: queues.to_vec(), woken: Notify::new() });
        Waiter { _registration: self.waiting.add(waiting.clone()), waiting }
    }
}
