//! Claims of idle workers of this program, for the enqueue that brings their work.

use windlass_core::store::Offer;
use windlass_core::wake::{Registered, Work};

#[derive(Default)]
pub(crate) struct Offers(pub(crate) Registered<dyn Fn(&Work) -> Option<Offer> + Send + Sync>);

impl Offers {
    /// The claim of the first worker that stands by for such work.
    pub(crate) fn take(&self, work: &Work) -> Option<Offer> {
        self.0.all().iter().find_map(|offer| offer(work))
    }
}
