//! Who wants to hear of new work.

use std::sync::{Mutex, PoisonError};

use windlass_core::store::WakeFn;

/// The callbacks of the workers in this process.
#[derive(Default)]
pub struct Wakers(Mutex<Vec<WakeFn>>);

impl Wakers {
    /// Adds one.
    pub fn add(&self, wake: WakeFn) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }

    /// Calls all of them. They are called outside the lock: one may add another.
    pub fn wake(&self) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for wake in all {
            wake();
        }
    }
}
