//! One job: enqueue it, look at it, ask why it waits; and many at once.

use http::StatusCode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_engine::core::id::JobId;
use windlass_engine::core::job::{Job, NewJob};
use windlass_engine::core::policy::queue::QueuePolicy;
use windlass_engine::core::store::{ENQUEUE_MAX, Enqueued};
use windlass_engine::core::time::Span;
use windlass_engine::core::transition::accept;
use windlass_engine::world::Ids;
use windlass_report::schema::Id;
use windlass_report::view::{Detail, ExplainView, JobView};

use super::new_job::NewJobBody;
use crate::answer::{Answered, Refusal, json_answer, ok};
use crate::ask::Ask;
use crate::object::Object;

/// A job that is there now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EnqueuedJob")]
pub(crate) struct EnqueuedView {
    #[serde(flatten)]
    job: JobView,
    /// It was there before: by its id, or by its dedupe key.
    deduplicated: bool,
}

/// `POST /v1/jobs`
pub(crate) async fn create(ask: Ask) -> Answered {
    let mut new = ask.body::<NewJobBody>()?.job(&mut Ids::new(&*ask.api.world))?;
    if let Some(parent) = ask.traceparent() {
        new.spec.meta = parent.put(new.spec.meta.take());
    }
    let Enqueued { id, deduplicated } = ask.api.client.enqueue_new(new.clone()).await?;
    let job = match ask.api.store.get(id).await? {
        Some(job) => job,
        // It has run already, and its queue keeps no finished jobs: as it was when it was accepted.
        None => accept(NewJob { id, ..new }, 0, &QueuePolicy::default(), ask.api.now().await?),
    };
    let hidden = ask.api.hides(&job.spec.kind, &ask.caller);
    let status = if deduplicated { StatusCode::OK } else { StatusCode::CREATED };
    json_answer(status, &EnqueuedView { job: JobView::new(job, Detail::Full, hidden), deduplicated })
}

/// Jobs to be enqueued, all or none.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewJobs")]
pub(crate) struct BatchBody {
    #[schemars(length(min = 1, max = 10_000))]
    jobs: Vec<Object<NewJobBody>>,
}

/// What became of them, in the order asked.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EnqueuedJobs")]
pub(crate) struct BatchView {
    jobs: Vec<BatchEntry>,
}

/// What became of one.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "EnqueuedEntry")]
struct BatchEntry {
    #[schemars(with = "Id")]
    id: JobId,
    deduplicated: bool,
}

/// `POST /v1/jobs/batch`
pub(crate) async fn create_many(ask: Ask) -> Answered {
    let BatchBody { jobs } = ask.body()?;
    if jobs.is_empty() || jobs.len() > ENQUEUE_MAX {
        return Err(Refusal::field("jobs", format!("must be 1 to {ENQUEUE_MAX}; they are {}", jobs.len())));
    }
    let mut checked: Vec<NewJob> = Vec::with_capacity(jobs.len());
    let mut ids = Ids::new(&*ask.api.world);
    let parent = ask.traceparent();
    for (at, Object(job)) in jobs.into_iter().enumerate() {
        let mut new = job.job(&mut ids).map_err(|refusal| in_batch(refusal, at))?;
        if let Some(parent) = &parent {
            new.spec.meta = parent.put(new.spec.meta.take());
        }
        checked.push(new);
    }
    let answers = ask.api.store.enqueue(checked).await?;
    let entry = |Enqueued { id, deduplicated }| BatchEntry { id, deduplicated };
    json_answer(StatusCode::CREATED, &BatchView { jobs: answers.into_iter().map(entry).collect() })
}

/// Says which of many jobs was refused.
fn in_batch(mut refusal: Refusal, at: usize) -> Refusal {
    refusal.message = format!("jobs[{at}]: {}", refusal.message);
    if let Some(field) = refusal.details.as_mut().and_then(|details| details.get_mut("field")) {
        *field = format!("jobs[{at}].{}", field.as_str().unwrap_or("?")).into();
    }
    refusal
}

/// The longest that a call waits for a job to be over.
const WAIT_MS_MAX: u64 = 60_000;
/// How often a job that is waited for is looked at: soon at first, then seldom.
const LOOK_MS: std::ops::RangeInclusive<u64> = 5..=250;

/// `GET /v1/jobs/{id}`
pub(crate) async fn get(ask: Ask) -> Answered {
    let wait = ask.query(&["wait"], &[])?.pop().map(|(_, wait)| wait.parse::<Span>()).transpose()?;
    let job = match wait {
        Some(wait) if wait.ms() > WAIT_MS_MAX => {
            return Err(Refusal::field("wait", "is longer than 60s; ask again when it is over"));
        }
        Some(wait) => until_over(&ask, wait.ms()).await?,
        None => ask.api.store.get(ask.id()?).await?,
    };
    let job = job.ok_or_else(|| Refusal::not_found("job"))?;
    let hidden = ask.api.hides(&job.spec.kind, &ask.caller);
    ok(&JobView::new(job, Detail::Full, hidden))
}

/// The job when it is over, or as it is when the wait or the server has come to its end.
async fn until_over(ask: &Ask, wait_ms: u64) -> Result<Option<Job>, Refusal> {
    let (api, id) = (&ask.api, ask.id()?);
    let Ok(_poll) = api.polls.try_acquire() else {
        return Err(Refusal::busy("too many callers are waiting at once; ask again in a second"));
    };
    let until_ms = api.world.boot_ms() + wait_ms.min(api.settings.limits.poll_ms_max);
    let mut stop = api.stop.subscribe();
    let mut look_ms = *LOOK_MS.start();
    loop {
        let job = api.store.get(id).await?;
        let left_ms = until_ms.saturating_sub(api.world.boot_ms());
        let open = job.as_ref().is_some_and(|job| job.state.ended_at().is_none());
        if !open || left_ms == 0 || *stop.borrow() {
            return Ok(job);
        }
        tokio::select! {
            _ = stop.changed() => {}
            () = api.world.sleep_ms(look_ms.min(left_ms)) => {}
        }
        look_ms = (look_ms * 3 / 2).min(*LOOK_MS.end());
    }
}

/// `GET /v1/jobs/{id}/explain`
pub(crate) async fn explain(ask: Ask) -> Answered {
    let id = ask.id()?;
    let explanation = ask.api.store.explain(id).await?.ok_or_else(|| Refusal::not_found("job"))?;
    ok(&ExplainView { id, explanation })
}
