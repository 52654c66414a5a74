//! `windlass migrate`: brings the schema of a store up to date.

use crate::args::StoreArgs;
use crate::wiring::{open_store, without_password};

/// Opening a store migrates it; this does nothing else.
pub async fn run(args: StoreArgs) -> anyhow::Result<()> {
    open_store(&args.store).await?;
    println!("{} is ready", without_password(&args.store));
    Ok(())
}
