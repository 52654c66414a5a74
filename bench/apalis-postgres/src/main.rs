//! apalis on Postgres: large batches, NOTIFY, tasks spawned, and no second
//! lock per task, as its own example has it.

use std::time::Duration;

use apalis::prelude::*;
use apalis_postgres::{Config, PgPool, PostgresStorage};
use peer::{Ask, Fault, Peer, Work};
use sqlx::postgres::PgPoolOptions;

struct Apalis {
    pool: PgPool,
    batch: usize,
}

async fn run(work: Work) -> Result<(), BoxDynError> {
    peer::ran(&work);
    Ok(())
}

impl Apalis {
    fn storage(&self) -> PostgresStorage<Work> {
        let config = Config::default().queue("bench").batch_size(self.batch).lock_tasks(false);
        PostgresStorage::new(&self.pool).with_config(config)
    }
}

impl Peer for Apalis {
    async fn connect(ask: &Ask) -> Result<Self, Fault> {
        let pool = PgPoolOptions::new().max_connections(20).connect(&ask.url).await?;
        PostgresStorage::setup(&pool).await?;
        Ok(Self { pool, batch: ask.number("claim", 1_000) as usize })
    }

    async fn enqueue(&self, work: Work) -> Result<(), Fault> {
        Ok(self.storage().push(work).await.map_err(|fault| fault.to_string())?)
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> Result<(), Fault> {
        Ok(self.storage().push_bulk(work).await.map_err(|fault| fault.to_string())?)
    }

    async fn work(&self) -> Result<(), Fault> {
        let backend = self.storage().with_pubsub().poll_with_interval(Duration::from_millis(100));
        let runtime = tokio::runtime::Handle::current();
        // Its future cannot be spawned, since it spawns by itself.
        std::thread::spawn(move || {
            let name = format!("bench-{}", std::process::id());
            let worker = WorkerBuilder::new(name).backend(backend).parallelize(tokio::spawn).build(run);
            if let Err(fault) = runtime.block_on(worker.run()) {
                eprintln!("the worker failed: {fault}");
            }
        });
        Ok(())
    }
}

fn main() {
    peer::contest::<Apalis>();
}
