//! A job of its own kind: defined, enqueued and run. `cargo run --example hello`
use windlass::prelude::*;

#[derive(Serialize, Deserialize)]
struct Greet(String);

impl Job for Greet {
    const KIND: &'static str = "greet";
    type Output = ();
}

async fn greet(Greet(name): Greet, _: Context) -> Result<(), Failure> {
    println!("Hello, {name}!");
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = windlass::open("sqlite:hello.db").await?;
    Client::new(store.clone()).enqueue(Greet("world".into())).await?;
    Worker::new(store).handle(greet).run_until_idle().await?;
    Ok(())
}
