//! The workers, as they last said of themselves.

use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::{Answered, ok};
use crate::ask::Ask;
use crate::view::WorkerView;

/// The workers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Workers")]
pub(crate) struct WorkersView {
    workers: Vec<WorkerView>,
}

/// `GET /v1/workers`
pub(crate) async fn list(ask: Ask) -> Answered {
    let now = ask.api.now().await?;
    let workers = ask.api.store.workers().await?;
    ok(&WorkersView { workers: workers.into_iter().map(|worker| WorkerView::new(worker, now)).collect() })
}
