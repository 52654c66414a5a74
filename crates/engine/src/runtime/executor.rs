//! The executor: runs one attempt to its end.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use windlass_core::job::Job;
use windlass_core::json::Json;
use windlass_core::store::Leased;
use windlass_core::transition::Outcome;

use super::Engine;
use crate::context::{Context, timed_out};
use crate::failure::Failure;
use crate::handler::Handler;
use crate::signal::{Attempt, Signal, Stop};
use crate::slots::Slot;
use crate::world::jittered;

/// Starts an attempt on the runtime where handlers run.
pub(super) fn start(engine: Arc<Engine>, leased: Leased, attempt: Arc<Attempt>) {
    let Leased { job, retry_delay_ms } = leased;
    let slot = engine.slots.take();
    let ambient = engine.ambient.clone();
    ambient.spawn(async move {
        let kind = job.spec.kind.clone();
        let Some(handler) = engine.handlers.get(&kind).cloned() else {
            // Only known kinds are claimed; give back what came all the same.
            engine.finish(&attempt, Some(Outcome::Released));
            return;
        };
        let timeout_text = timed_out(&job);
        let context = context(&engine, job, &attempt, slot.clone());
        let ladder_ms = retry_delay_ms.map(|ms| jittered(&*engine.world, ms));
        let ended = run(handler, context, &attempt).await;
        drop(slot);
        let told = match attempt.signal() {
            Signal::Go => None,
            Signal::Told(stop) | Signal::Halt(stop) => Some(stop),
        };
        let outcome = outcome(ended, told, ladder_ms, &timeout_text);
        let failed = matches!(outcome, Some(Outcome::Retry { .. }));
        engine.breakers.ended(&kind, failed, engine.world.boot_ms());
        engine.finish(&attempt, outcome);
    });
}

fn context(engine: &Engine, job: Job, attempt: &Arc<Attempt>, slot: Arc<Slot>) -> Context {
    Context::new(job, engine.source.clone(), engine.world.clone(), attempt.clone(), slot)
}

/// How the handler's future ended.
enum Ended {
    Returned(Result<Option<Json>, Failure>),
    Panicked(String),
    Stopped,
}

async fn run(handler: Arc<dyn Handler>, context: Context, attempt: &Attempt) -> Ended {
    let mut signals = attempt.signals();
    let work = AssertUnwindSafe(handler.run(context)).catch_unwind();
    tokio::select! {
        biased;
        _ = signals.wait_for(|signal| matches!(signal, Signal::Halt(_))) => Ended::Stopped,
        returned = work => match returned {
            Ok(returned) => Ended::Returned(returned),
            Err(panic) => Ended::Panicked(panic_text(&*panic)),
        },
    }
}

/// What to settle with; nothing when the lease is lost.
fn outcome(ended: Ended, told: Option<Stop>, ladder_ms: Option<u64>, timeout_text: &str) -> Option<Outcome> {
    match ended {
        Ended::Returned(Ok(result)) => Some(Outcome::Completed { result }),
        // A handler that fails after it was told to stop fails because of that.
        Ended::Returned(Err(failure)) => match (told, failure) {
            (Some(Stop::Shutdown), Failure::Retry { .. } | Failure::Canceled) => Some(Outcome::Released),
            (Some(Stop::Cancel), Failure::Retry { .. } | Failure::Released) => Some(Outcome::Canceled),
            (Some(Stop::Timeout), _) => Failure::retry(timeout_text).outcome(ladder_ms),
            (_, failure) => failure.outcome(ladder_ms),
        },
        Ended::Panicked(text) => Failure::retry(text).outcome(ladder_ms),
        // The lease keeper, who stopped it, has said how it ended.
        Ended::Stopped => None,
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the handler panicked: {}", text.unwrap_or("without a word"))
}
