//! What a fleet of remote workers cannot do for itself: take back lost leases,
//! fire schedules, prune. Many servers and workers may do it at once; the
//! store sees to it that each thing happens once.

use std::sync::Arc;

use windlass::core::error::StoreError;
use windlass::core::store::{EXPIRE_MAX, PRUNE_MAX};
use windlass::world::half_jittered;

use crate::api::Api;

/// How often lost leases are looked for, at least and at most.
const EXPIRE_MS: std::ops::RangeInclusive<u64> = 20..=2_000;
/// How often schedules are looked at, at least and at most.
const FIRE_MS: std::ops::RangeInclusive<u64> = 5..=1_000;
/// How often finished jobs are pruned.
const PRUNE_MS: u64 = 60_000;

/// Runs until it is dropped.
pub(crate) async fn run(api: Arc<Api>) {
    tokio::join!(expire(&api), fire(&api), prune(&api));
}

async fn expire(api: &Api) {
    loop {
        let wait_ms = match api.store.expire().await {
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
            Err(error) => mind(&error, "take back leases"),
        };
        pause(api, wait_ms.clamp(*EXPIRE_MS.start(), *EXPIRE_MS.end())).await;
    }
}

async fn fire(api: &Api) {
    loop {
        let wait_ms = match api.store.fire_schedules().await {
            Ok(fired) => {
                for run in &fired.runs {
                    tracing::info!(schedule = ?run.schedule.as_str(), run = %run.run, job_id = %run.job_id, skipped = run.skipped, "schedule");
                }
                fired.next_in_ms.unwrap_or(u64::MAX)
            }
            Err(error) => mind(&error, "fire schedules"),
        };
        // Not before it is due: a schedule is never early.
        api.world.sleep_ms(wait_ms.clamp(*FIRE_MS.start(), *FIRE_MS.end())).await;
    }
}

async fn prune(api: &Api) {
    loop {
        match api.store.prune().await {
            Ok(pruned) if pruned >= u64::from(PRUNE_MAX) => continue,
            Ok(_) => {}
            Err(error) => drop(mind(&error, "prune")),
        }
        pause(api, PRUNE_MS).await;
    }
}

fn mind(error: &StoreError, what: &str) -> u64 {
    tracing::warn!(code = error.code(), %error, "could not {what}; trying again");
    u64::MAX
}

async fn pause(api: &Api, ms: u64) {
    api.world.sleep_ms(half_jittered(&*api.world, ms)).await;
}
