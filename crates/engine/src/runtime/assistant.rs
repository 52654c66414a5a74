//! The assistant: claims beside the producer while there is more to do than one
//! claim gives, so that the store is not idle while an answer is read.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Engine, Phase, Pool, producer};

/// How long it waits for slots to become free before it looks again.
const LOOK_MS: u64 = 1;
/// How often it looks before it leaves the rest to the producer.
const LOOKS_MAX: u32 = 20;

pub(super) async fn run(engine: Arc<Engine>, pool: Arc<Pool>) {
    if engine.source.capabilities().claims_at_once < 2 {
        return;
    }
    loop {
        tokio::select! {
            () = engine.until(|phase| *phase != Phase::Working) => return,
            () = pool.full_news.notified() => {}
        }
        while let Some(free) = free_slots(&engine, &pool).await {
            let claiming = engine.claiming();
            let claimed =
                if engine.is_working() { producer::claim(&engine, &pool, free).await.ok() } else { None };
            drop(claiming);
            if !claimed.is_some_and(|claimed| claimed.is_full()) {
                break;
            }
        }
    }
}

/// Waits for enough free slots, as long as the producer finds more than it can take, and not for long.
async fn free_slots(engine: &Engine, pool: &Pool) -> Option<usize> {
    for _ in 0..LOOKS_MAX {
        if !engine.is_working() || !pool.full.load(Ordering::Relaxed) {
            return None;
        }
        let free = producer::room(engine, pool);
        if free > 0 && !producer::is_crowded(pool, free) {
            return Some(free);
        }
        engine.world.sleep_ms(LOOK_MS).await;
    }
    None
}
