//! What workers ask for.

use async_trait::async_trait;
use windlass_core::error::StoreError;
use windlass_core::id::{BudgetName, JobId};
use windlass_core::store::{
    Capabilities, ClaimAnswer, ClaimRequest, Expired, LeaseRef, OfferFn, ProgressWrite, RenewAnswer,
    Settlement, Source, Spent, StepWrite, WakeFn, Written,
};
use windlass_core::wake::{Registration, Work};

use crate::desk::Change;
use crate::store::JsonStore;

#[async_trait]
impl Source for JsonStore {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        self.write(|book, now| {
            let answer = book.claim(&request, now)?;
            let changed = !answer.leases.is_empty();
            Ok(Change { answer, changed })
        })
        .await
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        self.write(|book, now| {
            let answer = book.renew(&leases, now);
            let changed = !answer.renewed.is_empty();
            Ok(Change { answer, changed })
        })
        .await
    }

    async fn cancels(&self, leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        self.read(|book, _| book.cancels(&leases))
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        self.write(|book, now| Ok(written(book.store_steps(&steps, now)))).await
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        self.write(|book, _| Ok(written(book.progress(&reports)))).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        self.write_and_wake(Work::Anywhere, |book, now| Ok(written(book.settle(&settlements, now)))).await
    }

    /// Follows the wall clock first, when that has jumped: leases and budgets
    /// move along, so that nothing ends early and nothing lives for ever.
    async fn expire(&self) -> Result<Expired, StoreError> {
        let (expired, _) = self
            .write_with(|book, timekeeper| {
                let drift = timekeeper.drift_ms(self.clock());
                if let Some(ms) = drift {
                    book.shift_clock(ms, timekeeper.now(self.clock()));
                    *timekeeper = timekeeper.stepped(ms);
                    tracing::warn!(ms, "the wall clock has jumped; the store follows");
                }
                let answer = book.expire(timekeeper.now(self.clock()));
                let changed = drift.is_some() || !answer.jobs.is_empty() || answer.marked > 0;
                Ok(Change { answer, changed })
            })
            .await?;
        if !expired.jobs.is_empty() {
            self.wake(&Work::Anywhere);
        }
        Ok(expired)
    }

    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError> {
        self.write(|book, now| {
            let answer = book.spend(&budget, amount, now);
            Ok(Change { answer, changed: answer == Spent::Granted && amount > 0 })
        })
        .await
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        self.write(|book, now| {
            book.cool_down(budget, for_ms, now);
            Ok(Change { answer: (), changed: true })
        })
        .await
    }

    fn on_work(&self, wake: WakeFn) -> Registration {
        self.wakes.add(wake)
    }

    fn on_commit(&self, _: OfferFn) -> Registration {
        Registration::none()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::PLAIN
    }
}

fn written(answer: Vec<Written>) -> Change<Vec<Written>> {
    let changed = answer.contains(&Written::Done);
    Change { answer, changed }
}
