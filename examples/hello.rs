//! A job of its own kind: defined, enqueued and run. `cargo run --example hello`
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use windlass::{Client, Context, Failure, Payload, Worker, world::RealWorld};
use windlass_sqlite::{Options, SqliteStore};

#[derive(Serialize, Deserialize)]
struct Greet(String);

impl Payload for Greet {
    const KIND: &'static str = "greet";
}

async fn greet(Greet(name): Greet, _: Context) -> Result<(), Failure> {
    println!("Hello, {name}!");
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = SqliteStore::open_with("hello.db", Options::new(Arc::new(RealWorld::new()))).await?;
    Client::new(store.clone()).enqueue(Greet("world".into())).await?;
    Worker::new(store).handle(greet).run_until_idle().await?;
    Ok(())
}
