//! The ends of messages, also of those that the table does not take as they are.

use windlass_engine::core::error::StoreError;
use windlass_engine::core::job::Start;
use windlass_engine::core::store::{LeaseRef, Settlement, Written};
use windlass_engine::core::transition::Outcome;

use super::{Gate, is_of_the_table};
use crate::trouble::{Class, Trouble};

/// What stops the claiming when the table does not take the end of a message, and the stage that this is.
pub(super) const ENDS: (&str, &str) = ("database", "COMPLETED");
/// How long a message waits whose end was refused.
const GIVEN_BACK_MS: u64 = 5_000;

impl Gate {
    /// One of these ends is nothing that the table takes. Each by itself, so that the others end as they should.
    ///
    /// When one cannot be written in any form the whole batch comes again, and its leases are kept meanwhile: what has
    /// ended of it is remembered.
    pub(super) async fn settle_each(&self, settlements: Vec<Settlement>) -> Result<Vec<Written>, StoreError> {
        let mut answers = Vec::with_capacity(settlements.len());
        let mut open: Option<StoreError> = None;
        for one in settlements {
            let lease = one.lease;
            let known = self.state().ended.get(&lease).copied();
            let answer = match known {
                Some(written) => Ok(written),
                None => self.settle_one(one).await,
            };
            match answer {
                Ok(written) => {
                    self.state().ended.insert(lease, written);
                    answers.push(written);
                }
                Err(error) => open = Some(open.filter(StoreError::is_transient).unwrap_or(error)),
            }
        }
        if !open.as_ref().is_some_and(StoreError::is_transient) {
            self.state().ended.clear();
        }
        open.map_or(Ok(answers), Err)
    }

    /// Writes an end: as it is, else in plain words where it is the message's own fault, else that the message is given
    /// back; and when the table takes not even that, the message is held until its owner has put it right.
    async fn settle_one(&self, mut one: Settlement) -> Result<Written, StoreError> {
        let mut answer = self.write_end(&one).await;
        if let Err(refused) = &answer
            && let Some(outcome) = self.plain(&one, refused)
        {
            one.outcome = outcome;
            answer = self.write_end(&one).await;
        }
        let refused = match answer {
            Err(error) if is_of_the_table(&error) => error,
            answer => return answer,
        };
        if !self.state().unended.contains(&one.lease) {
            let sid = self.names.of(one.lease.job_id).unwrap_or_default();
            tracing::error!(messageSid = sid, error = %refused, "The table does not take the end of this message");
        }
        let (provider, stage) = ENDS;
        self.close(&Trouble::new(Class::Configuration, provider, "end_refused"), Some(stage)).await;
        one.outcome = Outcome::Parked { until: Start::AfterMs(GIVEN_BACK_MS) };
        match self.write_end(&one).await {
            Err(error) if is_of_the_table(&error) => self.hold(one.lease, &error),
            answer => answer,
        }
    }

    async fn write_end(&self, one: &Settlement) -> Result<Written, StoreError> {
        let written = self.source.settle(vec![one.clone()]).await?;
        let written = written.first().copied().unwrap_or(Written::Lost);
        self.state().unended.remove(&one.lease);
        self.note_settled(one, written).await;
        Ok(written)
    }

    /// Nothing can be written about this attempt. Its lease is kept: running out it would count as a crash. A worker
    /// that is told to end does not wait.
    fn hold(&self, lease: LeaseRef, error: &StoreError) -> Result<Written, StoreError> {
        let mut state = self.state();
        if state.ending {
            state.unended.remove(&lease);
            return Ok(Written::Lost);
        }
        state.unended.insert(lease);
        Err(StoreError::Unavailable(format!("a message is held until the table takes its end: {error}")))
    }

    /// What may be written instead of an end that was refused, when that is the message's own affair.
    fn plain(&self, one: &Settlement, refused: &StoreError) -> Option<Outcome> {
        let reason = |class| Trouble::new(class, "database", "refused").to_string();
        if !is_of_the_table(refused) {
            return None;
        }
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
