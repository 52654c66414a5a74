//! The stream of the sample: about a job a second, in turns, and none while
//! jobs pile up.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use windlass_engine::core::store::Store;
use windlass_engine::world::{RealWorld, World};
use windlass_engine::{Client, JobRequest};

use super::jobs::{Broken, Call, Flaky, Report, Resize, Sync};
use super::{BUDGET, QUICK, SLOW};

/// Between two jobs.
const EVERY_MS: u64 = 900;
/// With so many queued jobs the stream waits.
const QUEUED_MAX: u64 = 60;
/// How many jobs there are at the start, so that nobody looks at an empty page.
const AT_FIRST: u64 = 24;

/// Enqueues without end; gives the reason when it cannot go on.
pub async fn run(store: Arc<dyn Store>) -> anyhow::Error {
    match go(store).await {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

async fn go(store: Arc<dyn Store>) -> anyhow::Result<Infallible> {
    let world = RealWorld::new();
    let client = Client::new(store.clone());
    for turn in 0..AT_FIRST {
        client.enqueue(job(turn)).await?;
    }
    let mut turn = AT_FIRST;
    loop {
        world.sleep_ms(EVERY_MS).await;
        let queues = store.queues().await?;
        let own = queues.iter().filter(|queue| [QUICK, SLOW].contains(&queue.name.as_str()));
        if own.map(|queue| queue.queued).sum::<u64>() < QUEUED_MAX {
            client.enqueue(job(turn)).await?;
            turn += 1;
        }
    }
}

/// The job of a turn: mostly quick successes, and some of everything else.
fn job(turn: u64) -> JobRequest {
    let image = format!("cat-{turn}.png");
    match turn % 12 {
        1 | 7 => JobRequest::of(&Call { endpoint: "/v1/listings".into(), page: turn }).budget(BUDGET),
        2 => JobRequest::of(&Flaky { host: "shop.example".into(), fails: 1 + u32::from(turn % 24 == 2) }),
        // Two in a row for one shop: the second waits for the key.
        3 | 4 | 9 => {
            let shop = turn / 12 % 3 + 1;
            JobRequest::of(&Sync { shop, items: 6 }).key(format!("shop-{shop}"))
        }
        5 if turn % 24 == 5 => JobRequest::of(&Broken { image }),
        // More often than its ladder has rungs: failed in the end.
        6 if turn % 60 == 6 => JobRequest::of(&Flaky { host: "slow.example".into(), fails: 9 }),
        8 => JobRequest::of(&Resize { image, width: 640 }).delay(Duration::from_secs(45)),
        10 => JobRequest::of(&Report { rows: 40 }).priority(5),
        _ => JobRequest::of(&Resize { image, width: 320 + (turn % 7) as u32 * 160 }),
    }
}
