//! Who wants to hear of new work.

use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::store::{Offer, OfferFn, WakeFn};

/// The callbacks of the workers in this process.
#[derive(Default)]
pub struct Wakers {
    wakes: Mutex<Vec<WakeFn>>,
    offers: Mutex<Vec<OfferFn>>,
}

impl Wakers {
    /// Adds one that is called after a commit.
    pub fn add(&self, wake: WakeFn) {
        lock(&self.wakes).push(wake);
    }

    /// Adds one that may claim inside of a commit.
    pub fn add_offer(&self, offer: OfferFn) {
        lock(&self.offers).push(offer);
    }

    /// Calls all of them. They are called outside the lock: one may add another.
    pub fn wake(&self) {
        let all = lock(&self.wakes).clone();
        for wake in all {
            wake();
        }
    }

    /// The claims of those who wait for work.
    pub fn offers(&self) -> Vec<Offer> {
        let all = lock(&self.offers).clone();
        all.iter().filter_map(|offer| offer()).collect()
    }
}

fn lock<T>(list: &Mutex<T>) -> MutexGuard<'_, T> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}
