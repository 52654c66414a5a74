//! Is it alive, and can it work?

use axum::body::Body;
use http::StatusCode;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;
use windlass_engine::core::audit::{AuditBite, AuditFrom, FINDINGS_MAX};
use windlass_engine::core::epoch::Epoch;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::store::{EpochStatus, Risk};
use windlass_engine::core::time::Time;
use windlass_report::schema::{Id, Moment};

use crate::answer::{Answered, Refusal, ok, with_type};
use crate::ask::Ask;

/// The longest that the store may take to say what time it is.
const READY_MS: u64 = 2_000;

/// How long an audit goes on in one call; the bite that it has begun by then it ends.
const AUDIT_MS: u64 = 10_000;

/// How it is.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Health")]
pub(crate) struct HealthView {
    status: &'static str,
}

/// `GET /healthz`: the process answers.
pub(crate) async fn healthz(_: Ask) -> Answered {
    ok(&HealthView { status: "ok" })
}

/// `GET /readyz`: the store answers, too, and would accept a job, and the server is not stopping.
pub(crate) async fn readyz(ask: Ask) -> Answered {
    if *ask.api.stop.borrow() {
        return Err(Refusal::busy("the server is stopping"));
    }
    tokio::select! {
        accepts = ask.api.store.accepts() => accepts?,
        () = ask.api.world.sleep_ms(READY_MS) => return Err(Refusal::busy("the store does not answer")),
    }
    ok(&HealthView { status: "ready" })
}

/// What contradicts itself.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Audit")]
pub(crate) struct AuditView {
    findings: Vec<String>,
    /// What of the store's set-up may lose something, or slows it down; with the first bite.
    risks: Vec<RiskView>,
    /// Where the next bite begins; nothing when all was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// How much was looked at.
    done: u64,
    /// Of how much, as far as is known.
    of: u64,
}

/// Something in the set-up of the store.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Risk")]
pub(crate) struct RiskView {
    what: String,
    /// What to do about it.
    next: String,
}

/// `GET /v1/audit`: a bite of it, or, without a place to begin at, as much as fits into the time that a call has.
pub(crate) async fn audit(ask: Ask) -> Answered {
    let from = ask.query(&["from"], &[])?.pop().map(|(_, from)| from.parse::<AuditFrom>()).transpose()?;
    let store = &ask.api.store;
    let AuditBite { findings, next, done, of } = match from {
        Some(from) => store.audit_bite(from).await?,
        None => audit_for(&ask, AUDIT_MS).await?,
    };
    let risks = match from.unwrap_or_default() == AuditFrom::default() {
        true => store.risks().await?,
        false => Vec::new(),
    };
    let risks = risks.into_iter().map(|Risk { what, next }| RiskView { what, next }).collect();
    ok(&AuditView { findings, risks, next: next.map(|next| next.to_string()), done, of })
}

/// Audits from the beginning, bite after bite, until all was looked at, enough was found, or so long has passed.
async fn audit_for(ask: &Ask, most_ms: u64) -> Result<AuditBite, StoreError> {
    let world = &ask.api.world;
    let began_ms = world.boot_ms();
    let mut all = ask.api.store.audit_bite(AuditFrom::default()).await?;
    while let Some(from) = all.next {
        if all.findings.len() >= FINDINGS_MAX || world.boot_ms().saturating_sub(began_ms) >= most_ms {
            break;
        }
        let bite = ask.api.store.audit_bite(from).await?;
        let AuditBite { findings, next, done, of } = bite;
        all.findings.extend(findings);
        all = AuditBite { next, done, of, ..all };
    }
    Ok(all)
}

/// What time it is.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Now")]
pub(crate) struct NowView {
    #[schemars(with = "Moment")]
    at: Time,
    epoch: EpochView,
}

/// The epoch of the store: a stretch of its history that nobody has cut, by a failover, a restore or a copy.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Epoch")]
pub(crate) struct EpochView {
    /// Counted from 1.
    number: u64,
    /// Which store this is, in which epoch.
    #[schemars(with = "Id")]
    instance: Uuid,
    /// No fence that is handed out from now on is below this.
    floor: u64,
    #[schemars(with = "Moment")]
    began_at: Time,
    /// How many jobs had been accepted before it, at most.
    first_seq: u64,
    /// Whether commits of before may be lost.
    lossy: bool,
    /// Until when some queue holds back jobs that somebody in the lost history may hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Moment>")]
    paused_until: Option<Time>,
}

impl From<EpochStatus> for EpochView {
    fn from(EpochStatus { epoch, paused_until }: EpochStatus) -> Self {
        let Epoch { number, instance, floor, began_at, first_seq, lossy } = epoch;
        Self { number, instance, floor, began_at, first_seq, lossy, paused_until }
    }
}

/// `GET /v1/now`
pub(crate) async fn now(ask: Ask) -> Answered {
    let (at, epoch) = (ask.api.now().await?, ask.api.store.epoch().await?.into());
    ok(&NowView { at, epoch })
}

/// `GET /metrics`
pub(crate) async fn metrics(ask: Ask) -> Answered {
    let text = crate::metrics::write(&ask.api).await?;
    Ok(with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", Body::from(text)))
}

/// `GET /openapi.json`
pub(crate) async fn openapi(_: Ask) -> Answered {
    Ok(with_type(StatusCode::OK, "application/json", Body::from(crate::openapi::document())))
}
