//! awa: large claims, several claimers; enqueues by the storage itself, which its documentation
//! prefers for many jobs, and by its COPY for batches.

use std::sync::OnceLock;
use std::time::Duration;

use awa::{Client, InsertParams, JobArgs, JobResult, QueueConfig, QueueStorage, QueueStorageConfig};
use peer::{Ask, Fault, Peer, Work};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

const QUEUE: &str = "default";

#[derive(Debug, Serialize, Deserialize, JobArgs)]
struct Bench {
    work: Work,
}

struct Awa {
    pool: PgPool,
    storage: QueueStorage,
    claim: usize,
    claimers: u16,
    client: OnceLock<Client>,
}

impl Peer for Awa {
    async fn connect(ask: &Ask) -> Result<Self, Fault> {
        let pool = PgPoolOptions::new().max_connections(20).connect(&ask.url).await?;
        awa::migrations::run(&pool).await?;
        // The first worker of a fresh database moves it to the engine of 0.6, before anything is enqueued.
        if awa::storage::status(&pool).await?.state == "canonical" {
            let first = Client::builder(pool.clone())
                .queue(QUEUE, QueueConfig::default())
                .register::<Bench, _, _>(|_, _| async move { Ok(JobResult::Completed) })
                .build()?;
            first.start().await?;
            first.shutdown(Duration::from_secs(5)).await;
        }
        let claimers = ask.number("claimers", 2) as u16;
        let storage = QueueStorage::new(QueueStorageConfig::default())?;
        Ok(Self {
            pool,
            storage,
            claim: ask.number("claim", 500) as usize,
            claimers,
            client: OnceLock::new(),
        })
    }

    async fn enqueue(&self, work: Work) -> Result<(), Fault> {
        let params = awa::model::insert::params(&Bench { work })?;
        self.storage.enqueue_params_batch(&self.pool, &[params]).await?;
        Ok(())
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> Result<(), Fault> {
        let params = work.into_iter().map(|work| awa::model::insert::params(&Bench { work }));
        let params: Result<Vec<InsertParams>, _> = params.collect();
        self.storage.enqueue_params_copy(&self.pool, &params?).await?;
        Ok(())
    }

    async fn work(&self) -> Result<(), Fault> {
        let queue = QueueConfig {
            max_workers: 1_000,
            poll_interval: Duration::from_millis(50),
            claimers: self.claimers,
            claim_batch_size: self.claim,
            ..QueueConfig::default()
        };
        let client = Client::builder(self.pool.clone())
            .queue(QUEUE, queue)
            .register::<Bench, _, _>(|args, _| async move {
                peer::ran(&args.work);
                Ok(JobResult::Completed)
            })
            .build()?;
        client.start().await?;
        // Dropped, it would stop.
        let _ = self.client.set(client);
        Ok(())
    }
}

fn main() {
    peer::contest::<Awa>();
}
