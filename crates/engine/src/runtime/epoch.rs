//! The epoch of the store, as a worker hears of it: with every claim and every renewal.
//!
//! When it changes, the store's history may have, and whatever is held has to be renewed at once: the store counts its
//! leases from the beginning of the epoch, and may not know of some.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use uuid::Uuid;

/// What was heard.
#[derive(Default)]
pub(crate) struct Heard {
    instance: Mutex<Option<Uuid>>,
    renew_all: AtomicBool,
    turned: Notify,
}

impl Heard {
    /// Hears which instance of the store has answered. A source without epochs says nothing.
    pub(crate) fn hear(&self, instance: Option<Uuid>) {
        let Some(instance) = instance else { return };
        let before = self.instance.lock().unwrap_or_else(PoisonError::into_inner).replace(instance);
        if before.is_some_and(|before| before != instance) {
            tracing::warn!(%instance, "the store is in another epoch: it was restored, copied or failed over; renewing all leases");
            self.remind();
            self.turned.notify_one();
        }
    }

    /// Says that all leases are still to be renewed, the next time that any are. Wakes nobody: the store has just not
    /// answered, and whoever asked it waits a little before asking again.
    pub(crate) fn remind(&self) {
        self.renew_all.store(true, Ordering::Release);
    }

    /// Whether all leases are to be renewed now; once.
    pub(crate) fn renew_all(&self) -> bool {
        self.renew_all.swap(false, Ordering::AcqRel)
    }

    /// Waits until another epoch is heard of.
    pub(crate) async fn turned(&self) {
        self.turned.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn another_instance_asks_for_all_renewals_once() {
        let heard = Heard::default();
        let told = |instance| {
            heard.hear(instance);
            (heard.renew_all(), heard.renew_all())
        };
        let (one, two) = (Some(Uuid::from_u128(1)), Some(Uuid::from_u128(2)));
        assert_eq!([told(None), told(one), told(None), told(one)], [(false, false); 4]);
        assert_eq!(told(two), (true, false));
        assert_eq!(told(two), (false, false));
    }

    #[test]
    fn a_reminder_wakes_nobody() {
        let heard = Heard::default();
        heard.remind();
        assert!(heard.turned().now_or_never().is_none() && heard.renew_all());
        for instance in 1..=2 {
            heard.hear(Some(Uuid::from_u128(instance)));
        }
        assert!(heard.turned().now_or_never().is_some());
    }
}
