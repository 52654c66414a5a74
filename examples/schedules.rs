//! A cron line that enqueues jobs, in a time zone, over a whole fleet once.
//! `cargo run --example schedules` (ends after three runs)

use windlass::prelude::*;
use windlass::{Missed, Overlap};

#[derive(Serialize, Deserialize)]
struct Tick {}

impl Job for Tick {
    const KIND: &'static str = "tick";
    type Output = ();
}

async fn tick(_: Tick, ctx: Context) -> Result<(), Failure> {
    println!("run of {}", ctx.job().created_at);
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
    Worker::new(store).jobs_max(3).handle(tick).run_until_signal().await?;
    Ok(())
}
