//! What workers ask for.

use async_trait::async_trait;
use windlass_core::error::StoreError;
use windlass_core::id::{BudgetName, JobId};
use windlass_core::store::{
    Capabilities, ClaimAnswer, ClaimRequest, Expired, LeaseRef, OfferFn, ProgressWrite, RenewAnswer,
    Settlement, Source, Spent, StepWrite, WakeFn, Written,
};
use windlass_core::wake::{Registration, Work};

use crate::journal::op::{Answer, Op, Report, Settled, Step};
use crate::store::MongoStore;
use crate::verbs::answered;

#[async_trait]
impl Source for MongoStore {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        answered!(self.change(Op::Claim(request), None).await?, Answer::Claimed)
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        answered!(self.change(Op::Renew(leases), None).await?, Answer::Renewed)
    }

    async fn cancels(&self, leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        self.look(|book, _| book.cancels(&leases)).await
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        let steps = steps.into_iter().map(Step).collect();
        answered!(self.change(Op::Steps(steps), None).await?, Answer::Written)
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        let reports = reports.into_iter().map(Report).collect();
        answered!(self.change(Op::Progress(reports), None).await?, Answer::Written)
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        let ends = settlements.into_iter().map(Settled).collect();
        answered!(self.change(Op::Settle(ends), Some(Work::Anywhere)).await?, Answer::Written)
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        answered!(self.change(Op::Expire, Some(Work::Anywhere)).await?, Answer::Expired)
    }

    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError> {
        answered!(self.change(Op::Spend(budget, amount), None).await?, Answer::Spent)
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        self.change(Op::CoolDown(budget, for_ms), None).await?;
        Ok(())
    }

    fn on_work(&self, wake: WakeFn) -> Registration {
        self.shared.wakes.add(wake)
    }

    fn on_commit(&self, _: OfferFn) -> Registration {
        Registration::none()
    }

    /// Calls that come at the same time share an entry.
    fn capabilities(&self) -> Capabilities {
        Capabilities { tells: false, claims_at_once: 1, shares_commits: true }
    }
}
