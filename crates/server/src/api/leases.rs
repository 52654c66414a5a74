//! Leases in the hands of remote workers: held on, or ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::JobId;
use windlass_engine::core::job::Start;
use windlass_engine::core::json::RESULT_BYTES_MAX;
use windlass_engine::core::store::{LeaseRef, RenewAnswer, Settlement, Written};
use windlass_engine::core::ticket::Ticket;
use windlass_engine::core::time::{Span, Time};
use windlass_engine::core::transition::Outcome;
use windlass_report::schema::{AnyJson, Duration, Id, Moment, TicketText};

use super::claim::report;
use super::{gated, present};
use crate::answer::{Answered, Refusal, ok};
use crate::ask::Ask;
use crate::object::Object;

/// How many leases one call may name.
const LEASES_MAX: usize = 1_000;

/// Leases to hold on to, or to ask about.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Renewal")]
pub(crate) struct RenewBody {
    #[schemars(length(min = 1, max = 1000))]
    leases: Vec<Object<LeaseBody>>,
}

/// A job and the fence with which it is held.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "LeaseRef")]
struct LeaseBody {
    #[schemars(with = "Id")]
    job_id: JobId,
    #[schemars(range(max = 9_223_372_036_854_775_807_i64))]
    fence: u64,
    /// The ticket of the lease, where the claim gave one.
    #[serde(default)]
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<String>,
}

/// What became of them. Each is in exactly one of the first two lists.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Renewed")]
pub(crate) struct RenewView {
    #[schemars(with = "Vec<Id>")]
    renewed: Vec<JobId>,
    /// Stop these attempts.
    #[schemars(with = "Vec<Id>")]
    lost: Vec<JobId>,
    /// Of the renewed, these are asked to cancel.
    #[schemars(with = "Vec<Id>")]
    cancel_requested: Vec<JobId>,
    /// Of the renewed, those that stood still because they could not be renewed have to do so for longer: the store has
    /// lost commits, and one of these may have given the job to somebody else.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    still: Vec<StillView>,
    /// Which store this is, in which epoch. When it changes, renew all leases at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Id>")]
    instance: Option<Uuid>,
}

/// For how long an attempt that stood still goes on to do so.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Still")]
struct StillView {
    #[schemars(with = "Id")]
    job_id: JobId,
    for_ms: u64,
}

/// `POST /v1/leases/renew`
pub(crate) async fn renew(ask: Ask) -> Answered {
    let leases = named(&ask)?;
    ask.api.owned(&ask.caller, leases.iter().map(|lease| lease.job_id)).await?;
    let RenewAnswer { renewed, lost, cancel_requested, still, instance } =
        ask.api.store.renew(leases).await?;
    for beat in ask.api.roster.renewed(&renewed, ask.api.world.boot_ms()) {
        report(&ask.api, beat);
    }
    ask.api.roster.ended(lost.iter().copied());
    let still = still.into_iter().map(|(job_id, for_ms)| StillView { job_id, for_ms }).collect();
    ok(&RenewView { renewed, lost, cancel_requested, still, instance })
}

/// Which of them are asked to cancel.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Cancels")]
pub(crate) struct CancelsView {
    #[schemars(with = "Vec<Id>")]
    cancel_requested: Vec<JobId>,
}

/// `POST /v1/leases/cancels`
pub(crate) async fn cancels(ask: Ask) -> Answered {
    let leases = named(&ask)?;
    ask.api.owned(&ask.caller, leases.iter().map(|lease| lease.job_id)).await?;
    ok(&CancelsView { cancel_requested: ask.api.store.cancels(leases).await? })
}

/// The leases that a body names.
fn named(ask: &Ask) -> Result<Vec<LeaseRef>, Refusal> {
    let RenewBody { leases } = ask.body()?;
    check_count("leases", leases.len())?;
    let lease = |Object(LeaseBody { job_id, fence, ticket })| checked(job_id, fence, ticket.as_deref());
    leases.into_iter().map(lease).collect()
}

/// How attempts ended.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Settlements")]
pub(crate) struct SettleBody {
    #[schemars(length(min = 1, max = 1000))]
    results: Vec<Object<ResultBody>>,
}

/// How one attempt ended.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Settlement")]
struct ResultBody {
    #[schemars(with = "Id")]
    job_id: JobId,
    #[schemars(range(max = 9_223_372_036_854_775_807_i64))]
    fence: u64,
    /// The ticket of the lease, where the claim gave one.
    #[serde(default)]
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<String>,
    outcome: OutcomeWord,
    /// What it gave, at most 64 KiB; with `completed` only.
    #[serde(default, deserialize_with = "present")]
    #[schemars(with = "AnyJson")]
    result: Option<Box<RawValue>>,
    /// What went wrong; with `retry` and `failed`. Cut at 8 KiB.
    #[serde(default)]
    error: Option<String>,
    /// When to try again, instead of the ladder's delay; with `retry`.
    #[serde(default)]
    #[schemars(with = "Option<Moment>")]
    retry_at: Option<Time>,
    /// When to go on; with `parked`, which needs this or `delay`.
    #[serde(default)]
    #[schemars(with = "Option<Moment>")]
    until: Option<Time>,
    /// In how long, by the server's clock: instead of `retry_at` or `until`.
    #[serde(default)]
    #[schemars(with = "Option<Duration>")]
    delay: Option<Span>,
}

