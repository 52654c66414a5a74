//! Who wants to hear of new work.

use windlass_core::store::{Offer, OfferFns, WakeFns};
use windlass_core::wake::Work;

/// The callbacks of the workers in this process.
#[derive(Default)]
pub struct Wakers {
    /// Called after a commit.
    pub wakes: WakeFns,
    /// These may claim inside of a commit.
    pub offers: OfferFns,
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
