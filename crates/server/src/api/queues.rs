//! Queues: how they stand, their policy, pause and resume.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use windlass_engine::core::id::QueueName;
use windlass_engine::core::policy::ladder::Ladder;
use windlass_engine::core::policy::queue::{OnCrash, QueuePolicy};
use windlass_engine::core::store::QueueDeletion;
use windlass_report::schema::LadderText;
use windlass_report::view::QueueView;

use super::Api;
use crate::answer::{Answered, Refusal, nothing, ok};
use crate::ask::Ask;

/// The queues.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Queues")]
pub(crate) struct QueuesView {
    queues: Vec<QueueView>,
}

/// The policy of a queue. What is left out has its default.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NewQueuePolicy")]
pub(crate) struct PolicyBody {
    /// How many of its jobs may run at once over the whole fleet.
    #[serde(default)]
    #[schemars(range(min = 1))]
    limit: Option<u32>,
    /// The delays between attempts.
    #[serde(default)]
    #[schemars(with = "Option<LadderText>")]
    ladder: Option<Ladder>,
    /// Fewer attempts than the ladder would allow.
    #[serde(default)]
    #[schemars(range(min = 1))]
    max_attempts: Option<u32>,
    /// How long a lease lasts.
    #[serde(default)]
    #[schemars(range(min = 100, max = 86_400_000))]
    lease_ms: Option<u32>,
    /// What it means that a worker was lost.
    #[serde(default)]
    on_crash: Option<OnCrashWord>,
    /// After so many crashes without a step in between a job is quarantined.
    #[serde(default)]
    #[schemars(range(min = 1))]
    crashes_max: Option<u32>,
    /// How long finished jobs are kept.
    #[serde(default)]
    retention_days: Option<u32>,
    /// How many finished jobs are kept.
    #[serde(default)]
    #[schemars(range(max = 9_223_372_036_854_775_807_i64))]
    finished_max: Option<u64>,
    /// Completed and canceled jobs are deleted at once.
    #[serde(default)]
    delete_finished: Option<bool>,
    /// Waiting this long weighs as much as one step of priority.
    #[serde(default)]
    #[schemars(range(min = 1, max = 9_223_372_036_854_775_807_i64))]
    ageing_ms: Option<u64>,
}

/// What it means that a worker was lost.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum OnCrashWord {
    Resume,
    Fail,
}

impl PolicyBody {
    fn policy(self) -> Result<QueuePolicy, Refusal> {
        let Self {
            limit,
            ladder,
            max_attempts,
            lease_ms,
            on_crash,
            crashes_max,
            retention_days,
            finished_max,
            delete_finished,
            ageing_ms,
        } = self;
        for (field, number) in [("finished_max", finished_max), ("ageing_ms", ageing_ms)] {
            if number.is_some_and(|number| i64::try_from(number).is_err()) {
                return Err(Refusal::field(field, "does not fit into 63 bits"));
            }
        }
        let default = QueuePolicy::default();
        let policy = QueuePolicy {
            limit,
            ladder: ladder.unwrap_or(default.ladder),
            max_attempts,
            lease_ms: lease_ms.unwrap_or(default.lease_ms),
            on_crash: match on_crash {
                Some(OnCrashWord::Fail) => OnCrash::Fail,
                Some(OnCrashWord::Resume) | None => OnCrash::Resume,
            },
            crashes_max: crashes_max.unwrap_or(default.crashes_max),
            retention_days: retention_days.unwrap_or(default.retention_days),
            finished_max: finished_max.unwrap_or(default.finished_max),
            delete_finished: delete_finished.unwrap_or(default.delete_finished),
            ageing_ms,
        };
        Ok(policy.checked()?)
    }
}

/// `GET /v1/queues`
pub(crate) async fn list(ask: Ask) -> Answered {
    let now = ask.api.now().await?;
    let queues = ask.api.store.queues().await?;
    ok(&QueuesView { queues: queues.into_iter().map(|queue| QueueView::new(queue, now)).collect() })
}

/// `GET /v1/queues/{name}`
pub(crate) async fn get(ask: Ask) -> Answered {
    let name = ask.name()?;
    one(&ask.api, &name).await
}

/// `PUT /v1/queues/{name}`
pub(crate) async fn put(ask: Ask) -> Answered {
    let name: QueueName = ask.name()?;
    let policy = ask.body::<PolicyBody>()?.policy()?;
    ask.api.store.put_queue(name.clone(), policy).await?;
    tracing::info!(queue = ?name.as_str(), by = ?ask.caller.name, "queue policy set");
    one(&ask.api, &name).await
}

/// `POST /v1/queues/{name}/pause`
pub(crate) async fn pause(ask: Ask) -> Answered {
    set_paused(ask, true).await
}

/// `POST /v1/queues/{name}/resume`
pub(crate) async fn resume(ask: Ask) -> Answered {
    set_paused(ask, false).await
}

async fn set_paused(ask: Ask, paused: bool) -> Answered {
    let name: QueueName = ask.name()?;
    ask.api.store.pause_queue(name.clone(), paused).await?;
    tracing::info!(queue = ?name.as_str(), paused, by = ?ask.caller.name, "queue paused or resumed");
    one(&ask.api, &name).await
}

/// `DELETE /v1/queues/{name}`
pub(crate) async fn delete(ask: Ask) -> Answered {
    let name: QueueName = ask.name()?;
    let answer = ask.api.store.delete_queue(name.clone()).await?;
    tracing::info!(queue = ?name.as_str(), by = ?ask.caller.name, answer = ?answer, "queue deleted");
    match answer {
        QueueDeletion::Deleted => nothing(),
        QueueDeletion::InUse { queued, running } => {
            let message = format!(
                "it has jobs that are not over ({queued} queued, {running} running); nothing was changed. Cancel them or \
                 wait for their end"
            );
            Err(Refusal::conflict("in_use", message).details(json!({ "queued": queued, "running": running })))
        }
        QueueDeletion::NotFound => Err(Refusal::not_found("queue: nobody set its policy or paused it")),
    }
}

async fn one(api: &Api, name: &QueueName) -> Answered {
    let now = api.now().await?;
    let found = api.store.queues().await?.into_iter().find(|queue| queue.name == *name);
    let found =
        found.ok_or_else(|| Refusal::not_found("queue: nobody set its policy, and it has no jobs"))?;
    ok(&QueueView::new(found, now))
}
