//! How a worker ends: it claims no more, tells its handlers, waits, gives back
//! what still runs, and lets go of its leases last.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;

use super::{Engine, Phase, Until};
use crate::signal::Stop;

/// What ends a worker when it is done.
pub type Shutdown = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How often a worker that ends looks whether its last leases are gone, should nobody say so.
const LOOK_MS: u64 = 250;

/// A shutdown on SIGTERM or SIGINT.
pub fn shutdown_on_signals() -> std::io::Result<Shutdown> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut term = signal(SignalKind::terminate())?;
    let mut int = signal(SignalKind::interrupt())?;
    Ok(Box::pin(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = int.recv() => {}
        }
    }))
}

/// Waits for the shutdown and brings the worker to its end.
pub(super) async fn drain(engine: &Engine, shutdown: Shutdown) {
    tokio::select! {
        () = shutdown => {}
        () = idle(engine), if engine.settings.until != Until::Shutdown => {}
        () = spent(engine), if engine.settings.jobs_max.is_some() => {}
        () = engine.until(|phase| matches!(phase, Phase::Failed(_))) => {}
    }
    let began = engine.phase.send_if_modified(|phase| {
        let working = *phase == Phase::Working;
        if working {
            *phase = Phase::Draining;
        }
        working
    });
    if !began {
        // The store has stopped: nothing can be settled any more.
        halt_all(engine);
        return;
    }
    wait_for_handlers(engine).await;
    engine.phase.send_if_modified(|phase| {
        let draining = *phase == Phase::Draining;
        if draining {
            *phase = Phase::Ended;
        }
        draining
    });
    halt_all(engine);
}

/// Waits until nothing is held any more. The lease keeper stops handlers whose
/// grace is over, and the settler goes on until all is settled or lost.
async fn wait_for_handlers(engine: &Engine) {
    loop {
        let grace_ends_ms = engine.world.boot_ms() + engine.settings.grace_ms;
        let held = engine.held();
        if held.is_empty() && engine.counts.claiming.load(Ordering::SeqCst) == 0 {
            return;
        }
        for attempt in held.iter().filter(|attempt| !attempt.is_finished()) {
            attempt.tell(Stop::Shutdown, grace_ends_ms);
        }
        tokio::select! {
            () = engine.news.settled.notified() => {}
            () = engine.world.sleep_ms(LOOK_MS) => {}
            () = engine.until(|phase| matches!(phase, Phase::Failed(_))) => return,
        }
    }
}

fn halt_all(engine: &Engine) {
    for attempt in engine.held() {
        attempt.halt(Stop::LeaseLost);
    }
}

/// Waits until there is nothing to do: nothing claimed, nothing held, nothing
/// that becomes due by time alone.
async fn idle(engine: &Engine) {
    loop {
        // Asked for before the look: what changes from here on wakes it.
        let quiet = engine.news.quiet.notified();
        let claiming = engine.counts.claiming.load(Ordering::SeqCst) > 0;
        let changes = engine.changes();
        let idle = engine.pools.iter().all(|pool| pool.idle_at.load(Ordering::SeqCst) == changes);
        if idle && !claiming && engine.held_count() == 0 {
            return;
        }
        quiet.await;
    }
}

/// Waits until as many jobs as the worker may begin have ended.
async fn spent(engine: &Engine) {
    loop {
        let quiet = engine.news.quiet.notified();
        // In this order: once all have been begun no claim gives any more, and what a claim gave is held before it is over.
        let is_spent = engine.allowance.is_spent();
        let claiming = engine.counts.claiming.load(Ordering::SeqCst) > 0;
        if is_spent && !claiming && engine.held_count() == 0 {
            return;
        }
        quiet.await;
    }
}
