//! `windlass jobs delete`: takes jobs out of the store.

use clap::Args;
use windlass_engine::core::id::JobId;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{DeleteAnswer, Store};

use super::steer::{self, Became, Steer, SteerArgs};
use crate::exit::Code;

/// Which.
#[derive(Debug, Args)]
#[command(
    after_help = "What is deleted cannot be had back: its steps, its history and what it said go with it.\n\n\
    Examples:\n  windlass jobs delete 3fa9c21b\n  windlass jobs delete --state canceled --until 7d --dry-run"
)]
pub struct DeleteArgs {
    #[command(flatten)]
    steer: SteerArgs,
}

/// Deletes them.
pub async fn run(args: DeleteArgs, json: bool) -> anyhow::Result<Code> {
    let which = &args.steer.which;
    anyhow::ensure!(
        !which.ids.is_empty() || !which.filter.state.is_empty(),
        "say which states, too, such as --state canceled: what is deleted cannot be had back"
    );
    steer::run(&args.steer, Delete, json).await
}

/// The verb.
pub struct Delete;

impl Steer for Delete {
    const VERB: &'static str = "delete";
    const STATES: &'static [StateName] = &[StateName::Canceled];

    fn is_for(state: StateName) -> bool {
        state != StateName::Running
    }

    async fn steer(&self, store: &dyn Store, ids: Vec<JobId>) -> anyhow::Result<Vec<Became>> {
        let became = |answer| match answer {
            DeleteAnswer::Deleted => Became::done("deleted", "is gone"),
            DeleteAnswer::Running => Became::refused("running", "is running; `windlass cancel` it first"),
            DeleteAnswer::NotFound => Became::not_found(),
        };
        Ok(store.delete_with_logs(ids).await?.into_iter().map(became).collect())
    }
}
