//! River's own client for Rust, on Postgres or SQLite: the shortest fetch
//! cool-down that it allows, many workers; it completes in batches by itself.

use std::time::Duration;

use peer::{Ask, Fault, Peer, Work};
use riverqueue::migrate::{PostgresMigrator, SqliteMigrator};
use riverqueue::sqlx::postgres::PgPoolOptions;
use riverqueue::sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous,
};
use riverqueue::{Client, ClientBuilder, FETCH_COOLDOWN_MIN, Job, JobArgs, QueueConfig, WorkContext};
use riverqueue::{WorkOutcome, Workers};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize, JobArgs)]
#[river(kind = "bench")]
struct Args {
    work: Work,
}

struct River(Client);

async fn run(_: WorkContext, job: Job<Args>) -> Result<WorkOutcome, std::io::Error> {
    peer::ran(&job.args.work);
    Ok(WorkOutcome::Complete)
}

impl Peer for River {
    async fn connect(ask: &Ask) -> Result<Self, Fault> {
        let builder = open(&ask.url).await?;
        let mut workers = Workers::new();
        workers.add_fn(run)?;
        let queue = QueueConfig::new(2_000)
            .with_fetch_poll_interval(Duration::from_millis(ask.number("poll_ms", 100)));
        Ok(Self(builder.workers(workers).queue("default", queue).fetch_cooldown(FETCH_COOLDOWN_MIN).build()?))
    }

    async fn enqueue(&self, work: Work) -> Result<(), Fault> {
        self.0.insert(Args { work }).await?;
        Ok(())
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> Result<(), Fault> {
        self.0.insert_many(work.into_iter().map(|work| Args { work })).await?;
        Ok(())
    }

    async fn work(&self) -> Result<(), Fault> {
        self.0.start()?.detach();
        Ok(())
    }
}

async fn open(url: &str) -> Result<ClientBuilder, Fault> {
    if let Some(path) = url.strip_prefix("sqlite:") {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(30));
        let pool = SqlitePoolOptions::new().max_connections(5).connect_with(options).await?;
        SqliteMigrator::new(pool.clone()).migrate_up().await?;
        return Ok(Client::builder(pool));
    }
    let pool = PgPoolOptions::new().max_connections(20).connect(url).await?;
    PostgresMigrator::new(pool.clone()).migrate_up().await?;
    Ok(Client::builder(pool))
}

fn main() {
    peer::contest::<River>();
}
