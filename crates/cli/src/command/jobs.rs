//! `windlass jobs`: a list, newest first.

use clap::{Args, Subcommand};
use windlass_engine::core::job::Job;
use windlass_engine::core::state::StateName;
use windlass_engine::core::store::Store;
use windlass_engine::core::time::Time;
use windlass_report::search::find;
use windlass_report::text;
use windlass_report::words::short_id;

use super::explain::sentence;
use super::filter::FilterArgs;
use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::{ago, cut, fitted, plain, print_json};
use crate::say;
use crate::wiring::open_place;

const KIND_LETTERS_MAX: usize = 32;
const QUEUE_LETTERS_MAX: usize = 24;
/// Of how many queued jobs it is said what they wait for: each is a question to the store.
const EXPLAINED_MAX: usize = 50;

/// Which, and how many.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass jobs --state failed --since 1h\n  windlass jobs --text shop-7 --json"
)]
pub struct JobsArgs {
    #[command(subcommand)]
    act: Option<Act>,
    #[command(flatten)]
    list: ListArgs,
}

/// What else is done with jobs; most are verbs of their own, too.
#[derive(Debug, Subcommand)]
enum Act {
    /// List them, newest first: what `jobs` does by itself
    List(ListArgs),
    /// Show one with all that is known of it
    Show(super::job::JobArgs),
    /// Show what one said
    Logs(super::logs::LogsArgs),
    /// Cancel some
    Cancel(super::cancel::CancelArgs),
    /// Start a new life of some that are over
    Retry(super::retry::RetryArgs),
    /// Make queued ones due that wait for their time
    Run(super::run::RunArgs),
    /// Delete some that are queued or over
    Delete(super::delete::DeleteArgs),
    /// Say why one is not running
    Explain(super::explain::ExplainArgs),
}

#[derive(Debug, Args)]
struct ListArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// How many at most
    #[arg(long, default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Lists them, or does what was asked with some.
pub async fn run(args: JobsArgs, json: bool) -> anyhow::Result<Code> {
    anyhow::ensure!(
        args.act.is_none() || args.list.filter.is_empty(),
        "say which jobs behind the verb, such as: windlass jobs cancel --state queued"
    );
    match args.act {
        None => list(args.list, json).await,
        Some(Act::List(args)) => list(args, json).await,
        Some(Act::Show(args)) => super::job::run(args, json).await,
        Some(Act::Logs(args)) => super::logs::run(args, json).await,
        Some(Act::Cancel(args)) => super::cancel::run(args, json).await,
        Some(Act::Retry(args)) => super::retry::run(args, json).await,
        Some(Act::Run(args)) => super::run::run(args, json).await,
        Some(Act::Delete(args)) => super::delete::run(args, json).await,
        Some(Act::Explain(args)) => super::explain::run(args, json).await,
    }
}

async fn list(args: ListArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let wanted = args.filter.resolve(&*store).await?;
    let jobs = find(&*store, &wanted, args.limit).await?;
    if json {
        for job in jobs {
            print_json(&text::listed(job))?;
        }
        return Ok(Code::Done);
    }
    if jobs.is_empty() {
        eprintln!("no job fits; `windlass enqueue KIND` makes one");
        return Ok(Code::Done);
    }
    let now = store.now().await?;
    let mut rows = Vec::new();
    for job in &jobs {
        rows.push(vec![
            short_id(job.id),
            job.state.name().to_string(),
            cut(job.spec.kind.as_str(), KIND_LETTERS_MAX),
            cut(job.spec.queue.as_str(), QUEUE_LETTERS_MAX),
            job.attempt.to_string(),
            ago(job.created_at, now),
            said(&*store, job, now, rows.len()).await?,
        ]);
    }
    say!(
        "{}",
        fitted(&["id", "state", "kind", "queue", "attempt", "accepted", "waits for, or error"], &rows)
    );
    Ok(Code::Done)
}

/// The one thing to know of a job: what it waits for, or what went wrong. What went wrong before it went well is history.
async fn said(store: &dyn Store, job: &Job, now: Time, row: usize) -> anyhow::Result<String> {
    let error = job.last_error().unwrap_or_default();
    match job.state.name() {
        StateName::Queued if row < EXPLAINED_MAX => {}
        StateName::Queued | StateName::Failed => return Ok(plain(error)),
        StateName::Running | StateName::Completed | StateName::Canceled => return Ok(String::new()),
    }
    let explanation = store.explain(job.id).await?;
    let why = explanation.map(|explanation| sentence(&explanation, now)).unwrap_or_default();
    Ok(if error.is_empty() { why } else { format!("{why} · {}", plain(error)) })
}
