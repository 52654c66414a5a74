//! From the small numbers of an operation to the values of core.

use windlass_core::id::{BudgetName, JobId};
use windlass_core::job::{JobSpec, Start};
use windlass_core::policy::ladder::{Ladder, RetryRule};
use windlass_core::policy::queue::{OnCrash, QueuePolicy};
use windlass_core::policy::schedule::{Missed, Overlap, SchedulePolicy};
use windlass_core::record::{Keep, Order, Put};
use windlass_core::store::ClaimRequest;
use windlass_core::time::Time;
use windlass_core::transition::Outcome;

use super::op::{End, Ink, Lasting, Policy, Theft, Wish};
use crate::conformance::epochs::id_at;
use crate::conformance::scene::*;

/// The id of a new job: one of a caller, or one that says when it was made, by a clock that may be ahead.
pub fn id_of(now: Time, number: u128) -> JobId {
    match number % 8 {
        0 | 3 | 6 => id(number),
        7 => id_at(now.plus_ms(5_000), number),
        _ => id_at(now, number),
    }
}

pub fn ladder_of(n: u8) -> Ladder {
    ladder(["none", "0ms 1s 5s", "1s"][usize::from(n) % 3])
}

pub fn queue_of(n: u8) -> windlass_core::id::QueueName {
    queue(["a", "b", "unused"][usize::from(n) % 3])
}

pub fn kind_of(n: u8) -> windlass_core::id::Kind {
    kind(["k", "j"][usize::from(n) % 2])
}

pub fn budget_of(n: u8) -> BudgetName {
    budget(["m", "n", "undefined"][usize::from(n) % 3])
}

pub fn worker_of(n: u8) -> windlass_core::id::WorkerName {
    worker(["u", "v"][usize::from(n) % 2])
}

pub fn schedule_of(n: u8) -> windlass_core::id::ScheduleName {
    schedule(["s", "t"][usize::from(n) % 2])
}

pub fn shelf_of(n: u8) -> windlass_core::id::ShelfName {
    shelf(["s", "t"][usize::from(n) % 2])
}

pub fn record_key_of(n: u8) -> windlass_core::id::RecordKey {
    record_key(["a", "a:1", "a:2", "B", "ü"][usize::from(n) % 5])
}

pub fn prefix_of(n: u8) -> &'static str {
    ["", "a", "a:", "never"][usize::from(n) % 4]
}

pub fn label_of(n: u8) -> windlass_core::id::Label {
    record_label(["x", "y"][usize::from(n) % 2])
}

pub fn order_of(n: u8) -> Order {
    [Order::Key, Order::Sort, Order::Rev][usize::from(n) % 3]
}

pub fn put_of(ink: &Ink, now: Time) -> Put {
    let Ink { value, sort, label, keep } = ink;
    let keep = match *keep {
        Lasting::Forever => Keep::Forever,
        Lasting::For(ms) => Keep::ForMs(ms),
        Lasting::Until(ms) => Keep::Until(now.plus_ms(ms.cast_signed())),
    };
    Put { value: json(&format!("[{value}]")), sort: *sort, label: label.map(label_of), keep }
}

pub fn spec_of(wish: &Wish, number: u128) -> JobSpec {
    let Wish { queue, kind, priority, key: key_of, dedupe: dedupe_of, budgets, ladder, delay_ms: _ } = wish;
    let mut spec = JobSpec::new(kind_of(*kind), queue_of(*queue), json(&format!("{{\"n\":{number}}}")));
    spec.priority = *priority;
    spec.key = key_of.and_then(|n| key(["x", "y"][usize::from(n) % 2]));
    spec.dedupe_key = dedupe_of.and_then(|n| dedupe(["d", "e"][usize::from(n) % 2]));
    spec.budgets = budgets.iter().map(|n| budget_of(*n)).collect();
    spec.retry = ladder.map(|n| RetryRule { ladder: ladder_of(n), max_attempts: None });
    spec
}

pub fn policy_of(policy: &Policy) -> QueuePolicy {
    let Policy {
        limit,
        ladder,
        max_attempts,
        lease_ms,
        fail_on_crash,
        crashes_max,
        retention_days,
        finished_max,
        delete_finished,
        ageing_ms,
    } = policy;
    QueuePolicy {
        limit: *limit,
        ladder: ladder_of(*ladder),
        max_attempts: *max_attempts,
        lease_ms: *lease_ms,
        on_crash: if *fail_on_crash { OnCrash::Fail } else { OnCrash::Resume },
        crashes_max: *crashes_max,
        retention_days: *retention_days,
        finished_max: *finished_max,
        delete_finished: *delete_finished,
        ageing_ms: *ageing_ms,
    }
}

pub fn schedule_policy(rule: u8, missed: u8, skip: bool, paused: bool) -> SchedulePolicy {
    let cron = ["0 * * * *", "*/10 * * * * *", "30 4 * * *"][usize::from(rule) % 3];
    let missed = [Missed::Skip, Missed::Last, Missed::All(2)][usize::from(missed) % 3];
    let overlap = if skip { Overlap::Skip } else { Overlap::Queue };
    let job = JobSpec::new(kind_of(0), queue_of(0), json("\"by schedule\""));
    SchedulePolicy { cron: cron.into(), zone: "UTC".into(), overlap, missed, paused, job }
}

pub fn outcome_of(end: End) -> Outcome {
    match end {
        End::Done => Outcome::DONE,
        End::DoneWithResult => Outcome::Completed { result: Some(json("{\"ok\":true}")) },
        End::Retry => retry_with("not yet\0"),
        End::RetryIn(ms) => Outcome::Retry { error: "busy".into(), when: Some(Start::AfterMs(ms)) },
        End::Failed => failed("never — größer"),
        End::Park(ms) => Outcome::Parked { until: Start::AfterMs(ms) },
        End::Release => Outcome::Released,
        End::Cancel => Outcome::Canceled,
    }
}

/// A request of somebody else, or for something else, under the same id.
pub fn stolen(mut request: ClaimRequest, theft: Theft) -> ClaimRequest {
    match theft {
        Theft::Worker => {
            let other = if request.worker == worker_of(0) { 1 } else { 0 };
            request.worker = worker_of(other);
        }
        Theft::Queues => request.queues = vec![queue_of(2)],
        Theft::Kinds => request.kinds = Some(vec![kind_of(0), kind_of(1)]),
        Theft::Order => request.queues.reverse(),
    }
    request
}
