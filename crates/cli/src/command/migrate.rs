//! `windlass migrate`: brings the schema of a store up to date.

use clap::Args;

use crate::args::StoreArgs;
use crate::exit::Code;
use crate::output::outcome;
use crate::wiring::{make_store, without_password};

/// Which store.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    #[command(flatten)]
    store: StoreArgs,
}

/// Opening a store migrates it; this does nothing else.
pub async fn run(args: MigrateArgs, json: bool) -> anyhow::Result<Code> {
    make_store(&args.store.store).await?;
    outcome(json, "store", &without_password(&args.store.store), "ready", "is ready")?;
    Ok(Code::Done)
}
