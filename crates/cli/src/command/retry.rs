//! `windlass retry`: a new life for final jobs, one by one or all that fit.

use clap::Args;
use windlass_engine::core::id::JobId;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{RetryAnswer, Store};
use windlass_engine::world::{RealWorld, World};

use super::filter::{FilterArgs, find};
use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::{print_json, progress};
use crate::say;
use crate::wiring::open_place;

/// How many jobs one call looks at, when it is given a filter.
const MATCHES_MAX: usize = 100_000;

/// Which, and how fast.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass retry 0198c0de-0000-7000-8000-000000000001\n  \
    windlass retry --state failed --kind resize --since 1d --dry-run\n  \
    windlass retry --state failed --pace 10")]
pub struct RetryArgs {
    /// The jobs' ids
    ids: Vec<JobId>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only say which jobs it would be
    #[arg(long)]
    dry_run: bool,
    /// So many jobs per second at most
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pace: Option<u64>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Retries them.
pub async fn run(args: RetryArgs, json: bool) -> anyhow::Result<Code> {
    anyhow::ensure!(
        args.ids.is_empty() != args.filter.is_empty(),
        "name jobs by their ids, or all that fit a filter such as --state failed, and not both"
    );
    let store = open_place(&args.place).await?;
    let ids = match args.ids.is_empty() {
        true => matching(&*store, &args.filter).await?,
        false => args.ids,
    };
    if args.dry_run {
        match json {
            true => print_json(&serde_json::json!({ "would_retry": ids.len(), "ids": ids }))?,
            false => say!("would retry {} jobs", ids.len()),
        }
        return Ok(Code::Done);
    }
    retry_all(&*store, ids, args.pace, json).await
}

async fn matching(store: &dyn Store, filter: &FilterArgs) -> anyhow::Result<Vec<JobId>> {
    let mut filter = filter.resolve(store).await?;
    if filter.states.is_empty() {
        filter.states = vec![StateName::Failed];
    }
    let mut jobs = find(store, &filter, MATCHES_MAX).await?;
    jobs.retain(|job| job.state.name().is_final());
    // Oldest first, as they were accepted.
    Ok(jobs.iter().rev().map(|job| job.id).collect())
}

async fn retry_all(
    store: &dyn Store,
    ids: Vec<JobId>,
    pace: Option<u64>,
    json: bool,
) -> anyhow::Result<Code> {
    let world = RealWorld::new();
    let bar = progress("retry", ids.len() as u64);
    let (mut worst, mut retried, all) = (Code::Done, 0usize, ids.len());
    for id in ids {
        let (refusal, code) = match store.retry(id).await? {
            RetryAnswer::Retried => (None, Code::Done),
            RetryAnswer::NotFinal => (Some("is not over".to_owned()), Code::Refused),
            RetryAnswer::Taken(other) => (Some(format!("its dedupe key belongs to {other}")), Code::Refused),
            RetryAnswer::NotFound => (Some("is not there".to_owned()), Code::NotFound),
        };
        worst = worst.worst(code);
        match refusal {
            None => retried += 1,
            Some(refusal) => bar.suspend(|| eprintln!("{id}: {refusal}")),
        }
        bar.inc(1);
        if let Some(pace) = pace {
            world.sleep_ms(1_000 / pace).await;
        }
    }
    bar.finish_and_clear();
    match json {
        true => print_json(&serde_json::json!({ "retried": retried, "asked": all }))?,
        false => say!("retried {retried} of {all} jobs"),
    }
    Ok(worst)
}
