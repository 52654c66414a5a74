//! `windlass explain`: why a job is not running.

use clap::Args;
use windlass_engine::core::eligible::{Explanation, Hold};
use windlass_engine::core::query::JobFilter;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::Store;
use windlass_engine::core::time::Time;
use windlass_report::search::find;
use windlass_report::text;
use windlass_report::words::counted;
use windlass_report::words::short_id;

use super::which::ShortId;
use crate::args::PlaceArgs;
use crate::exit::{Code, not_found};
use crate::output::{ago, plain, print_json, until};
use crate::say;
use crate::wiring::open_place;

/// How many jobs are explained when none is named.
const WAITING_MAX: usize = 20;

/// Which.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass explain\n  windlass explain 3fa9c21b")]
pub struct ExplainArgs {
    /// The job's id, or its last digits; without one, the newest that wait
    #[arg(add = crate::names::jobs())]
    id: Option<ShortId>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Explains it.
pub async fn run(args: ExplainArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let Some(id) = &args.id else { return explain_waiting(&*store, json).await };
    let id = id.resolve(&*store).await?;
    let Some(explanation) = store.explain(id).await? else {
        return Err(not_found(format!("there is no job {id}; `windlass jobs` lists them")));
    };
    if json {
        print_json(&text::explanation(id, explanation))?;
    } else {
        say!("{}", sentence(&explanation, store.now().await?));
    }
    Ok(Code::Done)
}

/// Explains the newest queued jobs, a line each.
async fn explain_waiting(store: &dyn Store, json: bool) -> anyhow::Result<Code> {
    let filter = JobFilter { states: vec![StateName::Queued], ..JobFilter::default() };
    let jobs = find(store, &filter.into(), WAITING_MAX).await?;
    if jobs.is_empty() && !json {
        eprintln!("no job waits");
    }
    let now = store.now().await?;
    for job in jobs {
        let Some(explanation) = store.explain(job.id).await? else { continue };
        match json {
            true => print_json(&text::explanation(job.id, explanation))?,
            false => {
                say!(
                    "{} {}: {}",
                    short_id(job.id),
                    plain(job.spec.kind.as_str()),
                    sentence(&explanation, now)
                );
            }
        }
    }
    Ok(Code::Done)
}

/// An explanation in words.
pub fn sentence(explanation: &Explanation, now: Time) -> String {
    match explanation {
        Explanation::Running { worker, since } => {
            format!("it is running on {} since {}", plain(worker.as_str()), ago(*since, now))
        }
        Explanation::Final { state } => format!("it is over: {state}"),
        Explanation::Held { holds } => {
            let holds: Vec<String> = holds.iter().map(|hold| held_by(hold, now)).collect();
            holds.join("; ")
        }
        Explanation::Ready { workers: 0, ahead } => {
            format!(
                "it could run, {ahead} before it, but no live worker claims from its queue and knows its kind"
            )
        }
        Explanation::Ready { workers, ahead } => {
            let workers = counted(u64::from(*workers), "worker");
            format!("it could run: {ahead} before it, {workers} for it; it waits for a free slot")
        }
    }
}

fn held_by(hold: &Hold, now: Time) -> String {
    match hold {
        Hold::NotDue { run_at } => format!("its time has not come: {} ({run_at})", until(*run_at, now)),
        Hold::QueuePaused => "its queue is paused; `windlass queues resume NAME` lets it go on".into(),
        Hold::EpochPause { until: at } => format!(
            "the store was restored or failed over, and somebody may still hold this job by what was lost: {} ({at})",
            until(*at, now)
        ),
        Hold::QueueFull { limit } => format!("its queue is full: {limit} of {limit} are running"),
        Hold::KeyBusy { key, job } => format!("its key {:?} is busy with job {job}", plain(key.as_str())),
        Hold::BudgetCooling { budget, until: at } => {
            format!("budget {budget} cools down: {}", until(*at, now))
        }
        Hold::BudgetSlots { budget, slots } => {
            format!("budget {budget} is full: {slots} of {slots} slots are taken")
        }
        Hold::BudgetSpent { budget, until: at } => format!("budget {budget} is used up: {}", until(*at, now)),
    }
}
