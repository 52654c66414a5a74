//! The lease keeper: renews leases, hears of cancels, holds attempts still whose
//! leases it cannot renew, and ends attempts whose time is up. It runs on the
//! engine's thread, where no handler can starve it, and is the last loop to end.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use windlass_core::error::StoreError;
use windlass_core::id::JobId;
use windlass_core::store::{LeaseRef, RenewAnswer};
use windlass_core::transition::Outcome;

use super::{Engine, Phase};
use crate::context::timed_out;
use crate::signal::{Attempt, Stop, look_ms};

/// A renewal is waited for this part of the lease before another is asked for: asked for after a third, it
/// can hang three times before nothing new may be begun.
const PATIENCE_SHARE: u64 = 10;
/// So many may be under way: one that is slow counts when it is answered. A store that comes back after an outage has to be
/// connected to first, and one that was given up each time would never be answered by a store that needs longer than our patience.
const UNDER_WAY_MAX: usize = 4;
/// One that is not answered in this part of the lease, counted in shares of our patience, never will be.
const GIVEN_UP_AFTER: u64 = 6;
/// How often the store is asked for cancels that it did not call about.
const CANCEL_POLL_MS: u64 = 500;
/// The shortest time between two questions for cancels, however often the store
/// calls: it calls for every job that somebody enqueues.
const CANCEL_PACE_MS: u64 = 50;

pub(super) async fn run(engine: Arc<Engine>) {
    let renewals = tokio::spawn(renew_always(engine.clone()));
    let cancels = tokio::spawn(hear_cancels(engine.clone()));
    loop {
        let held = engine.held();
        let now_ms = engine.world.boot_ms();
        for attempt in &held {
            look_at(&engine, attempt, now_ms);
        }
        tokio::select! {
            () = engine.until(ended) => break,
            () = something_held(&engine), if held.is_empty() => {}
            () = engine.world.sleep_ms(tick_ms(&held)), if !held.is_empty() => {}
        }
    }
    renewals.abort();
    cancels.abort();
}

/// Waits until there is a lease to look after: an idle worker has nothing to do.
async fn something_held(engine: &Engine) {
    loop {
        // Asked for before the look: what is held from here on wakes it.
        let held = engine.news.held.notified();
        if engine.held_count() > 0 {
            return;
        }
        held.await;
    }
}

fn ended(phase: &Phase) -> bool {
    matches!(phase, Phase::Ended | Phase::Failed(_))
}

fn tick_ms(held: &[Arc<Attempt>]) -> u64 {
    look_ms(held.iter().map(|attempt| attempt.lease_ms).min().unwrap_or(u64::MAX))
}

fn look_at(engine: &Engine, attempt: &Attempt, now_ms: u64) {
    if attempt.is_finished() {
        return;
    }
    if attempt.is_held_still(now_ms) {
        hold_on(engine, attempt, now_ms);
        if attempt.is_finished() {
            return;
        }
    } else if attempt.has_timed_out(now_ms) {
        attempt.tell(Stop::Timeout, now_ms + engine.settings.grace_ms);
    }
    if let Some(stop) = attempt.waited_long_enough(now_ms) {
        give_up_waiting(engine, attempt, stop);
    }
}

/// Holds an attempt still until the store has said whose the job is, but not for ever; nor is it waited for by a
/// worker that ends, which could tell nobody how it ended.
fn hold_on(engine: &Engine, attempt: &Attempt, now_ms: u64) {
    let (job_id, fence) = (attempt.lease.job_id, attempt.lease.fence);
    if !engine.is_working() && attempt.waited_long_enough(now_ms).is_some() {
        tracing::warn!(%job_id, fence, "the store is away and the worker ends; leaving the attempt");
        engine.lost(attempt);
    } else if attempt.still_for_ms(now_ms) >= engine.settings.still_ms_max {
        tracing::warn!(%job_id, fence, "the store was away for too long; ending the attempt");
        engine.finish(attempt, Some(Outcome::Released));
        engine.end_handler(attempt, Stop::LeaseLost);
    }
}

/// The handler was told and did not end: it is stopped, and the attempt is
/// settled without it. Should it never yield, it keeps its slot, and can write
/// nothing.
fn give_up_waiting(engine: &Engine, attempt: &Attempt, stop: Stop) {
    let outcome = given_up(stop, attempt.timeout_ms);
    engine.counts.stuck.fetch_add(1, Ordering::Relaxed);
    tracing::warn!(job_id = %attempt.lease.job_id, fence = attempt.lease.fence, reason = ?stop, "the handler did not stop when told; stopping it");
    engine.finish(attempt, outcome);
    attempt.halt(stop);
}

/// How an attempt ends whose handler did not stop for this reason; nothing when the lease is lost.
pub(super) fn given_up(stop: Stop, timeout_ms: Option<u64>) -> Option<Outcome> {
    match stop {
        Stop::Cancel => Some(Outcome::Canceled),
        Stop::Shutdown => Some(Outcome::Released),
        Stop::Timeout => Some(Outcome::Retry { error: timed_out(timeout_ms), when: None }),
        Stop::LeaseLost => None,
    }
}

