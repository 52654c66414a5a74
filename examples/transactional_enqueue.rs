//! A job that exists only if your own transaction commits.
//! `DATABASE_URL=postgres://… cargo run --example transactional_enqueue`

use anyhow::Context as _;
use windlass::postgres::{enqueue_in, tokio_postgres};
use windlass::prelude::*;

#[derive(Serialize, Deserialize)]
struct Welcome {
    user: String,
}

impl Job for Welcome {
    const KIND: &'static str = "welcome";
    type Output = ();
}

async fn welcome(job: Welcome, _: Context) -> Result<(), Failure> {
    println!("Welcome, {}!", job.user);
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::var("DATABASE_URL").context("set DATABASE_URL to a Postgres database")?;
    let store = windlass::open(&url).await?;

    // Your own connection, your own transaction, your own tables.
    let (mut sql, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await?;
    tokio::spawn(connection);
    sql.batch_execute("CREATE TEMP TABLE users (name text)").await?;
    for (user, commits) in [("Ada", true), ("nobody", false)] {
        let transaction = sql.transaction().await?;
        transaction.execute("INSERT INTO users VALUES ($1)", &[&user]).await?;
        enqueue_in(&transaction, Welcome { user: user.to_owned() }).await?;
        // Any language can do the same in plain SQL.
        transaction
            .execute(
                "SELECT windlass.enqueue('welcome', jsonb_build_object('user', $1 || ' in SQL'))",
                &[&user],
            )
            .await?;
        if commits {
            transaction.commit().await?;
        } else {
            transaction.rollback().await?; // and the jobs were never there
        }
    }

    Worker::new(store).handle(welcome).run_until_idle().await?;
    Ok(())
}
