//! The housekeeper: what any worker does for the whole store. Takes back lost
//! leases, fires schedules, prunes, and says that this worker is alive. Many
//! workers may do it at once; the store sees to it that each thing happens once.

use std::sync::Arc;

use windlass_core::store::{EXPIRE_MAX, PRUNE_MAX, Store, WorkerBeat};

use super::{Engine, Phase};
use crate::world::half_jittered;

/// How often lost leases are looked for, at least and at most.
const EXPIRE_MS: std::ops::RangeInclusive<u64> = 20..=2_000;
/// How often schedules are looked at, at least and at most. A new schedule
/// must not wait longer than this for its first run.
const FIRE_MS: std::ops::RangeInclusive<u64> = 5..=1_000;
/// How often a worker says that it is alive.
const BEAT_MS: u64 = 10_000;
/// How often finished jobs are pruned.
const PRUNE_MS: u64 = 60_000;

pub(super) async fn run(engine: Arc<Engine>) {
    if !engine.settings.housekeeping {
        return;
    }
    let work = async {
        match engine.store.clone() {
            None => expire(&engine).await,
            Some(store) => {
                let (engine, store) = (&*engine, &*store);
                tokio::join!(expire(engine), fire(engine, store), beat(engine, store), prune(engine, store));
            }
        }
    };
    tokio::select! {
        () = engine.until(|phase| matches!(phase, Phase::Ended | Phase::Failed(_))) => {}
        () = work => {}
    }
    if let Some(store) = &engine.store
        && let Err(error) = store.forget_worker(engine.settings.name.clone()).await
    {
        tracing::debug!(
            code = error.code(),
            "could not sign off; the worker is forgotten by itself in an hour"
        );
    }
}

async fn expire(engine: &Engine) {
    loop {
        let wait_ms = match engine.source.expire().await {
            Ok(expired) => {
                for job_id in &expired.jobs {
                    tracing::warn!(%job_id, "took back a lease that had run out");
                }
                if expired.jobs.len() >= EXPIRE_MAX as usize {
                    0
                } else {
                    expired.next_in_ms.unwrap_or(u64::MAX)
                }
            }
            Err(error) => {
                engine.mind(&error, "take back leases");
                u64::MAX
            }
        };
        pause(engine, wait_ms.clamp(*EXPIRE_MS.start(), *EXPIRE_MS.end())).await;
    }
}

async fn fire(engine: &Engine, store: &dyn Store) {
    loop {
        let wait_ms = match store.fire_schedules().await {
            Ok(fired) => {
                for run in &fired.runs {
                    tracing::info!(schedule = %run.schedule, run = %run.run, job_id = %run.job_id, skipped = run.skipped, "schedule");
                }
                fired.next_in_ms.unwrap_or(u64::MAX)
            }
            Err(error) => {
                engine.mind(&error, "fire schedules");
                u64::MAX
            }
        };
        // Not before it is due: a schedule is never early.
        engine.world.sleep_ms(wait_ms.clamp(*FIRE_MS.start(), *FIRE_MS.end())).await;
    }
}

async fn beat(engine: &Engine, store: &dyn Store) {
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
        pause(engine, BEAT_MS).await;
    }
}

async fn prune(engine: &Engine, store: &dyn Store) {
    loop {
        match store.prune().await {
            Ok(pruned) if pruned >= u64::from(PRUNE_MAX) => continue,
            Ok(_) => {}
            Err(error) => engine.mind(&error, "prune"),
        }
        pause(engine, PRUNE_MS).await;
    }
}

/// Workers that were started together must not all come at once.
async fn pause(engine: &Engine, ms: u64) {
    engine.world.sleep_ms(half_jittered(&*engine.world, ms)).await;
}
