//! A claim that is made inside of the commit that brings the work.

use windlass_core::book::claim::check;
use windlass_core::error::StoreError;
use windlass_core::store::{ClaimAnswer, Offer};

use crate::fail::Done;
use crate::run::tx::Tx;
use crate::run::writer::{Call, Sort};
use crate::verbs::claim;

/// The claim of a worker that waits for work.
pub struct Offered {
    offer: Offer,
    result: Option<Result<ClaimAnswer, StoreError>>,
}

impl Offered {
    /// As a call among the others of its commit.
    pub fn new(offer: Offer) -> Self {
        Self { offer, result: None }
    }
}

impl Call for Offered {
    fn sort(&self) -> Sort {
        Sort::Changes
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Done<()> {
        check(&self.offer.request)?;
        self.result = Some(Ok(claim::claim_anew(tx, &self.offer.request)?));
        Ok(())
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }

    fn answer(self: Box<Self>) {
        if let Some(result) = self.result {
            (self.offer.answer)(result);
        }
    }
}
