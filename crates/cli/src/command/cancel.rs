//! `windlass cancel`: ends queued jobs, tells running ones.

use clap::Args;
use windlass_engine::core::id::JobId;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{CancelAnswer, Store};

use super::which::WhichArgs;
use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::print_json;
use crate::say;
use crate::wiring::open_place;

/// Which.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass cancel 3fa9c21b\n  windlass cancel --state running --kind resize\n  \
    windlass cancel --queue mail --dry-run"
)]
pub struct CancelArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Only say which jobs it would be
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Cancels them.
pub async fn run(args: CancelArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let ids = args
        .which
        .resolve(&*store, &[StateName::Queued, StateName::Running], |state| !state.is_final())
        .await?;
    if args.dry_run {
        match json {
            true => print_json(&serde_json::json!({ "would_cancel": ids.len(), "ids": ids }))?,
            false => say!("would cancel {} jobs", ids.len()),
        }
        return Ok(Code::Done);
    }
    let mut worst = Code::Done;
    for id in ids {
        worst = worst.worst(cancel(&*store, id, json).await?);
    }
    Ok(worst)
}

async fn cancel(store: &dyn Store, id: JobId, json: bool) -> anyhow::Result<Code> {
    let (outcome, code) = match store.cancel(id).await? {
        CancelAnswer::Canceled => ("canceled", Code::Done),
        CancelAnswer::Requested => ("cancel_requested", Code::Done),
        CancelAnswer::Final => ("final", Code::Refused),
        CancelAnswer::NotFound => ("not_found", Code::NotFound),
    };
    match json {
        true => print_json(&serde_json::json!({ "id": id, "outcome": outcome }))?,
        false => say!("{id} {}", outcome.replace('_', " ")),
    }
    Ok(code)
}
