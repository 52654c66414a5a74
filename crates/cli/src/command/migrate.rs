//! `windlass migrate`: brings the schema of a store up to date.

use clap::Args;

use crate::args::StoreArgs;
use crate::exit::Code;
use crate::say;
use crate::wiring::{make_store, without_password};

/// Which store.
#[derive(Debug, Args)]
pub struct MigrateArgs {
    #[command(flatten)]
    store: StoreArgs,
}

/// Opening a store migrates it; this does nothing else.
pub async fn run(args: MigrateArgs) -> anyhow::Result<Code> {
    make_store(&args.store.store).await?;
    say!("{} is ready", without_password(&args.store.store));
    Ok(Code::Done)
}
