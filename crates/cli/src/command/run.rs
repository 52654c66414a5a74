//! `windlass jobs run`: makes jobs due that wait for their time.

use clap::Args;
use windlass_engine::core::id::JobId;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{RunNowAnswer, Store};

use super::steer::{self, Became, Steer, SteerArgs};
use crate::exit::Code;

/// Which.
#[derive(Debug, Args)]
#[command(
    after_help = "A key, a limit, a pause or a budget still holds them; `windlass explain ID` says what does.\n\n\
    Examples:\n  windlass jobs run 3fa9c21b\n  windlass jobs run --kind resize --dry-run"
)]
pub struct RunArgs {
    #[command(flatten)]
    steer: SteerArgs,
}

/// Makes them due.
pub async fn run(args: RunArgs, json: bool) -> anyhow::Result<Code> {
    steer::run(&args.steer, RunNow, json).await
}

/// The verb.
pub struct RunNow;

impl Steer for RunNow {
    const VERB: &'static str = "run";
    const STATES: &'static [StateName] = &[StateName::Queued];

    fn is_for(state: StateName) -> bool {
        state == StateName::Queued
    }

    async fn steer(&self, store: &dyn Store, ids: Vec<JobId>) -> anyhow::Result<Vec<Became>> {
        let became = |answer| match answer {
            RunNowAnswer::Due => Became::done("made_due", "is due now"),
            RunNowAnswer::AlreadyDue => Became::done("already_due", "was due already"),
            RunNowAnswer::Running => Became::refused("running", "is running already"),
            RunNowAnswer::Final => Became::refused("final", "is over; `windlass retry` starts it anew"),
            RunNowAnswer::NotFound => Became::not_found(),
        };
        Ok(store.run_now_all(ids).await?.into_iter().map(became).collect())
    }
}
