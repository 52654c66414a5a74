//! `windlass retry`: a new life for final jobs, one by one or all that fit.

use clap::Args;
use windlass_engine::core::id::{JobId, StepName};
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::{Rerun, RerunAnswer, RetryAnswer, Store};

use super::steer::{self, Became, Steer, SteerArgs};
use crate::exit::Code;

/// Which, and how fast.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass retry 3fa9c21b\n  \
    windlass retry --state failed --kind resize --since 1d --dry-run\n  \
    windlass retry --state failed --pace 10\n  windlass retry 3fa9c21b --from send")]
pub struct RetryArgs {
    #[command(flatten)]
    steer: SteerArgs,
    #[command(flatten)]
    how: Retry,
}

/// Retries them.
pub async fn run(args: RetryArgs, json: bool) -> anyhow::Result<Code> {
    steer::run(&args.steer, args.how, json).await
}

/// The verb, and how.
#[derive(Debug, Default, Args)]
pub struct Retry {
    /// Run again from this step on, and keep only what was stored before it
    #[arg(long, value_name = "STEP", add = crate::names::steps())]
    from: Option<StepName>,
    /// So many jobs per second at most
    #[arg(long, value_name = "JOBS", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pace: Option<u64>,
}

impl Steer for Retry {
    const VERB: &'static str = "retry";
    const SUM: Option<&'static str> = Some("retried");
    const STATES: &'static [StateName] = &[StateName::Failed];

    fn is_for(state: StateName) -> bool {
        state.is_final()
    }

    fn pace(&self) -> Option<u64> {
        self.pace
    }

    async fn steer(&self, store: &dyn Store, ids: Vec<JobId>) -> anyhow::Result<Vec<Became>> {
        let answers = match &self.from {
            Some(from) => {
                let rerun = |job_id| Rerun { job_id, from: from.clone() };
                store.rerun_all(ids.into_iter().map(rerun).collect()).await?
            }
            None => store.retry_all(ids).await?.into_iter().map(from_the_start).collect(),
        };
        let became = |answer| match answer {
            RerunAnswer::Retried => Became::done("retried", "is retried"),
            RerunAnswer::NotFinal => Became::refused("not_final", "is not over"),
            RerunAnswer::NoStep => Became::refused("no_step", "has no such step; `windlass job` lists them"),
            RerunAnswer::Taken(other) => {
                Became::refused("taken", format!("its dedupe key belongs to {other}"))
            }
            RerunAnswer::NotFound => Became::not_found(),
        };
        Ok(answers.into_iter().map(became).collect())
    }
}

fn from_the_start(answer: RetryAnswer) -> RerunAnswer {
    match answer {
        RetryAnswer::Retried => RerunAnswer::Retried,
        RetryAnswer::NotFinal => RerunAnswer::NotFinal,
        RetryAnswer::Taken(other) => RerunAnswer::Taken(other),
        RetryAnswer::NotFound => RerunAnswer::NotFound,
    }
}
