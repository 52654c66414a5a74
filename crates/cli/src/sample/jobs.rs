//! The jobs of the sample: each shows one thing that the engine does.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_engine::{Context, Failure, Job, Worker};

use super::{QUICK, SLOW};

/// The kind that the schedule enqueues.
pub const REPORT: &str = Report::KIND;
/// All kinds.
pub const KINDS: [&str; 6] = [Resize::KIND, Call::KIND, Flaky::KIND, Broken::KIND, Sync::KIND, Report::KIND];

/// Gives the worker a handler for each kind.
pub fn handlers(worker: Worker) -> Worker {
    worker.handle(resize).handle(call).handle(flaky).handle(broken).handle(sync).handle(report)
}

macro_rules! jobs {
    ($($(#[$doc:meta])* $name:ident, $kind:literal, $queue:expr, { $($field:ident: $sort:ty),* };)*) => {$(
        $(#[$doc])*
        #[derive(Serialize, Deserialize)]
        pub struct $name {
            $(pub $field: $sort),*
        }

        impl Job for $name {
            const KIND: &'static str = $kind;
            type Output = Value;
            const QUEUE: &'static str = $queue;
        }
    )*};
}

jobs! {
    /// Succeeds, quickly.
    Resize, "sample.resize", QUICK, { image: String, width: u32 };
    /// Takes a budget.
    Call, "sample.call", QUICK, { endpoint: String, page: u64 };
    /// Fails at first, and succeeds when it is tried again.
    Flaky, "sample.flaky", QUICK, { host: String, fails: u32 };
    /// Fails for good.
    Broken, "sample.broken", QUICK, { image: String };
    /// Waits for its key: one per shop.
    Sync, "sample.sync", SLOW, { shop: u64, items: u32 };
    /// Runs in steps and says how far it is.
    Report, "sample.report", SLOW, { rows: u32 };
}

async fn resize(job: Resize, ctx: Context) -> Result<Value, Failure> {
    ctx.sleep(Duration::from_millis(120 + u64::from(job.width) % 400)).await?;
    Ok(json!({ "image": job.image, "width": job.width, "bytes": u64::from(job.width) * 171 }))
}

async fn call(job: Call, ctx: Context) -> Result<Value, Failure> {
    ctx.sleep(Duration::from_millis(300)).await?;
    Ok(json!({ "page": job.page, "items": 25 }))
}

async fn flaky(job: Flaky, ctx: Context) -> Result<Value, Failure> {
    ctx.log(format_args!("GET https://{}/v1/status", job.host));
    ctx.sleep(Duration::from_millis(250)).await?;
    if ctx.attempt() <= job.fails {
        ctx.log("503 Service Unavailable");
        return Err(Failure::retry(format!("{} answered 503 after 250 ms", job.host)));
    }
    Ok(json!({ "attempts": ctx.attempt() }))
}

async fn broken(job: Broken, ctx: Context) -> Result<Value, Failure> {
    ctx.sleep(Duration::from_millis(80)).await?;
    Err(Failure::permanent(format!("{} is not an image: the file begins with \"<html>\"", job.image)))
}

async fn sync(job: Sync, ctx: Context) -> Result<Value, Failure> {
    for done in 1..=job.items {
        ctx.sleep(Duration::from_millis(400)).await?;
        ctx.log(format_args!("item {done} of shop {} is in sync", job.shop));
        ctx.progress(&json!({ "done": done, "of": job.items })).await?;
    }
    Ok(json!({ "shop": job.shop, "items": job.items }))
}

async fn report(job: Report, ctx: Context) -> Result<Value, Failure> {
    let rows = ctx.step("collect", async || pause(&ctx, 1_500, json!({ "rows": job.rows })).await).await?;
    ctx.progress(&json!({ "done": 1, "of": 3 })).await?;
    ctx.log("collected; adding it up");
    let sums = ctx.step("sum", async || pause(&ctx, 2_500, json!({ "total": job.rows * 17 })).await).await?;
    ctx.progress(&json!({ "done": 2, "of": 3 })).await?;
    ctx.log("writing report.csv");
    let file = ctx.step("write", async || pause(&ctx, 1_000, json!({ "file": "report.csv" })).await).await?;
    ctx.progress(&json!({ "done": 3, "of": 3 })).await?;
    Ok(json!({ "collected": rows, "sums": sums, "written": file }))
}

/// Stands for work.
async fn pause(ctx: &Context, ms: u64, gives: Value) -> Result<Value, Failure> {
    ctx.sleep(Duration::from_millis(ms)).await?;
    Ok(gives)
}
