//! The jobs, a module each. One can be replaced without touching the others.

pub(crate) mod request_google_rss;
pub(crate) mod semantic_scorer;
pub(crate) mod state_assigner;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::child::Work;
use crate::report::Report;

/// One kind of job.
pub(crate) struct Job {
    /// What its process is called.
    pub name: &'static str,
    /// The route that starts it; also its name in the queue file.
    pub endpoint: &'static str,
    /// Does it.
    pub run: fn(Work, Value) -> BoxFuture<'static, Report>,
}

/// All of them.
pub(crate) static JOBS: [&Job; 3] = [&request_google_rss::JOB, &semantic_scorer::JOB, &state_assigner::JOB];
