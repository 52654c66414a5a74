//! The ends of messages, also of those that the table does not take as they are.

use windlass_engine::Unsettled;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::job::Start;
use windlass_engine::core::store::{LeaseRef, Settlement};
use windlass_engine::core::transition::Outcome;

use super::{Gate, is_of_the_table};
use crate::trouble::{Class, Trouble};

/// What stops the claiming when the table does not take the end of a message, and the stage that this is.
pub(super) const ENDS: (&str, &str) = ("database", "COMPLETED");
/// How long a message waits whose end was refused.
const GIVEN_BACK_MS: u64 = 5_000;

impl Gate {
    /// What is written instead of an end that the table refuses: plain words where it is the message's own fault, else that the
    /// message is given back; and when the table takes not even that, the message is held until its owner has put it right.
    pub(super) async fn end_otherwise(
        &self,
        end: &Settlement,
        refusals: u32,
        refused: &StoreError,
    ) -> Unsettled {
        if !is_of_the_table(refused) {
            return Unsettled::LetGo;
        }
        let first = refusals == 1;
        if !first && matches!(end.outcome, Outcome::Parked { .. }) {
            return self.hold(end.lease);
        }
        if first && let Some(outcome) = self.plain(end, refused) {
            return Unsettled::Instead(outcome);
        }
        if !self.state().unended.contains(&end.lease) {
            let sid = self.names.of(end.lease.job_id).unwrap_or_default();
            tracing::error!(messageSid = sid, error = %refused, "The table does not take the end of this message");
        }
        let (provider, stage) = ENDS;
        self.close(&Trouble::new(Class::Configuration, provider, "end_refused"), Some(stage)).await;
        Unsettled::Instead(Outcome::Parked { until: Start::AfterMs(GIVEN_BACK_MS) })
    }

    /// Nothing can be written about this attempt. Its lease is kept: running out it would count as a crash. A worker
    /// that is told to end does not wait.
    fn hold(&self, lease: LeaseRef) -> Unsettled {
        let mut state = self.state();
        if state.ending {
            state.unended.remove(&lease);
            return Unsettled::LetGo;
        }
        state.unended.insert(lease);
        Unsettled::Hold
    }

    /// What may be written instead of an end that was refused, when that is the message's own affair.
    fn plain(&self, one: &Settlement, refused: &StoreError) -> Option<Outcome> {
        let reason = |class| Trouble::new(class, "database", "refused").to_string();
        match &one.outcome {
            // A word that a constraint does not know, a text that is too long.
            Outcome::Failed { .. } | Outcome::Canceled => {
                Some(Outcome::Failed { error: reason(Class::Permanent) })
            }
            Outcome::Retry { when, .. } => {
                Some(Outcome::Retry { error: reason(Class::Transient), when: *when })
            }
            // Nothing of a good end is of this message alone. It has failed if others end well all the same.
            Outcome::Completed { .. } if matches!(refused, StoreError::Broken(_)) => {
                let (provider, stage) = ENDS;
                let trouble = Trouble::new(Class::Configuration, provider, "end_refused");
                let its_own = self.is_its_own(one.lease.job_id, &trouble, stage);
                its_own.then(|| Outcome::Failed { error: reason(Class::Permanent) })
            }
            Outcome::Completed { .. } | Outcome::Parked { .. } | Outcome::Released => None,
        }
    }
}
