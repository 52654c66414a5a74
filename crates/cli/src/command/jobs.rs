//! `windlass jobs`: a list, newest first.

use clap::Args;
use windlass_server::text;

use super::filter::{FilterArgs, find};
use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::{ago, cut, print_json, table};
use crate::say;
use crate::wiring::open_place;

/// Which, and how many.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  windlass jobs --state failed --since 1h\n  windlass jobs --text shop-7 --json"
)]
pub struct JobsArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// How many at most
    #[arg(long, default_value_t = 20)]
    limit: usize,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Lists them.
pub async fn run(args: JobsArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    let filter = args.filter.resolve(&*store).await?;
    let jobs = find(&*store, &filter, args.limit).await?;
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
    let rows = jobs.iter().map(|job| {
        vec![
            job.id.to_string(),
            job.state.name().to_string(),
            cut(job.spec.kind.as_str(), 24),
            cut(job.spec.queue.as_str(), 16),
            job.attempt.to_string(),
            ago(job.created_at, now),
            cut(job.last_error().unwrap_or_default(), 40),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    say!("{}", table(&["id", "state", "kind", "queue", "attempt", "accepted", "last error"], &rows));
    Ok(Code::Done)
}
