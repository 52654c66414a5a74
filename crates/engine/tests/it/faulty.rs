//! A source that fails when it is told to.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_engine::core::decorate::SourceDecorator;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::{BudgetName, JobId};
use windlass_engine::core::store::{
    Capabilities, ClaimAnswer, ClaimRequest, Expired, LeaseRef, OfferFn, ProgressWrite, RenewAnswer,
    Settlement, Source, Spent, StepWrite, Written,
};
use windlass_engine::core::wake::Registration;
use windlass_engine::testing::TestWorld;

/// Passes everything on, and fails as its switches say.
pub struct Faulty {
    inner: Arc<dyn Source>,
    /// Nothing gets through.
    pub cut_off: AtomicBool,
    /// So many answers are lost after the store has acted.
    pub swallow: AtomicU32,
    /// So many claims are not carried out until somebody says so; whoever asked hears nothing of it.
    pub put_off: AtomicU32,
    /// Those that were.
    pub later: Mutex<Vec<ClaimRequest>>,
    /// So many settlements do not get through.
    pub refuses_ends: AtomicU32,
    /// Renewals hang.
    pub hang_renewals: AtomicBool,
    /// Renewals take so long, in this world.
    pub slow_renewals: Mutex<Option<(TestWorld, u64)>>,
    /// The claims that came.
    pub claims: Mutex<Vec<ClaimRequest>>,
    /// How many claims are worth having under way at once.
    pub claims_at_once: AtomicUsize,
    /// How many were, and how many are.
    pub claims_together: AtomicUsize,
    claiming: AtomicUsize,
    /// How many settlements came in each call.
    pub settles: Mutex<Vec<usize>>,
    /// A settlement of this job cannot be stored, nor can any that comes with it.
    pub unfit: Mutex<Option<JobId>>,
    /// Claims are refused for good.
    pub refuses_claims: AtomicBool,
    /// How many renewals came.
    pub renewals: AtomicU32,
    /// How often cancels were asked for.
    pub cancels: AtomicU32,
    /// Steps and renewals share one connection, which stands still while this says so.
    pub frozen: watch::Sender<bool>,
    connection: tokio::sync::Mutex<()>,
    /// The answer to a claim takes so long, in this world.
    pub late: Mutex<Option<(TestWorld, Duration)>>,
}

impl Faulty {
    pub fn new(inner: Arc<dyn Source>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            cut_off: AtomicBool::new(false),
            swallow: AtomicU32::new(0),
            put_off: AtomicU32::new(0),
            slow_renewals: Mutex::new(None),
            later: Mutex::default(),
            refuses_ends: AtomicU32::new(0),
            hang_renewals: AtomicBool::new(false),
            claims: Mutex::default(),
            claims_at_once: AtomicUsize::new(1),
            claims_together: AtomicUsize::new(0),
            claiming: AtomicUsize::new(0),
            settles: Mutex::default(),
            unfit: Mutex::default(),
            refuses_claims: AtomicBool::new(false),
            renewals: AtomicU32::new(0),
            cancels: AtomicU32::new(0),
            frozen: watch::Sender::new(false),
            connection: tokio::sync::Mutex::default(),
            late: Mutex::default(),
        })
    }

    /// Long enough for another claim to come.
    async fn stay_a_while(&self) {
        let claiming = self.claiming.fetch_add(1, Ordering::SeqCst) + 1;
        self.claims_together.fetch_max(claiming, Ordering::SeqCst);
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        self.claiming.fetch_sub(1, Ordering::SeqCst);
    }

    /// Carries out what was put off; nobody hears the answers.
    pub async fn carry_out(&self) -> usize {
        let later = std::mem::take(&mut *self.later.lock().unwrap());
        let mut leases = 0;
        for request in later {
            leases += self.inner.claim(request).await.unwrap().leases.len();
        }
        leases
    }

    /// The connection, once it has moved.
    async fn connected(&self) -> tokio::sync::MutexGuard<'_, ()> {
        let connection = self.connection.lock().await;
        let _ = self.frozen.subscribe().wait_for(|frozen| !frozen).await;
        connection
    }

    fn reach(&self) -> Result<(), StoreError> {
        match self.cut_off.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("the line is cut".into())),
            false => Ok(()),
        }
    }

    fn answer<T>(&self, answer: T) -> Result<T, StoreError> {
        let lost = self.swallow.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        self.reach()?;
        match lost {
            Ok(_) => Err(StoreError::Unavailable("the answer was lost".into())),
            Err(_) => Ok(answer),
        }
    }
}

#[async_trait]
impl SourceDecorator for Faulty {
    fn source(&self) -> &dyn Source {
        &*self.inner
    }

    /// Workers of these tests ask, and claim for themselves.
    fn capabilities(&self) -> Capabilities {
        let Capabilities { tells: _, claims_at_once: _, shares_commits } = self.inner.capabilities();
        Capabilities {
            tells: false,
            claims_at_once: self.claims_at_once.load(Ordering::SeqCst),
            shares_commits,
        }
    }

    fn on_commit(&self, _: OfferFn) -> Registration {
        Registration::none()
    }

    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        self.reach()?;
        if self.refuses_claims.load(Ordering::SeqCst) {
            return Err(StoreError::Broken("no claim fits".into()));
        }
        self.claims.lock().unwrap().push(request.clone());
        if self.put_off.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok() {
            self.later.lock().unwrap().push(request);
            return Err(StoreError::Unavailable("the server stands still".into()));
        }
        if self.claims_at_once.load(Ordering::SeqCst) > 1 {
            self.stay_a_while().await;
        }
        let answer = self.inner.claim(request).await?;
        let late = self.late.lock().unwrap().clone();
        if let Some((world, time)) = late {
            world.advance(time).await;
        }
        if answer.leases.is_empty() { Ok(answer) } else { self.answer(answer) }
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        if self.hang_renewals.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        self.reach()?;
        let slow = self.slow_renewals.lock().unwrap().clone();
        if let Some((world, ms)) = slow {
            windlass_engine::world::World::sleep_ms(&world, ms).await;
        }
        let _connection = self.connected().await;
        self.renewals.fetch_add(1, Ordering::SeqCst);
        let answer = self.inner.renew(leases).await?;
        self.answer(answer)
    }

    async fn cancels(&self, leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        self.reach()?;
        self.cancels.fetch_add(1, Ordering::SeqCst);
        // Not by a renewal: the tests count and block those.
        let _ = leases;
        Ok(Vec::new())
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        self.reach()?;
        let _connection = self.connected().await;
        let answer = self.inner.store_steps(steps).await?;
        self.answer(answer)
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        self.reach()?;
        let answer = self.inner.progress(reports).await?;
        self.answer(answer)
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        let refused =
            self.refuses_ends.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1));
        if refused.is_ok() {
            return Err(StoreError::Unavailable("the line is cut".into()));
        }
        self.reach()?;
        self.settles.lock().unwrap().push(settlements.len());
        let unfit = *self.unfit.lock().unwrap();
        if settlements.iter().any(|one| Some(one.lease.job_id) == unfit) {
            return Err(StoreError::Unfit("no statement can hold this".into()));
        }
        let answer = self.inner.settle(settlements).await?;
        self.answer(answer)
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        self.reach()?;
        self.inner.expire().await
    }

    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError> {
        self.reach()?;
        self.inner.spend(budget, amount).await
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        self.reach()?;
        self.inner.cool_down(budget, for_ms).await
    }
}
