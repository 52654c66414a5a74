//! The workers, as they last said of themselves, and as this server has heard of them since.

use schemars::JsonSchema;
use serde::Serialize;
use windlass_engine::core::id::WorkerName;
use windlass_engine::core::query::WorkerStatus;
use windlass_engine::core::time::Time;
use windlass_report::view::WorkerView;

use super::Api;
use crate::answer::{Answered, Refusal, nothing, ok};
use crate::ask::Ask;

/// The workers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Workers")]
pub(crate) struct WorkersView {
    workers: Vec<WorkerView>,
}

/// `GET /v1/workers`
pub(crate) async fn list(ask: Ask) -> Answered {
    let now = ask.api.now().await?;
    ok(&WorkersView { workers: seen(&ask.api, ask.api.store.workers().await?, now) })
}

/// `DELETE /v1/workers/{name}`
pub(crate) async fn forget(ask: Ask) -> Answered {
    let name: WorkerName = ask.name()?;
    if !ask.caller.owns_worker(name.as_str()) {
        let message = "this token may only speak for its own workers";
        return Err(Refusal::new(http::StatusCode::FORBIDDEN, "forbidden", message));
    }
    ask.api.roster.left(&name);
    ask.api.store.forget_worker(name).await?;
    nothing()
}

/// The workers of a store. Remote ones are reported to it now and then; what this server knows is newer.
pub(crate) fn seen(api: &Api, workers: Vec<WorkerStatus>, now: Time) -> Vec<WorkerView> {
    let boot_ms = api.world.boot_ms();
    let newest = |mut worker: WorkerStatus| {
        if let Some(news) = api.roster.news_of(&worker.name, boot_ms) {
            let heard_at = now.plus_ms(-i64::try_from(news.heard_ago_ms).unwrap_or(i64::MAX));
            // Another server may have heard of it later.
            if heard_at >= worker.seen_at {
                (worker.slots, worker.running, worker.seen_at) = (news.slots, news.running, heard_at);
            }
        }
        let crash = api.feed.crashes(|crashes| crashes.of(&worker));
        WorkerView::new(worker, crash, now)
    };
    workers.into_iter().map(newest).collect()
}
