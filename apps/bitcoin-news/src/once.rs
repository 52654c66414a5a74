//! One run of the processor: so many articles, and then the end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_engine::core::store::{
    ClaimAnswer, ClaimRequest, Expired, LeaseRef, ProgressWrite, RenewAnswer, Settlement, Source, Spent,
    StepWrite, Store, WakeFn, Written,
};
use windlass_engine::core::wake::Registration;
use windlass_engine::{BudgetName, JobId, StoreError};

/// A source that gives so many leases and no more. It is drained when all of them are settled and there is no
/// other to be had.
pub struct Once {
    store: Arc<dyn Store>,
    state: Mutex<State>,
    drained: watch::Sender<bool>,
}

struct State {
    left: u32,
    held: usize,
    dry: bool,
}

impl Once {
    /// At most `count` articles of a store.
    pub fn new(store: Arc<dyn Store>, count: usize) -> Arc<Self> {
        let left = u32::try_from(count).unwrap_or(u32::MAX);
        let state = Mutex::new(State { left, held: 0, dry: false });
        Arc::new(Self { store, state, drained: watch::Sender::new(false) })
    }

    /// Waits until it is drained.
    pub async fn drained(self: Arc<Self>) {
        let mut drained = self.drained.subscribe();
        // The sender lives as long as this.
        let _ = drained.wait_for(|drained| *drained).await;
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        if state.held == 0 && (state.left == 0 || state.dry) {
            self.drained.send_replace(true);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Source for Once {
    async fn claim(&self, mut request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        request.limit = request.limit.min(self.state().left);
        if request.limit == 0 {
            return Ok(ClaimAnswer::default());
        }
        let answer = self.store.claim(request).await?;
        let given = answer.leases.len();
        self.change(|state| {
            state.left = state.left.saturating_sub(u32::try_from(given).unwrap_or(u32::MAX));
            state.held += given;
            state.dry = given == 0;
        });
        Ok(answer)
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        self.store.renew(leases).await
    }

    async fn cancels(&self, leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        self.store.cancels(leases).await
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        self.store.store_steps(steps).await
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        self.store.progress(reports).await
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        let count = settlements.len();
        let written = self.store.settle(settlements).await?;
        self.change(|state| state.held = state.held.saturating_sub(count));
        Ok(written)
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        self.store.expire().await
    }

    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError> {
        self.store.spend(budget, amount).await
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        self.store.cool_down(budget, for_ms).await
    }

    fn on_work(&self, wake: WakeFn) -> Registration {
        self.store.on_work(wake)
    }
}
