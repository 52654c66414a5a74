//! Claims of idle workers of this program, for the enqueue that brings their work.

use windlass_core::store::{Offer, OfferFns};
use windlass_core::wake::Work;

#[derive(Default)]
pub(crate) struct Offers(pub(crate) OfferFns);

impl Offers {
    /// The claim of the first worker that stands by for such work.
    pub(crate) fn take(&self, work: &Work) -> Option<Offer> {
        self.0.all().iter().find_map(|offer| offer(work))
    }
}
