//! fang: async workers, as many as connections, finished tasks kept. It has
//! no call for a batch, so the 1,000 jobs of one go over 16 calls at a time.

use std::time::Duration;

use fang::asynk::async_queue::{AsyncQueue, AsyncQueueable};
use fang::asynk::async_worker_pool::AsyncWorkerPool;
use fang::{AsyncRunnable, FangError, RetentionMode, SleepParams, async_trait, typetag};
use peer::{Ask, Fault, Peer, Work};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgPoolOptions;

/// What its migration makes, so that its library for migrations is not needed.
const SCHEMA: &str = include_str!("schema.sql");
const WORKERS: u32 = 16;

#[derive(Serialize, Deserialize)]
struct Bench {
    work: Work,
}

#[typetag::serde]
#[async_trait]
impl AsyncRunnable for Bench {
    async fn run(&self, _: &dyn AsyncQueueable) -> Result<(), FangError> {
        peer::ran(&self.work);
        Ok(())
    }
}

struct Fang(AsyncQueue);

impl Peer for Fang {
    async fn connect(ask: &Ask) -> Result<Self, Fault> {
        let pool = PgPoolOptions::new().max_connections(1).connect(&ask.url).await?;
        sqlx::raw_sql(SCHEMA).execute(&pool).await?;
        let mut queue = AsyncQueue::builder().uri(ask.url.clone()).max_pool_size(WORKERS + 4).build();
        queue.connect().await?;
        Ok(Self(queue))
    }

    async fn enqueue(&self, work: Work) -> Result<(), Fault> {
        self.0.insert_task(&Bench { work }).await?;
        Ok(())
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> Result<(), Fault> {
        for part in work.chunks(16) {
            let inserts = part.iter().map(|work| self.enqueue(work.clone()));
            futures::future::try_join_all(inserts).await?;
        }
        Ok(())
    }

    async fn work(&self) -> Result<(), Fault> {
        let pause = Duration::from_millis(5);
        let sleep = SleepParams {
            sleep_period: pause,
            max_sleep_period: pause,
            min_sleep_period: pause,
            sleep_step: Duration::ZERO,
        };
        let mut pool: AsyncWorkerPool<AsyncQueue> = AsyncWorkerPool::builder()
            .number_of_workers(WORKERS)
            .queue(self.0.clone())
            .retention_mode(RetentionMode::KeepAll)
            .sleep_params(sleep)
            .build();
        pool.start().await;
        Ok(())
    }
}

fn main() {
    peer::contest::<Fang>();
}
