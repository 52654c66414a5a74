//! The sample: jobs and a worker inside the server, to have something to see.
//! What it does is whoever's who starts the server; here is only when it may begin.

use std::sync::atomic::{AtomicBool, Ordering};

use windlass_engine::core::id::Kind;
use windlass_engine::core::query::WORKER_ALIVE_MS;

use crate::access::Caller;
use crate::answer::{Answered, Refusal, nothing};
use crate::api::Api;
use crate::ask::Ask;
use crate::settings::Role;

/// A sample that can be started once.
pub struct Sample {
    kinds: Vec<Kind>,
    start: Box<dyn Fn() + Send + Sync>,
    started: AtomicBool,
}

impl Sample {
    /// A sample whose worker runs `kinds`. `start` must return at once.
    pub fn new(kinds: Vec<Kind>, start: impl Fn() + Send + Sync + 'static) -> Self {
        Self { kinds, start: Box::new(start), started: AtomicBool::new(false) }
    }
}

/// The sample, when this caller may start it now.
pub(crate) async fn may_start<'a>(api: &'a Api, caller: &Caller) -> Result<&'a Sample, Refusal> {
    if caller.role != Role::Admin {
        return Err(Refusal::conflict("no_sample", "only an admin may start the sample"));
    }
    let Some(sample) = api.sample.get() else {
        return Err(Refusal::conflict(
            "no_sample",
            "this server has no sample; start it by `windlass serve --sample`",
        ));
    };
    if sample.started.load(Ordering::Relaxed) {
        return Err(Refusal::conflict("no_sample", "the sample has started already"));
    }
    // Somebody else's handlers would get jobs that they know nothing of.
    let now = api.now().await?;
    let knows = |kinds: &Option<Vec<Kind>>| match kinds {
        Some(kinds) => kinds.iter().any(|kind| sample.kinds.contains(kind)),
        None => true,
    };
    let workers = api.store.workers().await?;
    let other =
        workers.iter().find(|worker| now.ms_since(worker.seen_at) <= WORKER_ALIVE_MS && knows(&worker.kinds));
    match other {
        Some(worker) => {
            let message = format!("the worker {} knows kinds of the sample; stop it first", worker.name);
            Err(Refusal::conflict("no_sample", message))
        }
        None => Ok(sample),
    }
}

/// `POST /v1/sample`
pub(crate) async fn start(ask: Ask) -> Answered {
    let sample = may_start(&ask.api, &ask.caller).await?;
    if !sample.started.swap(true, Ordering::Relaxed) {
        tracing::info!(by = ?ask.caller.name, "sample started");
        (sample.start)();
    }
    nothing()
}
