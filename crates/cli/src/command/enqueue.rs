//! `windlass enqueue`: accepts a job.

use std::io::Read;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use windlass_engine::core::id::JobId;
use windlass_engine::core::json::Json;
use windlass_engine::core::time::{Span, Time};
use windlass_engine::{Client, JobRequest};

use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::print_json;
use crate::say;
use crate::wiring::make_place;

/// A job.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass enqueue resize '{\"image\": \"cat.png\"}'\n  \
    windlass enqueue report --delay 5m --key shop-7\n  cat payload.json | windlass enqueue import -\n  \
    windlass enqueue resize '{\"image\": \"cat.png\"}' --wait")]
pub struct EnqueueArgs {
    /// Its kind: decides which handler runs it
    #[arg(add = crate::names::kinds())]
    kind: String,
    /// Its payload as JSON; - reads it from stdin
    #[arg(default_value = "null")]
    payload: String,
    /// Its queue
    #[arg(long, default_value = "default", add = crate::names::queues())]
    queue: String,
    /// Higher first
    #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
    priority: i16,
    /// Not before this much time has passed: 700ms, 30s, 5m, 2h, 1d
    #[arg(long, conflicts_with = "run_at")]
    delay: Option<Span>,
    /// Not before this moment: 2026-01-31T12:00:00Z
    #[arg(long)]
    run_at: Option<Time>,
    /// Of the running jobs of the queue, at most one has this key
    #[arg(long)]
    key: Option<String>,
    /// While a job with this dedupe key is not over, this answers with that one
    #[arg(long)]
    dedupe_key: Option<String>,
    /// A budget that must allow it; may be said several times
    #[arg(long = "budget", value_name = "BUDGET", add = crate::names::budgets())]
    budgets: Vec<String>,
    /// Delays between attempts, such as "1m 5m 1h"; "none" for no retries
    #[arg(long)]
    ladder: Option<String>,
    /// How long one attempt may take
    #[arg(long)]
    timeout: Option<Span>,
    /// An id of your own (a UUID): saying it again answers with the same job
    #[arg(long)]
    id: Option<JobId>,
    /// The span that it comes from, as W3C Trace Context says it: 00-TRACE-SPAN-FLAGS
    #[arg(long, env = "TRACEPARENT", hide_env_values = true)]
    traceparent: Option<String>,
    /// Wait until the job is over, and print what it gave; exit code 1 when it failed or was canceled
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Accepts the job and says its id.
pub async fn run(args: EnqueueArgs, json: bool) -> anyhow::Result<Code> {
    let store = make_place(&args.place).await?;
    let (client, wait) = (Client::new(store), args.wait);
    let job = client.enqueue(args.job()?).await?;
    let (id, deduplicated) = (job.id(), job.is_deduplicated());
    if deduplicated && !json {
        eprintln!("it was there already");
    }
    if wait {
        eprintln!("waiting for {id}; Ctrl-C ends the waiting and not the job");
        let result = job.wait().await?;
        match json {
            true => {
                print_json(&serde_json::json!({ "id": id, "deduplicated": deduplicated, "result": result }))?
            }
            false => say!("{result}"),
        }
    } else if json {
        print_json(&serde_json::json!({ "id": id, "deduplicated": deduplicated }))?;
    } else {
        say!("{id}");
    }
    Ok(Code::Done)
}

impl EnqueueArgs {
    fn job(self) -> anyhow::Result<JobRequest> {
        let payload = match self.payload.as_str() {
            "-" => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("cannot read the payload from stdin")?;
                text
            }
            _ => self.payload,
        };
        let payload = Json::payload(payload)?;
        let mut job = JobRequest::new(&self.kind, &payload).queue(&self.queue).priority(self.priority);
        for budget in &self.budgets {
            job = job.budget(budget);
        }
        if let Some(id) = self.id {
            job = job.id(id);
        }
        if let Some(delay) = self.delay {
            job = job.delay(Duration::from_millis(delay.ms()));
        }
        if let Some(at) = self.run_at {
            job = job.run_at(at);
        }
        if let Some(key) = &self.key {
            job = job.key(key);
        }
        if let Some(key) = &self.dedupe_key {
            job = job.dedupe_key(key);
        }
        if let Some(ladder) = &self.ladder {
            job = job.ladder(ladder);
        }
        if let Some(timeout) = self.timeout {
            job = job.timeout(Duration::from_millis(timeout.ms()));
        }
        if let Some(parent) = &self.traceparent {
            job = job.traceparent(parent);
        }
        Ok(job)
    }
}
