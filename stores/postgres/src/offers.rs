//! Claims of idle workers of this program, for the enqueue that brings their work.

use std::sync::{Mutex, PoisonError};

use windlass_core::store::{Offer, OfferFn};

#[derive(Default)]
pub(crate) struct Offers(Mutex<Vec<OfferFn>>);

impl Offers {
    pub(crate) fn register(&self, offer: OfferFn) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(offer);
    }

    /// The claim of the first worker that stands by.
    pub(crate) fn take(&self) -> Option<Offer> {
        let offers = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        offers.iter().find_map(|offer| offer())
    }
}
