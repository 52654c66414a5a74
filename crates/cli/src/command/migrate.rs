//! `windlass migrate`: brings the schema of a store up to date.

use clap::Args;

use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::outcome;
use crate::wiring::{make_store, without_password};

/// Which store.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass migrate\n  windlass migrate --store postgres://db.example/jobs"
)]
pub struct MigrateArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

/// Opening a store migrates it; this does nothing else. That of a server is migrated where the server starts.
pub async fn run(args: MigrateArgs, json: bool) -> anyhow::Result<Code> {
    let store = args.place.store("migrate")?;
    make_store(&store).await?;
    outcome(json, "store", &without_password(&store), "ready", "is ready")?;
    Ok(Code::Done)
}
