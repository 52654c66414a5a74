//! A job as a process of its own, with this same binary: what it does cannot
//! harm the worker, and it can be stopped whatever it does.
//! `cargo run --example child_process`

use windlass::prelude::*;
use windlass::process::{Command, Inside};

/// The side of the process: payload on stdin, words on stdout.
fn count_words(job: &Inside) -> Result<(), Failure> {
    let text: String = job.payload()?;
    job.progress("counting")?;
    let words = job.step("count", || Ok(text.split_whitespace().count()))?;
    job.result(&words)
}

fn main() -> anyhow::Result<()> {
    if let Some(job) = Inside::read().map_err(Failure::into_error).map_err(anyhow::Error::from_boxed)? {
        std::process::exit(Inside::exit_code(count_words(&job)));
    }
    tokio::runtime::Runtime::new()?.block_on(run())
}

async fn run() -> anyhow::Result<()> {
    let store = windlass::open("sqlite:child.db").await?;
    let job = Client::new(store.clone()).enqueue(JobRequest::new("count-words", "three short words")).await?;
    let program = Command::this_binary(["count-words"])?;
    Worker::new(store).handle_command("count-words", program).run_until_idle().await?;
    println!("{} words", job.wait().await?);
    Ok(())
}
