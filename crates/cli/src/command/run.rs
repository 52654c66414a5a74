//! `windlass jobs run`: makes jobs due that wait for their time.

use clap::Args;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{RunNowAnswer, STEER_MAX};

use super::which::WhichArgs;
use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::print_json;
use crate::say;
use crate::wiring::open_place;

/// Which.
#[derive(Debug, Args)]
#[command(
    after_help = "A key, a limit, a pause or a budget still holds them; `windlass explain ID` says what does.\n\n\
    Examples:\n  windlass jobs run 3fa9c21b\n  windlass jobs run --kind resize --dry-run"
)]
pub struct RunArgs {
    #[command(flatten)]
    which: WhichArgs,
    /// Only say which jobs it would be
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Makes them due.
pub async fn run(args: RunArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let queued = |state| state == StateName::Queued;
    let ids = args.which.resolve(&*store, &[StateName::Queued], queued).await?;
    if args.dry_run {
        match json {
            true => print_json(&serde_json::json!({ "would_run": ids.len(), "ids": ids }))?,
            false => say!("would run {} jobs", ids.len()),
        }
        return Ok(Code::Done);
    }
    let mut worst = Code::Done;
    for some in ids.chunks(STEER_MAX) {
        let answers = store.run_now_all(some.to_vec()).await?;
        for (id, answer) in some.iter().zip(answers) {
            let (outcome, said, code) = match answer {
                RunNowAnswer::Due => ("made_due", "is due now", Code::Done),
                RunNowAnswer::AlreadyDue => ("already_due", "was due already", Code::Done),
                RunNowAnswer::Running => ("running", "is running already", Code::Refused),
                RunNowAnswer::Final => ("final", "is over; `windlass retry` starts it anew", Code::Refused),
                RunNowAnswer::NotFound => ("not_found", "is not there", Code::NotFound),
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
