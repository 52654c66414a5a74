//! A job that exists only if your own transaction commits, in plain SQL.
//! `DATABASE_URL=postgres://… cargo run --example transactional_enqueue`

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use windlass::{Context, Failure, Payload, Worker};
use windlass_postgres::{Options, PostgresStore};

#[derive(Serialize, Deserialize)]
struct Welcome {
    user: String,
}

impl Payload for Welcome {
    const KIND: &'static str = "welcome";
}

async fn welcome(job: Welcome, _: Context) -> Result<(), Failure> {
    println!("Welcome, {}!", job.user);
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("set DATABASE_URL to a Postgres database")?;
    let store = PostgresStore::connect_with(&url, Options::default()).await?;

    // Your own connection, your own transaction, your own tables.
    let (mut sql, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    sql.batch_execute("CREATE TEMP TABLE users (name text)").await?;
    for (user, commits) in [("Ada", true), ("nobody", false)] {
        let transaction = sql.transaction().await?;
        transaction.execute("INSERT INTO users VALUES ($1)", &[&user]).await?;
        transaction
            .execute("SELECT windlass.enqueue('welcome', jsonb_build_object('user', $1::text))", &[&user])
            .await?;
        if commits {
            transaction.commit().await?;
        } else {
            transaction.rollback().await?; // and the job was never there
        }
    }

    Worker::new(store).handle(welcome).run_until_idle().await?;
    Ok(())
}
