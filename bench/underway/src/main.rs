//! underway: one task type, many at once in one worker, woken by NOTIFY and by a short poll.

use std::sync::Arc;

use jiff::ToSpan;
use peer::{Ask, Fault, Peer, Work};
use sqlx::postgres::PgPoolOptions;
use sqlx::{PgPool, Postgres, Transaction};
use underway::task::Result as TaskResult;
use underway::{Queue, Task, Worker};

#[derive(Clone)]
struct Bench;

impl Task for Bench {
    type Input = Work;
    type Output = ();

    async fn execute(&self, _: Transaction<'_, Postgres>, work: Work) -> TaskResult<()> {
        peer::ran(&work);
        Ok(())
    }
}

struct Underway {
    pool: PgPool,
    queue: Arc<Queue<Bench>>,
}

impl Peer for Underway {
    async fn connect(ask: &Ask) -> Result<Self, Fault> {
        let pool = PgPoolOptions::new().max_connections(24).connect(&ask.url).await?;
        underway::run_migrations(&pool).await?;
        let queue = Queue::builder().name("bench").pool(pool.clone()).build().await?;
        Ok(Self { pool, queue: Arc::new(queue) })
    }

    async fn enqueue(&self, work: Work) -> Result<(), Fault> {
        self.queue.enqueue(&self.pool, &Bench, &work).await?;
        Ok(())
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> Result<(), Fault> {
        self.queue.enqueue_multi(&self.pool, &Bench, &work).await?;
        Ok(())
    }

    async fn work(&self) -> Result<(), Fault> {
        let mut worker = Worker::new(self.queue.clone(), Bench);
        worker.set_concurrency_limit(16);
        tokio::spawn(async move {
            if let Err(fault) = worker.run_every(5.milliseconds()).await {
                eprintln!("the worker failed: {fault}");
            }
        });
        Ok(())
    }
}

fn main() {
    peer::contest::<Underway>();
}
