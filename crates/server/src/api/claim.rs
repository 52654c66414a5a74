//! Claims by long poll: the call stays open until there is work or its wait is over.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use uuid::Uuid;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::{Kind, QueueName, WorkerName};
use windlass_engine::core::store::{ClaimAnswer, ClaimRequest, Leased, Settlement, WorkerBeat};
use windlass_engine::core::time::Time;
use windlass_engine::core::transition::Outcome;
use windlass_engine::world::{jittered, new_id};
use windlass_report::schema::{Id, Moment, Name, TicketText, WorkerText};
use windlass_report::view::{Detail, JobView};

use super::Api;
use crate::access::Caller;
use crate::answer::{Answered, Refusal, ok};
use crate::ask::Ask;
use crate::roster::Agent;

/// How many jobs one call may ask for.
const LIMIT_MAX: u32 = 1_000;
/// How many queues and kinds one call may name.
const NAMES_MAX: usize = 100;
/// The longest wait.
const WAIT_MS_MAX: u64 = 60_000;
/// Work that nobody announced (another process enqueued it) is found this late.
const POLL_MS: u64 = 2_000;
/// And this late where the store tells whoever waits: by the net.
const TOLD_MS: u64 = 30_000;

/// A wish for work.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Claim")]
pub(crate) struct ClaimBody {
    /// The name of the worker, the same for as long as it lives.
    #[schemars(with = "WorkerText")]
    worker: WorkerName,
    #[schemars(with = "Vec<Name>", length(min = 1, max = 100))]
    queues: Vec<QueueName>,
    /// Null: any kind.
    #[serde(default)]
    #[schemars(with = "Option<Vec<Name>>", length(max = 100))]
    kinds: Option<Vec<Kind>>,
    /// How many jobs at most.
    #[schemars(range(min = 1, max = 1000))]
    limit: u32,
    /// How long the leases last, instead of what the queues say.
    #[serde(default)]
    #[schemars(range(min = 100, max = 86_400_000))]
    lease_ms: Option<u32>,
    /// How long to wait for work; at once when left out.
    #[serde(default)]
    #[schemars(range(max = 60_000))]
    wait_ms: Option<u64>,
    /// Asked again with the same id, a claim gives the same leases.
    #[serde(default)]
    #[schemars(with = "Option<Id>")]
    request_id: Option<Uuid>,
}

/// What a claim gave.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Leases")]
pub(crate) struct LeasesView {
    leases: Vec<LeasedView>,
    /// In how many milliseconds a job that is held back by time alone may become free, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_due_in_ms: Option<u64>,
    /// Which store this is, in which epoch. When it changes, renew all leases at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Id>")]
    instance: Option<Uuid>,
}

/// A job that the worker now holds.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LeasedJob")]
struct LeasedView {
    job: JobView,
    fence: u64,
    #[schemars(with = "Moment")]
    expires_at: Time,
    /// What the ladder says for the case that this attempt fails; null when it is the last.
    retry_delay_ms: Option<u64>,
    /// Where the store finds the lease again: to be sent back with whatever is written under it. A hint; without it, all
    /// is the same and some of it slower.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TicketText>")]
    ticket: Option<String>,
}

/// `POST /v1/claim`
pub(crate) async fn claim(ask: Ask) -> Answered {
    let body: ClaimBody = ask.body()?;
    check(&body, &ask.caller)?;
    let Ok(_poll) = ask.api.polls.try_acquire() else {
        return Err(Refusal::busy("too many workers are waiting at once; ask again in a second"));
    };
    let answer = wait_for_work(&ask.api, &body, &Agent::read(&ask.headers)).await?;
    ask.api.roster.took(&body.worker, answer.leases.iter().map(|leased| leased.job.id));
    let ClaimAnswer { leases, next_due_in_ms, instance } = answer;
    let leases = leases.into_iter().map(LeasedView::from).collect();
    ok(&LeasesView { leases, next_due_in_ms, instance })
}

fn check(body: &ClaimBody, caller: &Caller) -> Result<(), Refusal> {
    if !(1..=LIMIT_MAX).contains(&body.limit) {
        return Err(Refusal::field("limit", format!("must be from 1 to {LIMIT_MAX}")));
    }
    if body.queues.is_empty() || body.queues.len() > NAMES_MAX {
        return Err(Refusal::field("queues", format!("must be 1 to {NAMES_MAX}")));
    }
    if body.kinds.as_ref().is_some_and(|kinds| kinds.len() > NAMES_MAX) {
        return Err(Refusal::field("kinds", format!("are more than {NAMES_MAX}")));
    }
    if body.wait_ms.is_some_and(|ms| ms > WAIT_MS_MAX) {
        return Err(Refusal::field("wait_ms", format!("is more than {WAIT_MS_MAX}")));
    }
    let foreign = caller.queues().and_then(|own| body.queues.iter().find(|queue| !own.contains(queue)));
    if let Some(queue) = foreign {
        let message = format!("this token may not claim from the queue {:?}", queue.as_str());
        return Err(Refusal::new(http::StatusCode::FORBIDDEN, "forbidden", message));
    }
    if !caller.owns_worker(body.worker.as_str()) {
        let message =
            format!("with this token the worker's name must be {0:?}, or begin with \"{0}/\"", caller.name);
        return Err(Refusal::new(http::StatusCode::FORBIDDEN, "forbidden", message));
    }
    Ok(())
}

