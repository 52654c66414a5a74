//! A cron line that enqueues jobs, in a time zone, over a whole fleet once.
//! `cargo run --example schedules` (ends after three runs)

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use windlass::core::id::{Kind, QueueName, ScheduleName};
use windlass::core::job::JobSpec;
use windlass::core::json::Json;
use windlass::core::policy::schedule::{Missed, Overlap, SchedulePolicy};
use windlass::core::store::Store;
use windlass::world::RealWorld;
use windlass::{Context, Payload, Worker};
use windlass_sqlite::{Options, SqliteStore};

#[derive(Serialize, Deserialize)]
struct Tick {}

impl Payload for Tick {
    const KIND: &'static str = "tick";
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = SqliteStore::open_with("schedules.db", Options::new(Arc::new(RealWorld::new()))).await?;
    let policy = SchedulePolicy {
        cron: "* * * * * *".into(), // every second; five fields for every minute and more
        zone: "Europe/Berlin".into(),
        overlap: Overlap::Skip, // leave a run out while the job of the one before is not over
        missed: Missed::Last,   // after a pause make up for the newest missed run only
        paused: false,
        job: JobSpec::new(Kind::new("tick")?, QueueName::default(), Json::payload("{}")?),
    };
    store.put_schedule(ScheduleName::new("every-second")?, policy).await?;
    let (runs, enough) = (Arc::new(AtomicU32::new(0)), Arc::new(Notify::new()));
    let worker = Worker::new(store).handle({
        let enough = enough.clone();
        move |_: Tick, ctx: Context| {
            println!("run of {}", ctx.job().created_at);
            if runs.fetch_add(1, Ordering::Relaxed) == 2 {
                enough.notify_one();
            }
            async { Ok(()) }
        }
    });
    worker.run_until(async move { enough.notified().await }).await?;
    Ok(())
}
