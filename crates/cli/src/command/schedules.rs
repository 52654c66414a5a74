//! `windlass schedules`: cron lines that enqueue jobs.

use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use windlass_engine::core::id::{Kind, QueueName, ScheduleName};
use windlass_engine::core::job::JobSpec;
use windlass_engine::core::json::Json;
use windlass_engine::core::policy::schedule::{Missed, Overlap, Schedule, SchedulePolicy};
use windlass_engine::core::store::Store;
use windlass_engine::{Client, Enqueued};
use windlass_report::text;

use crate::args::PlaceArgs;
use crate::exit::{Code, not_found};
use crate::output::{fitted, outcome, plain, print_json, until};
use crate::say;
use crate::wiring::open_place;

/// List them, or change one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  windlass schedules\n  \
    windlass schedules set nightly --cron '30 2 * * *' --zone Europe/Berlin --kind report\n  \
    windlass schedules run nightly")]
pub struct SchedulesArgs {
    #[command(subcommand)]
    act: Option<Act>,
    #[command(flatten)]
    place: PlaceArgs,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// Set a schedule
    Set(Box<Wish>),
    /// Leave out its runs until it is resumed; none of them is made up for
    Pause {
        /// The schedule
        #[arg(add = crate::names::schedules())]
        name: ScheduleName,
    },
    /// Let it go on with its next run
    Resume {
        /// The schedule
        #[arg(add = crate::names::schedules())]
        name: ScheduleName,
    },
    /// Enqueue its job now, as one of its runs would
    Run {
        /// The schedule
        #[arg(add = crate::names::schedules())]
        name: ScheduleName,
    },
    /// Take it away; jobs that it enqueued stay
    Delete {
        /// The schedule
        #[arg(add = crate::names::schedules())]
        name: ScheduleName,
    },
}

#[derive(Debug, Args)]
struct Wish {
    /// The schedule
    #[arg(add = crate::names::schedules())]
    name: ScheduleName,
    /// Five fields, or six with seconds in front
    #[arg(long)]
    cron: String,
    /// An IANA time zone
    #[arg(long, default_value = "UTC")]
    zone: String,
    /// The kind of its jobs
    #[arg(long, add = crate::names::kinds())]
    kind: Kind,
    /// Their queue
    #[arg(long, default_value = "default", add = crate::names::queues())]
    queue: QueueName,
    /// Their payload as JSON
    #[arg(long, default_value = "null")]
    payload: String,
    /// What happens while the job of an earlier run is not over
    #[arg(long, value_enum, default_value_t = OverlapWord::Skip)]
    overlap: OverlapWord,
    /// What happens to runs that nobody was there for: skip, last, or how many of them
    #[arg(long, default_value = "last", value_parser = missed)]
    missed: Missed,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum OverlapWord {
    /// The run is left out
    Skip,
    /// The job is enqueued all the same
    Queue,
}

fn missed(text: &str) -> Result<Missed, String> {
    match text {
        "skip" => Ok(Missed::Skip),
        "last" => Ok(Missed::Last),
        _ => text.parse().map(Missed::All).map_err(|_| "is neither skip, nor last, nor a number".into()),
    }
}

/// Lists them, or changes one.
pub async fn run(args: SchedulesArgs, json: bool) -> anyhow::Result<Code> {
    let store = open_place(&args.place).await?;
    match args.act {
        None => list(&*store, json).await,
        Some(Act::Set(wish)) => set(&*store, *wish, json).await,
        Some(Act::Pause { name }) => pause(&*store, name, true, json).await,
        Some(Act::Resume { name }) => pause(&*store, name, false, json).await,
        Some(Act::Run { name }) => run_now(store, name, json).await,
        Some(Act::Delete { name }) => match store.delete_schedule(name.clone()).await? {
            true => said(&name, "deleted", "is gone", json),
            false => nobody(&name),
        },
    }
}

async fn list(store: &dyn Store, json: bool) -> anyhow::Result<Code> {
    let schedules = store.schedules().await?;
    if json {
        schedules.into_iter().try_for_each(|schedule| print_json(&text::schedule(schedule)))?;
        return Ok(Code::Done);
    }
    if schedules.is_empty() {
        eprintln!(
            "there is no schedule; `windlass schedules set NAME --cron '0 * * * *' --kind KIND` makes one"
        );
        return Ok(Code::Done);
    }
    let now = store.now().await?;
    let row = |schedule: &Schedule| {
        let next = schedule.policy.next_after(now).filter(|_| !schedule.policy.paused);
        vec![
            plain(schedule.name.as_str()),
            schedule.policy.cron.clone(),
            schedule.policy.zone.clone(),
            plain(schedule.policy.job.kind.as_str()),
            schedule.last_run.map(|at| at.to_string()).unwrap_or_default(),
            next.map_or("paused".into(), |at| until(at, now)),
        ]
    };
    let rows: Vec<Vec<String>> = schedules.iter().map(row).collect();
    say!("{}", fitted(&["schedule", "cron", "zone", "kind", "last run", "next run"], &rows));
    Ok(Code::Done)
}

async fn set(store: &dyn Store, wish: Wish, json: bool) -> anyhow::Result<Code> {
    let policy = SchedulePolicy {
        cron: wish.cron,
        zone: wish.zone,
        overlap: match wish.overlap {
            OverlapWord::Skip => Overlap::Skip,
            OverlapWord::Queue => Overlap::Queue,
        },
        missed: wish.missed,
        paused: false,
        job: JobSpec::new(wish.kind, wish.queue, Json::payload(wish.payload)?),
    };
    store.put_schedule(wish.name.clone(), policy).await?;
    said(&wish.name, "set", "is set", json)
}

async fn pause(store: &dyn Store, name: ScheduleName, paused: bool, json: bool) -> anyhow::Result<Code> {
    let Some(mut schedule) = find(store, &name).await? else { return nobody(&name) };
    schedule.policy.paused = paused;
    store.put_schedule(name.clone(), schedule.policy).await?;
    match paused {
        true => said(&name, "paused", "is paused", json),
        false => said(&name, "resumed", "goes on", json),
    }
}

async fn run_now(store: Arc<dyn Store>, name: ScheduleName, json: bool) -> anyhow::Result<Code> {
    let run = Client::new(store).run_schedule(&name).await?;
    let Some(Enqueued { id, deduplicated }) = run else { return nobody(&name) };
    if json {
        print_json(&serde_json::json!({ "job_id": id, "deduplicated": deduplicated }))?;
        return Ok(Code::Done);
    }
    if deduplicated {
        eprintln!("the job of an earlier run is not over: this is that one");
    }
    say!("{id}");
    Ok(Code::Done)
}

async fn find(store: &dyn Store, name: &ScheduleName) -> anyhow::Result<Option<Schedule>> {
    Ok(store.schedules().await?.into_iter().find(|schedule| schedule.name == *name))
}

fn said(name: &ScheduleName, word: &str, said: &str, json: bool) -> anyhow::Result<Code> {
    outcome(json, "schedule", name.as_str(), word, said)?;
    Ok(Code::Done)
}

fn nobody(name: &ScheduleName) -> anyhow::Result<Code> {
    let name = plain(name.as_str());
    Err(not_found(format!("there is no schedule {name}; `windlass schedules` lists them")))
}
