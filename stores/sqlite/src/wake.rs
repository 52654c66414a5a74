//! Who wants to hear of new work.

use windlass_core::store::Offer;
use windlass_core::wake::{Registered, Work};

/// The callbacks of the workers in this process.
#[derive(Default)]
pub struct Wakers {
    /// Called after a commit.
    pub wakes: Registered<dyn Fn(&Work) + Send + Sync>,
    /// These may claim inside of a commit.
    pub offers: Registered<dyn Fn(&Work) -> Option<Offer> + Send + Sync>,
}

impl Wakers {
    /// Calls all of them.
    pub fn wake(&self, work: &Work) {
        for wake in self.wakes.all() {
            wake(work);
        }
    }

    /// The claims of those who wait for such work.
    pub fn offers(&self, work: &Work) -> Vec<Offer> {
        self.offers.all().iter().filter_map(|offer| offer(work)).collect()
    }
}
