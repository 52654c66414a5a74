//! `windlass work`: turns any program into a worker.

use std::time::Duration;

use clap::Args;
use windlass_engine::Worker;
use windlass_engine::core::time::Span;
use windlass_engine::process::{Command, sweep_orphans};

use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::wiring::open_place;

/// Which jobs, with which program.
#[derive(Debug, Args)]
#[command(after_help = "The program gets the payload on stdin, and WINDLASS_JOB_ID, WINDLASS_FENCE and \
    WINDLASS_ATTEMPT in its environment.\nExit code 0 is completed, 65 is failed for good, anything else is tried \
    again. Lines on stdout that begin with\n\"::windlass \" report progress, steps and a result: see \
    docs/guide/workers.md.\n\nExamples:\n  windlass work --kind resize --exec ./resize.sh\n  \
    windlass work --kind report --queue slow --slots 2 --exec python3 report.py --fast")]
pub struct WorkArgs {
    /// The kind of jobs; may be said several times for one program
    #[arg(long = "kind", required = true, value_name = "KIND")]
    kinds: Vec<String>,
    /// The queues to claim from
    #[arg(long = "queue", default_value = "default", value_name = "QUEUE")]
    queues: Vec<String>,
    /// How many jobs run at once
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    slots: u16,
    /// The time between SIGTERM and SIGKILL
    #[arg(long, default_value = "10s")]
    grace: Span,
    /// How long attempts are held still while the store is away, before they are given up
    #[arg(long, default_value = "10m")]
    still: Span,
    /// A variable of this environment that the program gets, too; may be said several times
    #[arg(long = "env", value_name = "NAME")]
    env: Vec<String>,
    /// Stop when there is nothing to do
    #[arg(long)]
    until_idle: bool,
    /// The program and its arguments; there is no shell in between
    #[arg(long, required = true, num_args = 1.., allow_hyphen_values = true, value_name = "PROGRAM")]
    exec: Vec<String>,
    #[command(flatten)]
    place: PlaceArgs,
}

/// Works until SIGTERM or SIGINT.
pub async fn run(args: WorkArgs) -> anyhow::Result<Code> {
    let swept = sweep_orphans();
    if swept > 0 {
        eprintln!("ended {swept} processes that an earlier worker had left behind");
    }
    let store = open_place(&args.place).await?;
    let mut command = Command::new(args.exec)?;
    for name in &args.env {
        command = command.inherit(name);
    }
    let mut worker = Worker::new(store)
        .slots(usize::from(args.slots))
        .grace(Duration::from_millis(args.grace.ms()))
        .still(Duration::from_millis(args.still.ms()))
        .queues(args.queues.iter().map(String::as_str));
    for kind in &args.kinds {
        worker = worker.handle_command(kind, command.clone());
    }
    eprintln!("working on {} from {}; Ctrl-C ends it", args.kinds.join(", "), args.queues.join(", "));
    let summary = match args.until_idle {
        true => worker.run_until_idle().await?,
        false => worker.run_until_signal().await?,
    };
    eprintln!("{} attempts, {} settled, {} lost", summary.claimed, summary.settled, summary.lost);
    Ok(Code::Done)
}
