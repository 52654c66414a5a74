//! What the worker asks of the gate, and tells it.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::store::{Leased, Settlement, Written};
use windlass_engine::core::transition::Outcome;
use windlass_engine::{Admission, Admit, Unsettled};

use super::{Gate, LOOK_HELD_MS, Pass, STEPPED_OVER_MAX, TABLE, ends, is_of_the_table};
use crate::trouble::{Class, Trouble};

#[async_trait]
impl Admission for Gate {
    async fn admit(&self) -> Admit {
        let pass = self.pass().await;
        let mut state = self.state();
        state.asks_for_trial = matches!(pass, Pass::One);
        match pass {
            Pass::All => Admit::All,
            Pass::One => Admit::OneOf(1 + state.blamed.len().min(STEPPED_OVER_MAX) as u32),
            Pass::Nothing => Admit::Nothing { again_in: Duration::from_millis(LOOK_HELD_MS) },
        }
    }

    /// One that has not closed the gate, if there is any, since that may be refused for its own sake.
    fn choose(&self, leases: &[Leased]) -> usize {
        let state = self.state();
        leases.iter().position(|leased| !state.blamed.contains_key(&leased.job.id)).unwrap_or_default()
    }

    async fn claimed(&self, leases: &[Leased]) {
        self.open(TABLE, TABLE).await;
        let tries = {
            let mut state = self.state();
            let tries = std::mem::take(&mut state.asks_for_trial);
            if tries {
                state.trial = leases.first().map(|leased| leased.job.id);
            }
            tries
        };
        if tries && leases.is_empty() {
            self.untried().await;
        }
        self.note_claimed(leases);
    }

    /// The table is not what it was. Its owner puts that right, and then the work goes on.
    async fn unclaimed(&self, error: &StoreError) {
        if is_of_the_table(error) {
            tracing::error!(%error, "The claim does not fit the table; look with `windlass nurse-tour check`");
            self.close(&Trouble::new(Class::Configuration, TABLE, error.code()), Some(TABLE)).await;
        }
    }

    async fn settled(&self, end: &Settlement, written: Written) {
        self.state().unended.remove(&end.lease);
        self.note_settled(end, written).await;
    }

    async fn unsettled(&self, end: &Settlement, refusals: u32, error: &StoreError) -> Unsettled {
        self.end_otherwise(end, refusals, error).await
    }

    /// Whoever owns the table may put it right while the attempts wait.
    fn outlives(&self, error: &StoreError) -> bool {
        let outlives = is_of_the_table(error);
        if outlives && self.is_open() {
            tracing::warn!(%error, "The table refuses a call of this worker");
        }
        outlives
    }
}

impl Gate {
    fn note_claimed(&self, leases: &[Leased]) {
        #[derive(Deserialize)]
        struct Row {
            message_sid: String,
        }
        if leases.is_empty() {
            return;
        }
        self.meter.claimed(leases.len());
        let mut sids = Vec::new();
        for leased in leases {
            if let Ok(row) = leased.job.spec.payload.read::<Row>() {
                self.names.put(leased.job.id, &row.message_sid);
                sids.push(row.message_sid);
            }
        }
        tracing::info!(messageSids = sids.join(" "), "Claimed {} messages", leases.len());
    }

    async fn note_settled(&self, end: &Settlement, written: Written) {
        let sid = self.names.of(end.lease.job_id).unwrap_or_default();
        let word = if written == Written::Done { word(&end.outcome) } else { "lost" };
        self.meter.outcome(word);
        match (written, &end.outcome) {
            (Written::Done, Outcome::Completed { .. }) => {
                let (provider, stage) = ends::ENDS;
                self.open(provider, stage).await;
                self.tried_in_vain(end.lease.job_id);
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
