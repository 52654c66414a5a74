//! A job as a process of its own, with this same binary: what it does cannot
//! harm the worker, and it can be stopped whatever it does.
//! `cargo run --example child_process`

use std::sync::Arc;

use windlass::process::{Command, Inside};
use windlass::world::RealWorld;
use windlass::{Client, Failure, NewJobBuilder, Worker};
use windlass_sqlite::{Options, SqliteStore};

/// The side of the process: payload on stdin, words on stdout.
fn count_words(job: &Inside) -> Result<(), Failure> {
    let text: String = job.payload()?;
    job.progress("counting")?;
    let words = job.step("count", || Ok(text.split_whitespace().count()))?;
    job.result(&words)
}

fn main() -> anyhow::Result<()> {
    if let Some(job) = Inside::read().map_err(|failure| anyhow::anyhow!("{failure:?}"))? {
        std::process::exit(Inside::exit_code(count_words(&job)));
    }
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let store = SqliteStore::open_with("child.db", Options::new(Arc::new(RealWorld::new()))).await?;
    let client = Client::new(store.clone());
    let job = client.enqueue_job(NewJobBuilder::new("count-words", "three short words")?).await?;
    let program = Command::this_binary(["count-words"])?;
    Worker::new(store).handle_command("count-words", program).run_until_idle().await?;
    let job = client.get(job.id).await?.expect("the job is kept for 30 days");
    println!("{:?}", job.state);
    Ok(())
}
