//! The executor: runs one attempt to its end.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use tracing::Instrument;
use windlass_core::job::Job;
use windlass_core::json::Json;
use windlass_core::store::Leased;
use windlass_core::trace::TraceParent;
use windlass_core::transition::Outcome;

use super::lease_keeper::given_up;
use super::{Engine, Pool, WorkerEvent};
use crate::context::{Context, Home, timed_out};
use crate::failure::Failure;
use crate::handler::Handler;
use crate::signal::{Attempt, Signal, Stop};
use crate::telemetry;
use crate::world::{World, jittered};

/// Starts an attempt on the runtime where handlers run.
pub(super) fn start(engine: Arc<Engine>, pool: &Pool, leased: Leased, attempt: Arc<Attempt>) {
    let Leased { job, retry_delay_ms, ticket: _ } = leased;
    let Some((kind, handler)) = engine.handlers.get_key_value(&job.spec.kind) else {
        // Only known kinds are claimed; give back what came all the same.
        engine.finish(&attempt, Some(Outcome::Released));
        return;
    };
    let (kind, handler) = (kind.clone(), handler.clone());
    let slot = pool.slots.take();
    let span = tracing::info_span!(
        "attempt", kind = %job.spec.kind, job_id = %job.id, queue = %job.spec.queue, attempt = job.attempt, fence = job.fence,
        traceparent = tracing::field::Empty
    );
    let parent = TraceParent::of(job.spec.meta.as_ref());
    if let Some(parent) = &parent {
        span.record("traceparent", parent.as_str());
    }
    telemetry::adopt(&span, parent);
    let home =
        Home { source: engine.source.clone(), store: engine.store.clone(), world: engine.world.clone() };
    // Made here and not in the task: a task that carries a whole job is a large piece of memory.
    let context = Context::new(job, home, attempt.clone(), engine.settings.grace_ms, slot);
    let ambient = engine.ambient.clone();
    let work = async move {
        engine.tell(&WorkerEvent::Started { job: context.job() });
        tracing::info!("the attempt begins");
        // A handler may drop its context at once; the slot is taken for as long as it runs.
        let kept = context.clone();
        let ended = tokio::select! {
            biased;
            ended = run(&*handler, context, &attempt, &*engine.world) => ended,
            never = kept.run_log().write_as_it_grows(&*engine.world) => match never {},
        };
        if !attempt.is_halted() {
            kept.run_log().write(&*engine.world).await;
        }
        let told = match attempt.signal() {
            Signal::Go => None,
            Signal::Told(stop) | Signal::Halt(stop) => Some(stop),
        };
        let ladder_ms = retry_delay_ms.map(|ms| jittered(&*engine.world, ms));
        // It heard that the lease may be lost, and ended; should the job be ours still, it is given back.
        let gives_back = matches!(ended, Ended::Returned(Err(Failure::LeaseLost))) && attempt.was_warned();
        let outcome = match (gives_back, &ended) {
            (true, _) => Some(Outcome::Released),
            // The lease keeper has settled it so; whoever hears of ends hears of this one, too.
            (_, Ended::Stopped) => told.and_then(|stop| given_up(stop, attempt.timeout_ms)),
            _ => outcome(ended, told, ladder_ms, attempt.timeout_ms),
        };
        let failed = matches!(outcome, Some(Outcome::Retry { .. }));
        engine.breakers.ended(&kind, failed, engine.world.boot_ms());
        if let Some(outcome) = &outcome {
            say(&engine, kept.job(), outcome, engine.world.boot_ms().saturating_sub(attempt.started_ms));
        }
        drop(kept);
        engine.finish(&attempt, outcome);
    };
    ambient.spawn(work.instrument(span));
}

/// Says how an attempt ended. What a handler said of its error stays out of the
/// log: it may hold anything, and is kept with the job.
fn say(engine: &Engine, job: &Job, outcome: &Outcome, took_ms: u64) {
    match outcome {
        Outcome::Retry { when, .. } => {
            tracing::info!(took_ms, next = ?when, "the attempt has failed; it is tried again as long as the ladder says");
        }
        ended => tracing::info!(took_ms, outcome = ended.word(), "the attempt has ended"),
    }
    engine.tell(&WorkerEvent::Ended { job, outcome, took: Duration::from_millis(took_ms) });
}

/// How the handler's future ended.
enum Ended {
    Returned(Result<Option<Json>, Failure>),
    Panicked(String),
    Stopped,
}

/// Runs the handler until it ends or is halted. While the attempt is held still its future is not polled; that is
/// asked of the clock each time, since a process that stood still may wake up here.
async fn run(handler: &dyn Handler, context: Context, attempt: &Attempt, world: &dyn World) -> Ended {
    let mut work = pin!(AssertUnwindSafe(handler.run(context)).catch_unwind());
    // Made before each look: what changes from there on wakes it.
    let mut changed = pin!(attempt.changed());
    let ended = poll_fn(|task| {
        loop {
            if attempt.is_halted() {
                return Poll::Ready(Ended::Stopped);
            }
            if !attempt.is_held_still(world.boot_ms()) {
                match work.as_mut().poll(task) {
                    Poll::Ready(Ok(returned)) => return Poll::Ready(Ended::Returned(returned)),
                    Poll::Ready(Err(panic)) => return Poll::Ready(Ended::Panicked(panic_text(&*panic))),
                    Poll::Pending => {}
                }
            }
            // Only who has to wait listens: most attempts end when they are first looked at.
            if changed.as_mut().poll(task).is_pending() {
                return Poll::Pending;
            }
            changed.set(attempt.changed());
        }
    });
    ended.await
}

/// What to settle with; nothing when the lease is lost.
fn outcome(
    ended: Ended,
    told: Option<Stop>,
    ladder_ms: Option<u64>,
    timeout_ms: Option<u64>,
) -> Option<Outcome> {
    match ended {
        Ended::Returned(Ok(result)) => Some(Outcome::Completed { result }),
        // A handler that fails after it was told to stop fails because of that.
        Ended::Returned(Err(failure)) => match (told, failure) {
            (Some(Stop::Shutdown), Failure::Retry { .. } | Failure::Canceled) => Some(Outcome::Released),
            (Some(Stop::Cancel), Failure::Retry { .. } | Failure::Released) => Some(Outcome::Canceled),
            (Some(Stop::Timeout), _) => Failure::retry(timed_out(timeout_ms)).outcome(ladder_ms),
            (_, failure) => failure.outcome(ladder_ms),
        },
        Ended::Panicked(text) => Failure::retry(text).outcome(ladder_ms),
        Ended::Stopped => None,
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("the handler panicked: {}", text.unwrap_or("without a word"))
}
