//! Presence: a worker says that it is alive, and signs off when it ends.

use std::sync::Arc;

use windlass_core::store::{Store, WorkerBeat};

use super::{Engine, Phase};
use crate::world::half_jittered;

/// How often a worker says that it is alive.
const BEAT_MS: u64 = 10_000;

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
        let beat = WorkerBeat {
            name: engine.settings.name.clone(),
            queues: engine.settings.queues.clone(),
            kinds: Some(engine.settings.kinds.clone()),
            slots: u32::try_from(engine.slots.total()).unwrap_or(u32::MAX),
            running: u32::try_from(engine.slots.taken()).unwrap_or(u32::MAX),
        };
        if let Err(error) = store.beat(beat).await {
            engine.mind(&error, "say that the worker is alive");
        }
        engine.world.sleep_ms(half_jittered(&*engine.world, BEAT_MS)).await;
    }
}
