//! `windlass retry`: a new life for final jobs, one by one or all that fit.

use clap::Args;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::{JobId, StepName};
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{Rerun, RerunAnswer, RetryAnswer, Store};
use windlass_engine::world::{RealWorld, World};

use super::which::WhichArgs;
use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::{print_json, progress};
use crate::say;
use crate::wiring::open_place;

/// Which, and how fast.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass retry 3fa9c21b\n  \
    windlass retry --state failed --kind resize --since 1d --dry-run\n  \
    windlass retry --state failed --pace 10\n  windlass retry 3fa9c21b --from send")]
pub struct RetryArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Only say which jobs it would be
    #[arg(long)]
    dry_run: bool,
    /// Run again from this step on, and keep only what was stored before it
    #[arg(long, value_name = "STEP")]
    from: Option<StepName>,
    /// So many jobs per second at most
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pace: Option<u64>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Retries them.
pub async fn run(args: RetryArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let ids = args.which.resolve(&*store, &[StateName::Failed], StateName::is_final).await?;
    if args.dry_run {
        match json {
            true => print_json(&serde_json::json!({ "would_retry": ids.len(), "ids": ids }))?,
            false => say!("would retry {} jobs", ids.len()),
        }
        return Ok(Code::Done);
    }
    retry_all(&*store, ids, &args, json).await
}

async fn retry_all(store: &dyn Store, ids: Vec<JobId>, args: &RetryArgs, json: bool) -> anyhow::Result<Code> {
    let world = RealWorld::new();
    let bar = progress("retry", ids.len() as u64);
    let (mut worst, mut retried, all) = (Code::Done, 0usize, ids.len());
    for id in ids {
        let (refusal, code) = match retry(store, id, args.from.as_ref()).await? {
            RerunAnswer::Retried => (None, Code::Done),
            RerunAnswer::NotFinal => (Some("is not over".to_owned()), Code::Refused),
            RerunAnswer::NoStep => {
                (Some("has no such step; `windlass job` lists them".to_owned()), Code::Refused)
            }
            RerunAnswer::Taken(other) => (Some(format!("its dedupe key belongs to {other}")), Code::Refused),
            RerunAnswer::NotFound => (Some("is not there".to_owned()), Code::NotFound),
        };
        worst = worst.worst(code);
        match refusal {
            None => retried += 1,
            Some(refusal) if json => {
                let code = if code == Code::NotFound { "not_found" } else { "refused" };
                let told =
                    serde_json::json!({ "error": { "code": code, "message": format!("{id}: {refusal}") } });
                bar.suspend(|| eprintln!("{told}"));
            }
            Some(refusal) => bar.suspend(|| eprintln!("{id}: {refusal}")),
        }
        bar.inc(1);
        if let Some(pace) = args.pace {
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

/// The whole of it, or from a step on.
async fn retry(store: &dyn Store, id: JobId, from: Option<&StepName>) -> Result<RerunAnswer, StoreError> {
    if let Some(from) = from {
        return store.rerun(Rerun { job_id: id, from: from.clone() }).await;
    }
    Ok(match store.retry(id).await? {
        RetryAnswer::Retried => RerunAnswer::Retried,
        RetryAnswer::NotFinal => RerunAnswer::NotFinal,
        RetryAnswer::Taken(other) => RerunAnswer::Taken(other),
        RetryAnswer::NotFound => RerunAnswer::NotFound,
    })
}
