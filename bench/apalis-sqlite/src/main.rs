//! apalis on SQLite. Its own `setup` turns synchronous off, so an answer
//! survives no power cut; `--durability off` measures that, and the default
//! opens the file with WAL and FULL and runs its migrations only.

use std::time::Duration;

use apalis::prelude::*;
use apalis_sqlite::{Config, SqlitePool, SqliteStorage};
use peer::{Ask, Fault, Peer, Work};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};

struct Apalis {
    pool: SqlitePool,
    batch: usize,
}

async fn run(work: Work) -> Result<(), BoxDynError> {
    peer::ran(&work);
    Ok(())
}

impl Apalis {
    fn storage(&self) -> SqliteStorage<Work> {
        let config = Config::default().queue("bench").batch_size(self.batch).lock_tasks(false);
        SqliteStorage::new(&self.pool).with_config(config)
    }
}

impl Peer for Apalis {
    async fn connect(ask: &Ask) -> Result<Self, Fault> {
        let off = ask.text("durability") == Some("off");
        let options = SqliteConnectOptions::new()
            .filename(ask.url.trim_start_matches("sqlite:"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(if off { SqliteSynchronous::Off } else { SqliteSynchronous::Full })
            .busy_timeout(Duration::from_secs(30));
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
        if off {
            SqliteStorage::setup(&pool).await?;
        } else {
            SqliteStorage::migrations().run(&pool).await?;
        }
        Ok(Self { pool, batch: ask.number("claim", 1_000) as usize })
    }

    async fn enqueue(&self, work: Work) -> Result<(), Fault> {
        Ok(self.storage().push(work).await.map_err(|fault| fault.to_string())?)
    }

    async fn enqueue_many(&self, work: Vec<Work>) -> Result<(), Fault> {
        Ok(self.storage().push_bulk(work).await.map_err(|fault| fault.to_string())?)
    }

    async fn work(&self) -> Result<(), Fault> {
        let backend = self.storage().poll_with_interval(Duration::from_millis(10));
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
