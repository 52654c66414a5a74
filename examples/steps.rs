//! A job that fails half-way and goes on from its last step. `cargo run --example steps`

use std::time::Duration;

use windlass::prelude::*;

#[derive(Serialize, Deserialize)]
struct Publish {
    article: u32,
}

impl Job for Publish {
    const KIND: &'static str = "publish";
    type Output = String;
}

async fn publish(job: Publish, ctx: Context) -> Result<String, Failure> {
    let text = ctx
        .step("fetch", async || {
            println!("fetching article {} (once)", job.article);
            Ok("a long text".to_owned())
        })
        .await?;
    ctx.progress(&serde_json::json!({ "fetched": text.len() })).await?;
    if ctx.attempt() == 1 {
        println!("something breaks");
        Err("the press is jammed").retry_after(Duration::from_millis(100))?;
    }
    let url = ctx
        .step("print", async || {
            println!("printing {} letters (once)", text.len());
            Ok(format!("/articles/{}", job.article))
        })
        .await?;
    Ok(url)
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = windlass::open("sqlite:steps.db").await?;
    let client = Client::new(store.clone());
    let job = client.enqueue(Publish { article: 7 }).await?;
    Worker::new(store).handle(publish).run_until_idle().await?;
    println!("published at {}", job.wait().await?);
    let job = client.get(job.id()).await?.expect("the job is kept for 30 days");
    println!("{} after {} attempts", job.state.name(), job.attempt);
    Ok(())
}
