//! What a worker writes: touches, steps, progress and ends, as Agenda would show them.

use mongodb::bson::{Bson, DateTime};
use windlass_core::error::StoreError;
use windlass_core::job::{Start, bounded_error};
use windlass_core::step::STEPS_MAX;
use windlass_core::store::{LeaseRef, ProgressWrite, RenewAnswer, Settlement, StepWrite, Written};
use windlass_core::transition::Outcome;

use super::codec::bson;
use super::edit::{Found, Held};
use super::lease::{KEPT_MS, Lease, SETTLED_MS, Stored};
use super::repeat::plus_ms;
use super::source::AgendaRows;

impl AgendaRows {
    pub(super) async fn touch(&self, leases: &[LeaseRef]) -> Result<RenewAnswer, StoreError> {
        let touched = self
            .edit(leases, &|_, found, _| match found {
                Found::Held(held) => {
                    held.touch();
                    Written::Done
                }
                Found::Settled(_) | Found::Lost => Written::Lost,
            })
            .await?;
        let mut answer = RenewAnswer::default();
        for (lease, written) in leases.iter().zip(touched) {
            match written {
                Written::Done => answer.renewed.push(lease.job_id),
                Written::Lost | Written::TooManySteps => answer.lost.push(lease.job_id),
            }
        }
        Ok(answer)
    }

    /// The first output of a name stays for ever.
    pub(super) async fn keep_steps(&self, steps: &[StepWrite]) -> Result<Vec<Written>, StoreError> {
        let leases: Vec<LeaseRef> = steps.iter().map(|step| step.lease).collect();
        self.edit(&leases, &|at, found, now| {
            let Found::Held(held) = found else { return Written::Lost };
            let (lease, name) = (&mut held.lease, steps[at].name.as_str());
            if lease.steps.iter().any(|step| step.name == name) {
                return Written::Done;
            }
            if lease.steps.len() >= STEPS_MAX {
                return Written::TooManySteps;
            }
            let output = steps[at].output.as_str().to_owned();
            lease.steps.push(Stored { name: name.to_owned(), output, attempt: lease.attempt, at: now });
            lease.crashes = 0;
            held.touch();
            Written::Done
        })
        .await
    }

    pub(super) async fn show_progress(&self, reports: &[ProgressWrite]) -> Result<Vec<Written>, StoreError> {
        let leases: Vec<LeaseRef> = reports.iter().map(|report| report.lease).collect();
        self.edit(&leases, &|at, found, _| {
            let Found::Held(held) = found else { return Written::Lost };
            held.write("progress", bson(&reports[at].progress));
            Written::Done
        })
        .await
    }

    pub(super) async fn end(&self, settlements: &[Settlement]) -> Result<Vec<Written>, StoreError> {
        let leases: Vec<LeaseRef> = settlements.iter().map(|settlement| settlement.lease).collect();
        self.edit(&leases, &|at, found, now| {
            let outcome = &settlements[at].outcome;
            match found {
                Found::Held(held) => {
                    self.write_end(held, outcome, now);
                    Written::Done
                }
                // Asked again, since the answer was lost.
                Found::Settled(lease) if lease.outcome.as_deref() == Some(outcome.word()) => Written::Done,
                Found::Settled(_) | Found::Lost => Written::Lost,
            }
        })
        .await
    }

    fn write_end(&self, held: &mut Held, outcome: &Outcome, now: DateTime) {
        held.write("lockedAt", Bson::Null);
        match outcome {
            Outcome::Completed { result } => {
                held.write("lastFinishedAt", now);
                if fail_count(held) > 0 {
                    // As Agenda 6 does, so that its back-off begins anew.
                    held.write("failCount", 0);
                }
                if let Some(result) =
                    result.as_ref().filter(|_| held.row.get_bool("shouldSaveResult").unwrap_or(false))
                {
                    held.write("result", bson(result));
                }
                over(&mut held.lease, outcome, now);
            }
            Outcome::Failed { error } => self.write_failure(held, error, now, outcome, None),
            Outcome::Canceled => self.write_failure(held, "canceled", now, outcome, None),
            Outcome::Retry { error, when } => {
                let delay_ms = self.options.retry.delay_ms(held.lease.attempt.max(0) as u32);
                let again = delay_ms.map(|delay_ms| moment(when.unwrap_or(Start::AfterMs(delay_ms)), now));
                self.write_failure(held, error, now, outcome, again);
            }
            Outcome::Parked { until } => give_back(held, outcome, moment(*until, now), now),
            Outcome::Released => give_back(held, outcome, held.lease.due_at.unwrap_or(now), now),
        }
    }

    /// `failedAt` and `lastFinishedAt` are the same moment: by that Agendash knows a failure.
    fn write_failure(
        &self,
        held: &mut Held,
        error: &str,
        now: DateTime,
        outcome: &Outcome,
        again: Option<DateTime>,
    ) {
        let failures = fail_count(held).saturating_add(1);
        held.write("failReason", bounded_error(error));
        held.write("failCount", failures);
        held.write("failedAt", now);
        held.write("lastFinishedAt", now);
        match again {
            Some(at) => {
                held.write("nextRunAt", at);
                ended(&mut held.lease, outcome, plus_ms(now, KEPT_MS));
            }
            None => over(&mut held.lease, outcome, now),
        }
    }
}

/// Back into the collection, as if it had not been run.
fn give_back(held: &mut Held, outcome: &Outcome, next_run_at: DateTime, now: DateTime) {
    held.write("nextRunAt", next_run_at);
    held.lease.attempt = held.lease.attempt.saturating_sub(1);
    ended(&mut held.lease, outcome, plus_ms(now, KEPT_MS));
}

fn over(lease: &mut Lease, outcome: &Outcome, now: DateTime) {
    lease.over = true;
    lease.steps.clear();
    ended(lease, outcome, plus_ms(now, SETTLED_MS));
}

fn ended(lease: &mut Lease, outcome: &Outcome, expire_at: DateTime) {
    lease.held = false;
    lease.key = None;
    lease.outcome = Some(outcome.word().to_owned());
    lease.expire_at = expire_at;
}

fn moment(start: Start, now: DateTime) -> DateTime {
    DateTime::from_millis(start.moment(super::codec::time(now)).ms())
}

fn fail_count(held: &Held) -> i32 {
    match held.row.get("failCount") {
        Some(Bson::Int32(count)) => *count,
        Some(Bson::Int64(count)) => i32::try_from(*count).unwrap_or(i32::MAX),
        Some(Bson::Double(count)) => *count as i32,
        _ => 0,
    }
}