/// A renewal that was asked for.
struct Asked {
    attempts: Vec<Arc<Attempt>>,
    sent_ms: u64,
    /// Nothing when it was given up.
    answer: Option<Result<RenewAnswer, StoreError>>,
}

/// Renewals that were asked for and not answered yet.
type UnderWay = FuturesUnordered<BoxFuture<'static, Asked>>;

/// Renews what is due for as long as the worker lives.
async fn renew_always(engine: Arc<Engine>) {
    let mut under_way = UnderWay::new();
    loop {
        if under_way.is_empty() {
            something_held(&engine).await;
        }
        let now_ms = engine.world.boot_ms();
        let all = engine.epoch.renew_all();
        let due: Vec<_> =
            engine.held().into_iter().filter(|attempt| all || attempt.is_due_for_renewal(now_ms)).collect();
        let shortest_ms = due.iter().map(|attempt| attempt.lease_ms).min();
        let mut pause_ms = tick_ms(&engine.held());
        if let Some(shortest_ms) = shortest_ms {
            let patience_ms = (shortest_ms / PATIENCE_SHARE).max(1);
            if under_way.len() < UNDER_WAY_MAX {
                under_way.push(Box::pin(ask(engine.clone(), due, now_ms, patience_ms * GIVEN_UP_AFTER)));
            }
            let renewed = answered(&engine, &mut under_way, patience_ms).await;
            pause_ms = if renewed { pause_ms } else { (shortest_ms / 20).clamp(5, 1_000) };
            if all && !renewed {
                engine.epoch.remind();
            }
        }
        tokio::select! {
            () = engine.epoch.turned() => {}
            () = engine.world.sleep_ms(pause_ms) => {}
            Some(asked) = under_way.next() => drop(hear(&engine, asked)),
        }
    }
}

/// Asks for a renewal, and gives up after so long.
async fn ask(engine: Arc<Engine>, attempts: Vec<Arc<Attempt>>, sent_ms: u64, given_up_ms: u64) -> Asked {
    let leases: Vec<LeaseRef> = attempts.iter().map(|attempt| attempt.lease).collect();
    let answer = tokio::select! {
        answer = engine.source.renew(leases) => Some(answer),
        () = engine.world.sleep_ms(given_up_ms) => None,
    };
    Asked { attempts, sent_ms, answer }
}

/// Waits for the next answer, but not for ever: a call that hangs must not keep us from asking again in time. Answers whether
/// the store answered.
async fn answered(engine: &Engine, under_way: &mut UnderWay, patience_ms: u64) -> bool {
    tokio::select! {
        Some(asked) = under_way.next() => hear(engine, asked),
        () = engine.world.sleep_ms(patience_ms) => {
            tracing::warn!(under_way = under_way.len(), "a renewal was not answered in time; asking again");
            false
        }
    }
}

/// Hears what became of a renewal; answers whether the store answered.
fn hear(engine: &Engine, asked: Asked) -> bool {
    let Asked { attempts, sent_ms, answer } = asked;
    let answer = match answer {
        Some(Ok(answer)) => answer,
        Some(Err(error)) => {
            engine.mind(&error, "renew");
            return false;
        }
        None => return false,
    };
    engine.epoch.hear(answer.instance);
    let still: HashMap<JobId, u64> = answer.still.into_iter().collect();
    let renewed: HashSet<JobId> = answer.renewed.into_iter().collect();
    let cancel_requested: HashSet<JobId> = answer.cancel_requested.into_iter().collect();
    for attempt in &attempts {
        let job_id = attempt.lease.job_id;
        if renewed.contains(&job_id) {
            attempt.renewed(sent_ms, engine.world.boot_ms(), still.get(&job_id).copied().unwrap_or(0));
        } else if !attempt.is_finished() {
            tracing::warn!(%job_id, fence = attempt.lease.fence, "lease lost; stopping the attempt");
            engine.lost(attempt);
        }
        if cancel_requested.contains(&job_id) {
            tell_cancel(engine, attempt);
        }
    }
    true
}

/// Asks for cancels when the store calls, but not too often, and from time to time.
async fn hear_cancels(engine: Arc<Engine>) {
    loop {
        something_held(&engine).await;
        engine.world.sleep_ms(CANCEL_PACE_MS).await;
        tokio::select! {
            () = engine.news.cancels.notified() => {}
            () = engine.world.sleep_ms(CANCEL_POLL_MS) => {}
        }
        let running: Vec<_> = engine.held().into_iter().filter(|attempt| !attempt.is_finished()).collect();
        if running.is_empty() {
            continue;
        }
        let leases = running.iter().map(|attempt| attempt.lease).collect();
        match engine.source.cancels(leases).await {
            Ok(canceled) => {
                let canceled: HashSet<JobId> = canceled.into_iter().collect();
                for attempt in running.iter().filter(|attempt| canceled.contains(&attempt.lease.job_id)) {
                    tell_cancel(&engine, attempt);
                }
            }
            Err(error) => engine.mind(&error, "ask for cancels"),
        }
    }
}

fn tell_cancel(engine: &Engine, attempt: &Attempt) {
    attempt.tell(Stop::Cancel, engine.world.boot_ms() + engine.settings.grace_ms);
}