/// Asks until there is something, the wait is over or the server stops. What
/// is in the way of a claim can end by itself; the store says when.
async fn wait_for_work(api: &Arc<Api>, body: &ClaimBody, agent: &Agent) -> Result<ClaimAnswer, Refusal> {
    let wait_ms = body.wait_ms.unwrap_or(0).min(api.settings.limits.poll_ms_max);
    let until_ms = api.world.boot_ms() + wait_ms;
    let request_id = body.request_id.unwrap_or_else(|| new_id(&*api.world).0);
    let mut stop = api.stop.subscribe();
    let waiter = api.wake.wait_for(&body.queues);
    loop {
        beat(api, body, agent);
        let answer = claim_once(api, body, request_id).await?;
        let left_ms = until_ms.saturating_sub(api.world.boot_ms());
        if !answer.leases.is_empty() || left_ms == 0 || *stop.borrow() {
            return Ok(answer);
        }
        let due_ms = answer.next_due_in_ms.map_or(u64::MAX, |ms| ms.max(1));
        let poll_ms = if api.store.capabilities().tells { TOLD_MS } else { POLL_MS };
        let pause_ms = jittered(&*api.world, poll_ms).min(due_ms).min(left_ms);
        tokio::select! {
            () = waiter.woken() => {}
            _ = stop.changed() => {}
            () = api.world.sleep_ms(pause_ms) => {}
        }
    }
}

/// One question to the store. It goes on when the client has gone meanwhile:
/// what it then gives is handed back, unless the client can find it again by
/// its own request id.
async fn claim_once(api: &Arc<Api>, body: &ClaimBody, request_id: Uuid) -> Result<ClaimAnswer, Refusal> {
    let closed = || Refusal::busy("the claim was given up; ask again with the same request_id");
    let _turn = api.claims.acquire().await.map_err(|_| closed())?;
    let request = ClaimRequest {
        request_id,
        worker: body.worker.clone(),
        queues: body.queues.clone(),
        kinds: body.kinds.clone(),
        limit: body.limit,
        lease_ms: body.lease_ms,
    };
    let (answer, answered) = oneshot::channel::<Result<ClaimAnswer, StoreError>>();
    let (api, findable) = (api.clone(), body.request_id.is_some());
    tokio::spawn(async move {
        let claimed = api.store.claim(request).await;
        if let Err(Ok(unheard)) = answer.send(claimed)
            && !findable
        {
            hand_back(&api, unheard).await;
        }
    });
    Ok(answered.await.map_err(|_| closed())??)
}

async fn hand_back(api: &Api, answer: ClaimAnswer) {
    let leases = answer.leases.iter().map(Leased::lease_ref);
    let settlements: Vec<Settlement> =
        leases.map(|lease| Settlement { lease, outcome: Outcome::Released }).collect();
    if settlements.is_empty() {
        return;
    }
    tracing::info!(
        jobs = settlements.len(),
        "a worker went away while it was given jobs; they are queued again"
    );
    if let Err(error) = api.store.settle(settlements).await {
        tracing::warn!(code = error.code(), "could not hand back jobs; their leases run out by themselves");
    }
}

/// Lets the store know that the worker is alive, now and then.
fn beat(api: &Arc<Api>, body: &ClaimBody, agent: &Agent) {
    let (now_ms, kinds) = (api.world.boot_ms(), body.kinds.as_deref());
    let due = api.roster.asked(&body.worker, &body.queues, kinds, body.limit, agent.clone(), now_ms);
    if let Some(due) = due {
        report(api, due);
    }
}

/// Passes a beat on. Nobody waits for it.
pub(crate) fn report(api: &Arc<Api>, beat: WorkerBeat) {
    let api = api.clone();
    tokio::spawn(async move {
        if let Err(error) = api.store.beat(beat).await {
            tracing::debug!(code = error.code(), "could not note that a worker is alive");
        }
    });
}

impl From<Leased> for LeasedView {
    fn from(leased: Leased) -> Self {
        let Leased { job, retry_delay_ms, ticket } = leased;
        let (fence, expires_at) = (job.fence, job.lease().map_or(job.run_at, |lease| lease.expires_at));
        let ticket = ticket.map(|ticket| ticket.to_string());
        Self { job: JobView::new(job, Detail::Leased, false), fence, expires_at, retry_delay_ms, ticket }
    }
}
