//! The gate before the source: nothing is claimed while the operator has to
//! act. One message is let through from time to time, to see whether it is over.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use serde::Deserialize;
use windlass::core::error::StoreError;
use windlass::core::id::{BudgetName, JobId};
use windlass::core::store::{
    ClaimAnswer, ClaimRequest, Expired, LeaseRef, ProgressWrite, RenewAnswer, Settlement, Source, Spent,
    StepWrite, WakeFn, Written,
};
use windlass::core::transition::Outcome;
use windlass::world::World;

use crate::meter::Meter;
use crate::together::Together;
use crate::trouble::{Class, Trouble};

/// How long nothing is claimed before one message is tried, at first and at most.
const REST_MS: std::ops::RangeInclusive<u64> = 60_000..=900_000;

/// The gate.
pub(crate) struct Gate {
    source: Arc<dyn Source>,
    together: Together,
    world: Arc<dyn World>,
    meter: Arc<Meter>,
    /// By provider: why nothing is claimed.
    closed: Mutex<BTreeMap<&'static str, Closed>>,
    /// The messages that are held, for the log.
    held: Mutex<HashMap<JobId, String>>,
}

#[derive(Debug, Clone)]
struct Closed {
    why: String,
    rest_ms: u64,
    /// Since the start of the machine.
    until_ms: u64,
}

impl Gate {
    pub(crate) fn new(source: Arc<dyn Source>, world: Arc<dyn World>, meter: Arc<Meter>) -> Arc<Self> {
        let together = Together::new(source.clone());
        Arc::new(Self { source, together, world, meter, closed: Mutex::default(), held: Mutex::default() })
    }

    /// Nothing more is claimed: the operator has to act.
    pub(crate) fn close(&self, trouble: &Trouble) {
        let now_ms = self.world.boot_ms();
        let mut closed = self.closed();
        let known = closed.get(trouble.provider);
        if known.is_some_and(|closed| now_ms < closed.until_ms) {
            return;
        }
        let rest_ms = known.map_or(*REST_MS.start(), |closed| (closed.rest_ms * 2).min(*REST_MS.end()));
        let why = trouble.to_string();
        tracing::error!(
            reason = why,
            provider = trouble.provider,
            tryAgainMs = rest_ms,
            "Claiming stopped: the operator must act; check the credentials, the account and its quota"
        );
        closed.insert(trouble.provider, Closed { why, rest_ms, until_ms: now_ms + rest_ms });
    }

    /// A provider has done its work: whatever was wrong with it is over.
    pub(crate) fn open(&self, provider: &str) {
        if self.closed().remove(provider).is_some() {
            tracing::info!(provider, "Claiming goes on");
        }
    }

    /// Why nothing is claimed, if that is so.
    pub(crate) fn why_closed(&self) -> Option<String> {
        self.closed().values().next().map(|closed| closed.why.clone())
    }

    /// How many may be claimed: all that are asked for, one to try, or none.
    fn let_through(&self, wanted: u32) -> u32 {
        let now_ms = self.world.boot_ms();
        let mut closed = self.closed();
        if closed.values().any(|closed| now_ms < closed.until_ms) {
            return 0;
        }
        for one in closed.values_mut() {
            one.until_ms = now_ms + one.rest_ms;
        }
        if closed.is_empty() { wanted } else { 1 }
    }

