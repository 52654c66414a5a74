//! `windlass budgets`: what each budget allows and what is used of it.

use clap::{Args, Subcommand};
use windlass_engine::core::id::BudgetName;
use windlass_engine::core::policy::budget::BudgetPolicy;
use windlass_engine::core::store::{BudgetStatus, Store};
use windlass_engine::core::time::Span;
use windlass_report::text;

use crate::args::PlaceArgs;
use crate::exit::{Code, not_found};
use crate::output::{fitted, outcome, plain, print_json, until};
use crate::say;
use crate::wiring::open_place;

/// List them, or change one.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass budgets\n  windlass budgets set etsy --per-second 10 --per-minute 300 --per-day 10000\n  \
    windlass budgets cool-down etsy 90s"
)]
pub struct BudgetsArgs {
    #[command(subcommand)]
    act: Option<Act>,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Set what a budget allows; what is not said stays, and 0 takes a bound away
    Set {
        /// The budget
        #[arg(add = crate::names::budgets())]
        name: BudgetName,
        /// How many jobs that name it may run at once
        #[arg(long)]
        slots: Option<u32>,
        /// How much may be spent in any stretch of one second
        #[arg(long)]
        per_second: Option<u32>,
        /// How much may be spent in any stretch of one minute
        #[arg(long)]
        per_minute: Option<u32>,
        /// How much may be spent in any stretch of 24 hours
        #[arg(long)]
        per_day: Option<u32>,
    },
    /// Take a budget away: jobs that name it have no bound by it any more
    Delete {
        /// The budget
        #[arg(add = crate::names::budgets())]
        name: BudgetName,
    },
    /// Let nothing be spent for some time; 0s ends that
    CoolDown {
        /// The budget
        #[arg(add = crate::names::budgets())]
        name: BudgetName,
        /// For how long: 30s, 5m
        span: Span,
    },
}

/// Lists them, or changes one.
pub async fn run(args: BudgetsArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    match args.act {
        None => list(&*store, json).await?,
        Some(Act::Set { name, slots, per_second, per_minute, per_day }) => {
            let known = store.budgets().await?.into_iter().find(|status| status.budget.name == name);
            let old = known.map_or_else(BudgetPolicy::default, |status| status.budget.policy);
            let bound =
                |wish: Option<u32>, old| wish.map_or(old, |bound| Some(bound).filter(|bound| *bound > 0));
            let policy = BudgetPolicy {
                slots: bound(slots, old.slots),
                per_second: bound(per_second, old.per_second),
                per_minute: bound(per_minute, old.per_minute),
                per_day: bound(per_day, old.per_day),
            };
            store.put_budget(name.clone(), policy).await?;
            outcome(json, "budget", name.as_str(), "set", "is set")?;
        }
        Some(Act::Delete { name }) => match store.delete_budget(name.clone()).await? {
            true => outcome(json, "budget", name.as_str(), "deleted", "is gone")?,
            false => {
                let said = plain(name.as_str());
                return Err(not_found(format!("there is no budget {said}; `windlass budgets` lists them")));
            }
        },
        Some(Act::CoolDown { name, span }) => {
            store.cool_down(name.clone(), span.ms()).await?;
            let (word, said) = match span.ms() {
                0 => ("cool_down_ended", "cools down no more".to_owned()),
                _ => ("cools_down", format!("cools down for {span}")),
            };
            outcome(json, "budget", name.as_str(), word, &said)?;
        }
    }
    Ok(Code::Done)
}

async fn list(store: &dyn Store, json: bool) -> anyhow::Result<()> {
    let budgets = store.budgets().await?;
    if json {
        let now = store.now().await?;
        return budgets.into_iter().try_for_each(|budget| print_json(&text::budget(budget, now)));
    }
    if budgets.is_empty() {
        eprintln!("no budget is defined; `windlass budgets set NAME --per-second 10` defines one");
        return Ok(());
    }
    let now = store.now().await?;
    let row = |status: &BudgetStatus| {
        let of = |used: u32, max: Option<u32>| max.map_or(String::new(), |max| format!("{used}/{max}"));
        let policy = &status.budget.policy;
        vec![
            plain(status.budget.name.as_str()),
            of(status.slots_used, policy.slots),
            of(status.used.second, policy.per_second),
            of(status.used.minute, policy.per_minute),
            of(status.used.day, policy.per_day),
            status.free_at.map(|at| until(at, now)).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = budgets.iter().map(row).collect();
    say!("{}", fitted(&["budget", "slots", "per second", "per minute", "per day", "free again"], &rows));
    Ok(())
}
