//! A cron line that enqueues jobs, in a time zone, over a whole fleet once.
//! `cargo run --example schedules` (ends after three runs)

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::sync::Notify;
use windlass::prelude::*;
use windlass::{Missed, Overlap};

#[derive(Serialize, Deserialize)]
struct Tick {}

impl Job for Tick {
    const KIND: &'static str = "tick";
    type Output = ();
}

/// What the handler shares with the rest of the program.
#[derive(Default)]
struct Runs {
    count: AtomicU32,
    enough: Notify,
}

async fn tick(_: Tick, ctx: Context<Arc<Runs>>) -> Result<(), Failure> {
    println!("run of {}", ctx.job().created_at);
    if ctx.state().count.fetch_add(1, Ordering::Relaxed) == 2 {
        ctx.state().enough.notify_one();
    }
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = windlass::open("sqlite:schedules.db").await?;
    Client::new(store.clone())
        .schedule("every-second")
        .cron("* * * * * *") // every second; five fields for every minute and more
        .zone("Europe/Berlin")
        .overlap(Overlap::Skip) // leave a run out while the job of the one before is not over
        .missed(Missed::Last) // after a pause make up for the newest missed run only
        .job(Tick {})
        .await?;
    let runs = Arc::new(Runs::default());
    let enough = {
        let runs = runs.clone();
        async move { runs.enough.notified().await }
    };
    Worker::new(store).state(runs).handle(tick).run_until(enough).await?;
    Ok(())
}
