//! One job per shop at a time, and so many calls per second over all shops and
//! all machines. `cargo run --example keys_and_budgets`

use windlass::prelude::*;
use windlass::{BudgetName, BudgetPolicy};

#[derive(Serialize, Deserialize)]
struct Sync {
    shop: u32,
    page: u32,
}

impl Job for Sync {
    const KIND: &'static str = "sync";
    type Output = ();

    // No two jobs of a shop run at once, and its pages come in order.
    fn key(&self) -> Option<String> {
        Some(format!("shop-{}", self.shop))
    }
}

async fn sync(job: Sync, ctx: Context) -> Result<(), Failure> {
    // Waits until the budget allows one more call, over the whole fleet.
    ctx.spend("calls", 1).await?;
    println!("shop {} page {}", job.shop, job.page);
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let store = windlass::open("sqlite:shops.db").await?;
    let calls = BudgetPolicy { per_second: Some(20), per_day: Some(10_000), ..BudgetPolicy::default() };
    store.put_budget(BudgetName::new("calls")?, calls).await?;
    let pages = (1..=4).flat_map(|page| (1..=3).map(move |shop| Sync { shop, page }));
    Client::new(store.clone()).enqueue_many(pages).await?;
    let summary = Worker::new(store).slots(8).handle(sync).run_until_idle().await?;
    println!("{} pages", summary.settled);
    Ok(())
}
