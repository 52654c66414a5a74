//! `windlass jobs delete`: takes jobs out of the store.

use clap::Args;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{DeleteAnswer, STEER_MAX};

use super::which::WhichArgs;
use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::print_json;
use crate::say;
use crate::wiring::open_place;

/// Which.
#[derive(Debug, Args)]
#[command(
    after_help = "What is deleted cannot be had back: its steps, its history and what it said go with it.\n\n\
    Examples:\n  windlass jobs delete 3fa9c21b\n  windlass jobs delete --state canceled --until 7d --dry-run"
)]
pub struct DeleteArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Only say which jobs it would be
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Deletes them.
pub async fn run(args: DeleteArgs, json: bool) -> anyhow::Result<Code> {
    anyhow::ensure!(
        !args.which.ids.is_empty() || !args.which.filter.state.is_empty(),
        "say which states, too, such as --state canceled: what is deleted cannot be had back"
    );
    let store = open_place(&args.place).await?;
    let resting = |state| state != StateName::Running;
    let ids = args.which.resolve(&*store, &[StateName::Canceled], resting).await?;
    if args.dry_run {
        match json {
            true => print_json(&serde_json::json!({ "would_delete": ids.len(), "ids": ids }))?,
            false => say!("would delete {} jobs", ids.len()),
        }
        return Ok(Code::Done);
    }
    let mut worst = Code::Done;
    for some in ids.chunks(STEER_MAX) {
        let answers = store.delete_with_logs(some.to_vec()).await?;
        for (id, answer) in some.iter().zip(answers) {
            let (outcome, said, code) = match answer {
                DeleteAnswer::Deleted => ("deleted", "is gone", Code::Done),
                DeleteAnswer::Running => ("running", "is running; `windlass cancel` it first", Code::Refused),
                DeleteAnswer::NotFound => ("not_found", "is not there", Code::NotFound),
            };
            worst = worst.worst(code);
            match json {
                true => print_json(&serde_json::json!({ "id": id, "outcome": outcome }))?,
                false => say!("{id} {said}"),
            }
        }
    }
    Ok(worst)
}
