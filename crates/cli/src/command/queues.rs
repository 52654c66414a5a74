//! `windlass queues`: what each queue allows and how it stands.

use clap::{Args, Subcommand};
use windlass_engine::core::id::QueueName;
use windlass_engine::core::policy::ladder::Ladder;
use windlass_engine::core::policy::queue::{OnCrash, QueuePolicy};
use windlass_engine::core::store::{QueueDeletion, Store};
use windlass_engine::core::time::Span;
use windlass_report::text;

use crate::args::PlaceArgs;
use crate::exit::{Code, not_found, refused};
use crate::output::{ago, fitted, outcome, plain, print_json};
use crate::say;
use crate::wiring::open_place;

/// List them, or change one.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass queues\n  windlass queues set mail --limit 5 --ladder '1m 5m 1h'\n  \
    windlass queues pause mail"
)]
pub struct QueuesArgs {
    #[command(subcommand)]
    act: Option<Act>,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Change the policy of a queue; what is not said stays
    Set(Box<Policy>),
    /// Start no more of its jobs
    Pause {
        /// The queue
        #[arg(add = crate::names::queues())]
        name: QueueName,
    },
    /// Let it go on
    Resume {
        /// The queue
        #[arg(add = crate::names::queues())]
        name: QueueName,
    },
    /// Take its policy and its pause away; refused while it has jobs that are not over
    Delete {
        /// The queue
        #[arg(add = crate::names::queues())]
        name: QueueName,
    },
}

#[derive(Debug, Args)]
struct Policy {
    /// The queue
    #[arg(add = crate::names::queues())]
    name: QueueName,
    /// How many of its jobs may run at once over the whole fleet; 0 for no limit
    #[arg(long)]
    limit: Option<u32>,
    /// Delays between attempts, such as "1m 5m 1h"; "none" for no retries
    #[arg(long)]
    ladder: Option<Ladder>,
    /// How long a lease lasts
    #[arg(long)]
    lease: Option<Span>,
    /// What the loss of a worker means: resume or fail
    #[arg(long, value_parser = on_crash)]
    on_crash: Option<OnCrash>,
    /// After so many crashes without a step in between a job is quarantined
    #[arg(long)]
    crashes_max: Option<u32>,
    /// How many days finished jobs are kept
    #[arg(long)]
    retention_days: Option<u32>,
    /// Whether completed and canceled jobs are deleted at once
    #[arg(long)]
    delete_finished: Option<bool>,
    /// Waiting this long weighs as much as one step of priority; 0s for strict priority
    #[arg(long)]
    ageing: Option<Span>,
}

fn on_crash(text: &str) -> Result<OnCrash, String> {
    match text {
        "resume" => Ok(OnCrash::Resume),
        "fail" => Ok(OnCrash::Fail),
        _ => Err("is neither resume nor fail".into()),
    }
}

/// Lists them, or changes one.
pub async fn run(args: QueuesArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    match args.act {
        None => list(&*store, json).await?,
        Some(Act::Set(policy)) => set(&*store, *policy, json).await?,
        Some(Act::Pause { name }) => {
            store.pause_queue(name.clone(), true).await?;
            outcome(json, "queue", name.as_str(), "paused", "is paused; jobs that are running go on")?;
        }
        Some(Act::Resume { name }) => {
            store.pause_queue(name.clone(), false).await?;
            outcome(json, "queue", name.as_str(), "resumed", "goes on")?;
        }
        Some(Act::Delete { name }) => delete(&*store, name, json).await?,
    }
    Ok(Code::Done)
}

async fn delete(store: &dyn Store, name: QueueName, json: bool) -> anyhow::Result<()> {
    let said = plain(name.as_str());
    match store.delete_queue(name.clone()).await? {
        QueueDeletion::Deleted => {
            let kept = "is gone; what has ended in it stays for as long as in any other queue";
            outcome(json, "queue", name.as_str(), "deleted", kept)
        }
        QueueDeletion::InUse { queued, running } => Err(refused(format!(
            "{said} has jobs that are not over: {queued} queued, {running} running; `windlass jobs cancel --queue {said}` \
             ends them"
        ))),
        QueueDeletion::NotFound => Err(not_found(format!(
            "nobody has set the policy of {said}, or paused it; `windlass queues` lists them"
        ))),
    }
}

async fn list(store: &dyn Store, json: bool) -> anyhow::Result<()> {
    let queues = store.queues().await?;
    if json {
        let now = store.now().await?;
        return queues.into_iter().try_for_each(|queue| print_json(&text::queue(queue, now)));
    }
    if queues.is_empty() {
        eprintln!("no queue has work; `windlass enqueue KIND --queue NAME` makes one");
        return Ok(());
    }
    let now = store.now().await?;
    let row = |queue: &windlass_engine::core::query::QueueStatus| {
        let limit = queue.policy.limit.map_or("-".into(), |limit| limit.to_string());
        vec![
            plain(queue.name.as_str()),
            queue.queued.to_string(),
            format!("{}/{limit}", queue.running),
            queue.oldest_due.map(|at| ago(at, now)).unwrap_or_default(),
            queue.policy.ladder.to_string(),
            if queue.paused { "paused" } else { "open" }.into(),
        ]
    };
    let rows: Vec<Vec<String>> = queues.iter().map(row).collect();
    say!("{}", fitted(&["queue", "queued", "running", "oldest due", "ladder", "status"], &rows));
    Ok(())
}

async fn set(store: &dyn Store, wish: Policy, json: bool) -> anyhow::Result<()> {
    let Policy { name, limit, ladder, lease, on_crash, crashes_max, retention_days, delete_finished, ageing } =
        wish;
    let known = store.queues().await?.into_iter().find(|queue| queue.name == name);
    let mut policy = known.map_or_else(QueuePolicy::default, |queue| queue.policy);
    if let Some(limit) = limit {
        policy.limit = Some(limit).filter(|limit| *limit > 0);
    }
    if let Some(ladder) = ladder {
        policy.ladder = ladder;
    }
    if let Some(lease) = lease {
        policy.lease_ms = u32::try_from(lease.ms()).unwrap_or(u32::MAX);
    }
    if let Some(ageing) = ageing {
        policy.ageing_ms = Some(ageing.ms()).filter(|ms| *ms > 0);
    }
    policy.on_crash = on_crash.unwrap_or(policy.on_crash);
    policy.crashes_max = crashes_max.unwrap_or(policy.crashes_max);
    policy.retention_days = retention_days.unwrap_or(policy.retention_days);
    policy.delete_finished = delete_finished.unwrap_or(policy.delete_finished);
    store.put_queue(name.clone(), policy).await?;
    outcome(json, "queue", name.as_str(), "set", "is set")
}
