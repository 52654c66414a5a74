//! `windlass cancel`: ends queued jobs, tells running ones.

use clap::Args;
use windlass_engine::core::id::JobId;
use windlass_engine::core::store::CancelAnswer;

use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::print_json;
use crate::say;
use crate::wiring::open_place;

/// Which.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// The jobs' ids
    #[arg(required = true)]
    ids: Vec<JobId>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Cancels them.
pub async fn run(args: CancelArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let mut worst = Code::Done;
    for id in args.ids {
        let (outcome, code) = match store.cancel(id).await? {
            CancelAnswer::Canceled => ("canceled", Code::Done),
            CancelAnswer::Requested => ("cancel_requested", Code::Done),
            CancelAnswer::Final => ("final", Code::Refused),
            CancelAnswer::NotFound => ("not_found", Code::NotFound),
        };
        worst = worst.worst(code);
        match json {
            true => print_json(&serde_json::json!({ "id": id, "outcome": outcome }))?,
            false => say!("{id} {}", outcome.replace('_', " ")),
        }
    }
    Ok(worst)
}
