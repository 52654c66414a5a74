//! What attempts said: kept by their workers, read by people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::JobId;
use windlass_engine::core::log::{LOG_BYTES_MAX, Log, LogPage, LogWrite};
use windlass_engine::core::store::Written;
use windlass_engine::core::time::Time;
use windlass_engine::world::new_id;
use windlass_report::schema::Moment;

use super::Api;
use super::leases::checked;
use super::writes::StoredView;
use crate::answer::{Answered, Refusal, ok};
use crate::ask::Ask;

/// What an attempt said so far.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Output")]
pub(crate) struct LogBody {
    #[schemars(range(max = 9_223_372_036_854_775_807_i64))]
    fence: u64,
    /// How many bytes went before.
    #[serde(default)]
    dropped: u64,
    /// The rest: all that is to be kept of this attempt, at most 64 KiB.
    text: String,
}

/// What the newest attempts of a job said, oldest first.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Outputs")]
pub(crate) struct LogsView {
    logs: Vec<LogView>,
}

/// What one attempt said.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AttemptOutput")]
pub(crate) struct LogView {
    pub fence: u64,
    /// How many bytes went before those that are kept.
    pub dropped: u64,
    pub text: String,
    #[schemars(with = "Moment")]
    pub written_at: Time,
}

/// `PUT /v1/jobs/{id}/log`
pub(crate) async fn put(ask: Ask) -> Answered {
    let LogBody { fence, dropped, text } = ask.body()?;
    if text.len() > LOG_BYTES_MAX {
        return Err(Refusal::too_large("text", LOG_BYTES_MAX));
    }
    let lease = checked(ask.id()?, fence, None)?;
    ask.api.owned(&ask.caller, [lease.job_id].into_iter()).await?;
    let write = LogWrite { request_id: new_id(&*ask.api.world).0, lease, dropped, text };
    match ask.api.store.put_log(write).await? {
        Written::Done => ok(&StoredView::STORED),
        Written::Lost | Written::TooManySteps => Err(Refusal::lease_lost()),
    }
}

/// `GET /v1/jobs/{id}/log`
pub(crate) async fn get(ask: Ask) -> Answered {
    let id = ask.id()?;
    let job = ask.api.store.get(id).await?.ok_or_else(|| Refusal::not_found("job"))?;
    if ask.api.hides(&job.spec.kind, &ask.caller) {
        let message = "the kind is sensitive, and only an admin sees into it";
        return Err(Refusal::new(http::StatusCode::FORBIDDEN, "forbidden", message));
    }
    ok(&LogsView { logs: logs(&ask.api, id).await? })
}

/// What is kept of a job; nothing where the store keeps none.
pub(crate) async fn logs(api: &Api, job: JobId) -> Result<Vec<LogView>, Refusal> {
    match api.store.logs(job).await {
        Ok(pages) => Ok(pages.into_iter().map(LogView::from).collect()),
        Err(StoreError::Unsupported(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

impl From<LogPage> for LogView {
    fn from(page: LogPage) -> Self {
        let LogPage { log: Log { fence, dropped, text }, written_at } = page;
        Self { fence, dropped, text, written_at }
    }
}
