//! `windlass cancel`: ends queued jobs, tells running ones.

use clap::Args;
use windlass_engine::core::id::JobId;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{CancelAnswer, Store};

use super::steer::{self, Became, Steer, SteerArgs};
use crate::exit::Code;

/// Which.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass cancel 3fa9c21b\n  windlass cancel --state running --kind resize\n  \
    windlass cancel --queue mail --dry-run"
)]
pub struct CancelArgs {
    #[command(flatten)]
    steer: SteerArgs,
}

/// Cancels them.
pub async fn run(args: CancelArgs, json: bool) -> anyhow::Result<Code> {
    steer::run(&args.steer, Cancel, json).await
}

/// The verb.
pub struct Cancel;

impl Steer for Cancel {
    const VERB: &'static str = "cancel";
    const STATES: &'static [StateName] = &[StateName::Queued, StateName::Running];

    fn is_for(state: StateName) -> bool {
        !state.is_final()
    }

    async fn steer(&self, store: &dyn Store, ids: Vec<JobId>) -> anyhow::Result<Vec<Became>> {
        let became = |answer| match answer {
            CancelAnswer::Canceled => Became::done("canceled", "is canceled"),
            CancelAnswer::Requested => Became::done("cancel_requested", "is told to stop"),
            CancelAnswer::Final => Became::refused("final", "is final: it was over already"),
            CancelAnswer::NotFound => Became::not_found(),
        };
        Ok(store.cancel_all(ids).await?.into_iter().map(became).collect())
    }
}
