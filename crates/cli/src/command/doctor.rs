//! `windlass doctor`: looks for what is wrong, and says what to do.

use std::collections::BTreeSet;

use clap::Args;
use serde::Serialize;
use windlass_engine::core::id::BudgetName;
use windlass_engine::core::job::Job;
use windlass_engine::core::query::{JobFilter, QueueStatus, WORKER_ALIVE_MS, WorkerStatus};
use windlass_engine::core::state::{FailureReason, State, StateName};
use windlass_engine::core::store::Store;
use windlass_engine::core::time::Time;

use super::filter::find;
use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::{ago, plain, print_json};
use crate::say;
use crate::wiring::open_place;

/// How many jobs of a state are looked at.
const LOOKS_MAX: usize = 2_000;
/// A lease that ran out this long ago should have been taken back.
const OVERDUE_MS: u64 = 30_000;
/// A job that could run waits too long after this.
const WAITING_MS: u64 = 300_000;

/// Which store.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    place: PlaceArgs,
}

/// Something that is wrong.
#[derive(Debug, Serialize)]
struct Finding {
    wrong: String,
    next: String,
}

/// Looks, and exits with 1 when something is wrong.
pub async fn run(args: DoctorArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let now = store.now().await?;
    let workers = store.workers().await?;
    let alive: Vec<&WorkerStatus> =
        workers.iter().filter(|worker| now.ms_since(worker.seen_at) <= WORKER_ALIVE_MS).collect();
    let mut findings: Vec<Finding> = store.audit().await?.into_iter().map(breach).collect();
    for queue in store.queues().await? {
        look_at_queue(&queue, &alive, now, &mut findings);
    }
    look_at_running(&*store, now, &mut findings).await?;
    look_at_queued(&*store, &alive, &mut findings).await?;
    look_at_failed(&*store, &mut findings).await?;
    if json {
        print_json(&findings)?;
    } else if findings.is_empty() {
        say!("nothing is wrong");
    } else {
        for Finding { wrong, next } in &findings {
            say!("- {wrong}\n  {next}");
        }
    }
    Ok(if findings.is_empty() { Code::Done } else { Code::Failed })
}

/// The store contradicts itself.
fn breach(wrong: String) -> Finding {
    Finding { wrong, next: "this must never be; keep a copy of the store as it is, and report it".into() }
}

fn look_at_queue(queue: &QueueStatus, alive: &[&WorkerStatus], now: Time, findings: &mut Vec<Finding>) {
    let name = plain(queue.name.as_str());
    if let Some(limit) = queue.policy.limit.filter(|limit| queue.running > u64::from(*limit)) {
        findings.push(Finding {
            wrong: format!("queue {name} runs {} jobs, and its limit is {limit}", queue.running),
            next: "this passes when the limit was lowered just now; if it stays, it is a fault of ours"
                .into(),
        });
    }
    let Some(oldest) = queue.oldest_due.filter(|at| now.ms_since(*at) > WAITING_MS) else { return };
    let served = alive.iter().any(|worker| worker.queues.contains(&queue.name));
    let (why, next) = match (queue.paused, served) {
        (true, _) => ("it is paused", format!("`windlass queues resume {name}` lets it go on")),
        (false, false) => ("no live worker claims from it", "start a worker for it".to_owned()),
        (false, true) => {
            ("its workers do not keep up", "add workers or slots, or look at its limit and budgets".into())
        }
    };
    findings.push(Finding {
        wrong: format!("queue {name} has {} jobs, the oldest due {}: {why}", queue.queued, ago(oldest, now)),
        next,
    });
}

async fn jobs_in(store: &dyn Store, state: StateName) -> anyhow::Result<Vec<Job>> {
    find(store, &JobFilter { states: vec![state], ..JobFilter::default() }, LOOKS_MAX).await
}

async fn look_at_running(store: &dyn Store, now: Time, findings: &mut Vec<Finding>) -> anyhow::Result<()> {
    let running = jobs_in(store, StateName::Running).await?;
    let overdue = |job: &&Job| job.lease().is_some_and(|lease| now.ms_since(lease.expires_at) > OVERDUE_MS);
    let overdue = running.iter().filter(overdue).count();
    if overdue > 0 {
        findings.push(Finding {
            wrong: format!("{overdue} leases ran out and nobody took them back"),
            next: "start a worker: any worker takes them back within seconds".into(),
        });
    }
    Ok(())
}

async fn look_at_queued(
    store: &dyn Store,
    alive: &[&WorkerStatus],
    findings: &mut Vec<Finding>,
) -> anyhow::Result<()> {
    let queued = jobs_in(store, StateName::Queued).await?;
    let known: BTreeSet<BudgetName> =
        store.budgets().await?.into_iter().map(|status| status.budget.name).collect();
    let named: BTreeSet<&BudgetName> = queued.iter().flat_map(|job| &job.spec.budgets).collect();
    for budget in named.into_iter().filter(|budget| !known.contains(*budget)) {
        findings.push(Finding {
            wrong: format!("jobs name the budget {budget}, which nobody defined: it allows everything"),
            next: format!("`windlass budgets set {budget} …` defines it"),
        });
    }
    let mut unknown = BTreeSet::new();
    for job in &queued {
        let served = alive.iter().any(|worker| worker.queues.contains(&job.spec.queue));
        if served && !alive.iter().any(|worker| worker.claims(&job.spec)) {
            unknown.insert((&job.spec.queue, &job.spec.kind));
        }
    }
    for (queue, kind) in unknown {
        findings.push(Finding {
            wrong: format!(
                "jobs of kind {} wait in queue {}, and no live worker knows that kind",
                plain(kind.as_str()),
                plain(queue.as_str())
            ),
            next: "start a worker that knows it, or cancel them".into(),
        });
    }
    Ok(())
}

async fn look_at_failed(store: &dyn Store, findings: &mut Vec<Finding>) -> anyhow::Result<()> {
    let failed = jobs_in(store, StateName::Failed).await?;
    let quarantined =
        |job: &&Job| matches!(job.state, State::Failed { reason: FailureReason::Quarantined, .. });
    let quarantined = failed.iter().filter(quarantined).count();
    if quarantined > 0 {
        findings.push(Finding {
            wrong: format!("{quarantined} jobs are quarantined: their workers were lost three times in a row"),
            next: "look at one with `windlass jobs --state failed`; mend what kills the worker, then `windlass retry`".into(),
        });
    }
    Ok(())
}
