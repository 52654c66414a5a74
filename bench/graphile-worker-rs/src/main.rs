//! The Rust port of graphile-worker: local queue, completions in groups.

use std::time::Duration;

use graphile_worker::{
    IntoTaskHandlerResult, JobSpec, LocalQueueConfig, TaskHandler, WorkerContext, WorkerOptions, WorkerUtils,
};
use peer::{Ask, Fault, Peer, Work};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
struct Bench(Work);

impl TaskHandler for Bench {
    const IDENTIFIER: &'static str = "bench";

    async fn run(self, _: WorkerContext) -> impl IntoTaskHandlerResult {
        peer::ran(&self.0);
        Ok::<(), String>(())
    }
}

struct Graphile {
    pool: PgPool,
    utils: WorkerUtils,
    local: bool,
}

fn options(pool: &PgPool, local: bool) -> WorkerOptions {
    let options = WorkerOptions::default()
        .pg_pool(pool.clone())
        .concurrency(if local { 200 } else { 16 })
        .poll_interval(Duration::from_secs(1))
        .define_job::<Bench>()
        .complete_job_batch_delay(Duration::from_millis(1))
        .fail_job_batch_delay(Duration::from_millis(1))
        .listen_os_shutdown_signals(false);
    if local { options.local_queue(LocalQueueConfig::default().with_size(1_000)) } else { options }
}

impl Peer for Graphile {
    async fn connect(ask: &Ask) -> Result<Self, Fault> {
        let pool = PgPoolOptions::new().max_connections(20).connect(&ask.url).await?;
        let local = ask.measure != "latency";
        let utils = options(&pool, local).init().await?.create_utils();
        Ok(Self { pool, utils, local })
    }

    async fn enqueue(&self, work: Work) -> Result<(), Fault> {
        self.utils.add_job(Bench(work), JobSpec::default()).await?;
        Ok(())
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> Result<(), Fault> {
        let spec = JobSpec::default();
        let jobs: Vec<_> = work.into_iter().map(|work| (Bench(work), &spec)).collect();
        self.utils.add_jobs::<Bench>(&jobs).await?;
        Ok(())
    }

    async fn work(&self) -> Result<(), Fault> {
        let worker = options(&self.pool, self.local).init().await?;
        tokio::spawn(async move {
            if let Err(fault) = worker.run().await {
                eprintln!("the worker failed: {fault}");
            }
        });
        Ok(())
    }
}

fn main() {
    peer::contest::<Graphile>();
}
