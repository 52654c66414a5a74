//! The jobs that run, as far as events tell: as long as there are any, somebody may wait for the end of one.

use std::collections::HashSet;

use windlass_engine::core::event::{Event, What};
use windlass_engine::core::id::JobId;

/// So many are known at most; there are then surely some.
const KNOWN_MAX: usize = 10_000;

/// The jobs that run. What it does not know makes an event late, and nothing else.
#[derive(Default)]
pub(super) struct Ongoing(HashSet<JobId>);

impl Ongoing {
    /// Begins with these.
    pub(super) fn begin(&mut self, running: impl Iterator<Item = JobId>) {
        self.0 = running.take(KNOWN_MAX).collect();
    }

    pub(super) fn hear(&mut self, event: &Event) {
        match event.what {
            What::Claimed => self.0.extend(event.jobs.iter().take(KNOWN_MAX.saturating_sub(self.0.len()))),
            What::Enqueued | What::CancelRequested | What::Retried | What::MadeDue | What::Acted => {}
            What::Completed
            | What::Retrying
            | What::Failed
            | What::Crashed
            | What::Released
            | What::Parked
            | What::Canceled
            | What::Deleted => {
                for job in &event.jobs {
                    self.0.remove(job);
                }
            }
        }
    }

    pub(super) fn is_any(&self) -> bool {
        !self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;
    use windlass_engine::core::event::Position;
    use windlass_engine::core::id::QueueName;
    use windlass_engine::core::time::Time;

    use super::*;

    fn id(n: u128) -> JobId {
        JobId(Uuid::from_u128(n))
    }

    #[test]
    fn jobs_run_from_their_claim_to_whatever_ends_the_attempt() {
        let mut ongoing = Ongoing::default();
        let mut any_after = |what: What, jobs: &[u128]| {
            let jobs = jobs.iter().map(|n| id(*n)).collect();
            let position = Position { epoch: 0, place: 0 };
            ongoing.hear(&Event {
                position,
                at: Time::MIN,
                what,
                queue: QueueName::default(),
                jobs,
                action: None,
            });
            ongoing.is_any()
        };
        assert!(!any_after(What::Enqueued, &[1, 2, 3]));
        assert!(any_after(What::Claimed, &[1, 2]));
        assert!(any_after(What::Canceled, &[3]), "one that was queued");
        assert!(any_after(What::CancelRequested, &[1]) && any_after(What::Completed, &[1]));
        assert!(!any_after(What::Crashed, &[2]));
        let many: Vec<u128> = (0..20_000).collect();
        assert!(any_after(What::Claimed, &many) && !any_after(What::Completed, &many));
        ongoing.begin([id(7)].into_iter());
        assert!(ongoing.is_any());
    }
}