    fn closed(&self) -> MutexGuard<'_, BTreeMap<&'static str, Closed>> {
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<JobId, String>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_claimed(&self, answer: &ClaimAnswer) {
        #[derive(Deserialize)]
        struct Row {
            message_sid: String,
        }
        if answer.leases.is_empty() {
            return;
        }
        self.meter.claimed(answer.leases.len());
        tracing::info!("Claimed {} messages", answer.leases.len());
        let mut held = self.held();
        for leased in &answer.leases {
            if let Ok(row) = leased.job.spec.payload.read::<Row>() {
                held.insert(leased.job.id, row.message_sid);
            }
        }
    }

    /// One of these ends is nothing that the table takes, such as a word that a constraint does not know. It fails
    /// in plain words, and the others end as they should.
    async fn settle_each(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        let mut answers = Vec::with_capacity(settlements.len());
        for mut one in settlements {
            let mut written = self.source.settle(vec![one.clone()]).await;
            if let Err(StoreError::Broken(_) | StoreError::Unfit(_)) = written {
                let trouble = Trouble::new(Class::Permanent, "database", "refused");
                one.outcome = Outcome::Failed { error: trouble.to_string() };
                written = self.source.settle(vec![one.clone()]).await;
            }
            let written = written?.first().copied().unwrap_or(Written::Lost);
            self.note_settled(&one, written);
            answers.push(written);
        }
        Ok(answers)
    }

    fn note_settled(&self, settlement: &Settlement, written: Written) {
        let sid = self.held().remove(&settlement.lease.job_id).unwrap_or_default();
        let word = if written == Written::Done { word(&settlement.outcome) } else { "lost" };
        self.meter.outcome(word);
        match (written, &settlement.outcome) {
            (Written::Done, Outcome::Completed { .. }) => {
                tracing::info!(messageSid = sid, stage = "COMPLETED", "Stage COMPLETED complete");
            }
            (Written::Done, Outcome::Failed { error }) => {
                tracing::error!(messageSid = sid, reason = error, "Message is over without a document");
            }
            (Written::Done, Outcome::Released) => tracing::info!(messageSid = sid, "Requeued on shutdown"),
            (Written::Done, _) => tracing::debug!(messageSid = sid, outcome = word, "Attempt settled"),
            (_, _) => tracing::warn!(messageSid = sid, "Lease lost: another worker has the message"),
        }
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed { .. } => "completed",
        Outcome::Retry { .. } => "retry",
        Outcome::Failed { .. } => "failed",
        Outcome::Parked { .. } => "parked",
        Outcome::Released => "released",
        Outcome::Canceled => "canceled",
    }
}

#[async_trait]
impl Source for Gate {
    async fn claim(&self, request: ClaimRequest) -> Result<ClaimAnswer, StoreError> {
        let limit = self.let_through(request.limit);
        if limit == 0 {
            return Ok(ClaimAnswer::default());
        }
        let answer = self.source.claim(ClaimRequest { limit, ..request }).await?;
        self.note_claimed(&answer);
        Ok(answer)
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        let answers = match self.source.settle(settlements.clone()).await {
            Err(StoreError::Broken(_) | StoreError::Unfit(_)) => return self.settle_each(settlements).await,
            answers => answers?,
        };
        for (settlement, written) in settlements.iter().zip(&answers) {
            self.note_settled(settlement, *written);
        }
        Ok(answers)
    }

    async fn renew(&self, leases: Vec<LeaseRef>) -> Result<RenewAnswer, StoreError> {
        let answer = self.source.renew(leases).await?;
        for lost in &answer.lost {
            self.held().remove(lost);
        }
        Ok(answer)
    }

    async fn cancels(&self, leases: Vec<LeaseRef>) -> Result<Vec<JobId>, StoreError> {
        self.source.cancels(leases).await
    }

    async fn store_steps(&self, steps: Vec<StepWrite>) -> Result<Vec<Written>, StoreError> {
        futures::future::try_join_all(steps.into_iter().map(|step| self.together.store(step))).await
    }

    async fn progress(&self, reports: Vec<ProgressWrite>) -> Result<Vec<Written>, StoreError> {
        self.source.progress(reports).await
    }

    async fn expire(&self) -> Result<Expired, StoreError> {
        self.source.expire().await
    }

    async fn spend(&self, budget: BudgetName, amount: u32) -> Result<Spent, StoreError> {
        self.source.spend(budget, amount).await
    }

    async fn cool_down(&self, budget: BudgetName, for_ms: u64) -> Result<(), StoreError> {
        self.source.cool_down(budget, for_ms).await
    }

    fn on_work(&self, wake: WakeFn) {
        self.source.on_work(wake);
    }
}