/// How.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum OutcomeWord {
    Completed,
    Retry,
    Failed,
    Parked,
    Released,
    Canceled,
}

/// What became of the settlements, in the order asked.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Settled")]
pub(crate) struct SettleView {
    results: Vec<SettledView>,
}

/// What became of one.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SettledEntry")]
struct SettledView {
    #[schemars(with = "Id")]
    job_id: JobId,
    /// `ok`, or `lost`: the lease was no longer held, and nothing changed.
    status: &'static str,
}

/// `POST /v1/leases/settle`
pub(crate) async fn settle(ask: Ask) -> Answered {
    let SettleBody { results } = ask.body()?;
    check_count("results", results.len())?;
    let settlements = results.into_iter().map(|Object(result)| result.settlement());
    let settlements: Vec<Settlement> = settlements.collect::<Result<_, Refusal>>()?;
    let jobs: Vec<JobId> = settlements.iter().map(|settlement| settlement.lease.job_id).collect();
    ask.api.owned(&ask.caller, jobs.iter().copied()).await?;
    let written = ask.api.store.settle(settlements).await?;
    ask.api.roster.ended(jobs.iter().copied());
    let status = |written: Written| match written {
        Written::Done => "ok",
        Written::Lost | Written::TooManySteps => "lost",
    };
    let results = jobs.into_iter().zip(written);
    ok(&SettleView {
        results: results.map(|(job_id, written)| SettledView { job_id, status: status(written) }).collect(),
    })
}

impl ResultBody {
    fn settlement(self) -> Result<Settlement, Refusal> {
        let Self { job_id, fence, ticket, outcome, result, error, retry_at, until, delay } = self;
        let extra = [
            ("result", result.is_some() && outcome != OutcomeWord::Completed),
            ("error", error.is_some() && !matches!(outcome, OutcomeWord::Retry | OutcomeWord::Failed)),
            ("retry_at", retry_at.is_some() && outcome != OutcomeWord::Retry),
            ("until", until.is_some() && outcome != OutcomeWord::Parked),
            ("delay", delay.is_some() && !matches!(outcome, OutcomeWord::Retry | OutcomeWord::Parked)),
        ];
        if let Some((field, _)) = extra.into_iter().find(|(_, extra)| *extra) {
            return Err(Refusal::field(field, "does not belong to this outcome"));
        }
        if delay.is_some() && (retry_at.is_some() || until.is_some()) {
            return Err(Refusal::field("delay", "cannot be said together with a moment"));
        }
        let when = delay.map(|delay| Start::AfterMs(delay.ms())).or(retry_at.or(until).map(Start::At));
        let error = error.unwrap_or_else(|| "the worker gave no reason".to_owned());
        let outcome = match outcome {
            OutcomeWord::Completed => Outcome::Completed {
                result: result.map(|raw| gated("result", &raw, RESULT_BYTES_MAX)).transpose()?,
            },
            OutcomeWord::Retry => Outcome::Retry { error, when },
            OutcomeWord::Failed => Outcome::Failed { error },
            OutcomeWord::Parked => {
                let until = when.ok_or_else(|| Refusal::field("until", "or delay is needed with parked"))?;
                Outcome::Parked { until }
            }
            OutcomeWord::Released => Outcome::Released,
            OutcomeWord::Canceled => Outcome::Canceled,
        };
        Ok(Settlement { lease: checked(job_id, fence, ticket.as_deref())?, outcome })
    }
}

/// Stores keep a fence in 63 bits. What cannot be a ticket is refused; one that is wrong is left to the store, to which it is
/// as none.
pub(super) fn checked(job_id: JobId, fence: u64, ticket: Option<&str>) -> Result<LeaseRef, Refusal> {
    if i64::try_from(fence).is_err() {
        return Err(Refusal::field("fence", "is not one of ours"));
    }
    let ticket = ticket.map(str::parse::<Ticket>).transpose().map_err(StoreError::from)?;
    Ok(LeaseRef { job_id, fence, ticket })
}

fn check_count(field: &str, count: usize) -> Result<(), Refusal> {
    if count == 0 || count > LEASES_MAX {
        return Err(Refusal::field(field, format!("must be 1 to {LEASES_MAX}; they are {count}")));
    }
    Ok(())
}
