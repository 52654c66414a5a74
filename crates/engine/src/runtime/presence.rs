//! Presence: a worker says that it is alive, and signs off when it ends.

use std::sync::Arc;

use windlass_core::store::{Store, WorkerBeat};

use super::{Engine, Phase};
use crate::slots::Slots;
use crate::world::barely_jittered;

/// How often a worker says that it is alive; whoever was not heard of for `WORKER_ALIVE_MS` is taken for dead.
const BEAT_MS: u64 = 24_000;

pub(super) async fn run(engine: Arc<Engine>) {
    let Some(store) = engine.store.clone() else { return };
    tokio::select! {
        () = engine.until(|phase| matches!(phase, Phase::Ended | Phase::Failed(_))) => {}
        () = beat_always(&engine, &*store) => {}
    }
    if let Err(error) = store.forget_worker(engine.settings.name.clone()).await {
        tracing::debug!(
            code = error.code(),
            "could not sign off; the worker is forgotten by itself in an hour"
        );
    }
}

async fn beat_always(engine: &Engine, store: &dyn Store) {
    loop {
        let count = |of: fn(&Slots) -> usize| {
            let all: usize = engine.pools.iter().map(|pool| of(&pool.slots)).sum();
            u32::try_from(all).unwrap_or(u32::MAX)
        };
        let beat = WorkerBeat {
            name: engine.settings.name.clone(),
            queues: engine.pools.iter().flat_map(|pool| pool.queues.iter().cloned()).collect(),
            kinds: Some(engine.settings.kinds.clone()),
            slots: count(Slots::total),
            running: count(Slots::taken),
            version: Some(concat!("windlass/", env!("CARGO_PKG_VERSION")).to_owned()),
            host: Some(rustix::system::uname().nodename().to_string_lossy().into_owned()),
        };
        if let Err(error) = store.beat(beat).await {
            engine.mind(&error, "say that the worker is alive");
        }
        engine.world.sleep_ms(barely_jittered(&*engine.world, BEAT_MS)).await;
    }
}
