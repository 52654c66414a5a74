//! Measures the Nurse Tour worker: messages a second, the time of a claim
//! beside a million finished messages and beside thousands that are held, memory
//! with large notes in flight, and how soon the webhook answers.
//!
//! Worker and webhook are the real program, in processes of their own; Postgres
//! and the stand-ins (which answer at once) share the machine with them.

mod claims;
mod cpu;
mod place;
mod spread;
mod webhook;
mod worker;

use anyhow::bail;

const USAGE: &str = "usage: nurse_tour_bench throughput [messages] [concurrency] | memory [messages] \
    | claims [finished] [held] [claims] | webhook [requests]";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: i64| args.get(at).and_then(|text| text.parse().ok()).unwrap_or(default);
    match args.first().map(String::as_str) {
        Some("throughput") => worker::throughput(number(1, 10_000), number(2, 64)).await,
        Some("memory") => worker::memory(number(1, 64)).await,
        Some("claims") => claims::claims(number(1, 1_000_000), number(2, 6_000), number(3, 2_000)).await,
        Some("webhook") => webhook::webhook(number(1, 500)).await,
        _ => bail!(USAGE),
    }
}
