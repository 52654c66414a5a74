//! One job per shop at a time, and so many calls per second over all shops and
//! all machines. `cargo run --example keys_and_budgets`

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::core::id::BudgetName;
use windlass::core::policy::budget::BudgetPolicy;
use windlass::core::store::Store;
use windlass::world::RealWorld;
use windlass::{Client, Context, Failure, NewJobBuilder, Payload, Worker};
use windlass_sqlite::{Options, SqliteStore};

#[derive(Serialize, Deserialize)]
struct Sync {
    shop: u32,
    page: u32,
}

impl Payload for Sync {
    const KIND: &'static str = "sync";
}

async fn sync(job: Sync, ctx: Context) -> Result<(), Failure> {
    // Waits until the budget allows one more call, over the whole fleet.
    ctx.spend("calls", 1).await?;
    println!("shop {} page {}", job.shop, job.page);
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = SqliteStore::open_with("shops.db", Options::new(Arc::new(RealWorld::new()))).await?;
    let calls = BudgetPolicy { per_second: Some(20), per_day: Some(10_000), slots: None };
    store.put_budget(BudgetName::new("calls")?, calls).await?;
    let client = Client::new(store.clone());
    for page in 1..=4 {
        for shop in 1..=3 {
            // The key: no two jobs of a shop run at once, and its pages come in order.
            let job = NewJobBuilder::of(&Sync { shop, page })?.key(&format!("shop-{shop}"))?;
            client.enqueue_job(job).await?;
        }
    }
    let summary = Worker::new(store).slots(8).handle(sync).run_until_idle().await?;
    println!("{} pages", summary.settled);
    Ok(())
}
