//! `windlass work`: turns any program into a worker.

use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use clap::{ArgGroup, Args};
use windlass_engine::Worker;
use windlass_engine::core::time::Span;
use windlass_engine::process::{Command, sweep_orphans};
use windlass_report::words::counted;

use super::spoken;
use crate::args::PlaceArgs;
use crate::exit::Code;
use crate::output::print_json;
use crate::wiring::{make_place, without_password};

/// Which jobs, with which program.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("with").required(true).args(["program", "exec"]),
    after_help = "The program gets the payload on stdin, and WINDLASS_JOB_ID, WINDLASS_FENCE and \
    WINDLASS_ATTEMPT in its environment.\nExit code 0 is completed, 65 is failed for good, anything else is tried \
    again. Lines on stdout that begin with\n\"::windlass \" report progress, steps and a result: see \
    docs/guide/workers.md.\nWith --json stdout has a line for each attempt that ends ({\"event\": \"ended\", …}), for \
    each line of the program\n(\"output\"), for each lost lease (\"lost\"), and one at the end (\"over\").\n\nExamples:\n  windlass work --kind resize -- ./resize.sh\n  \
    windlass work --kind report --queue slow --slots 2 -- python3 report.py --fast"
)]
pub struct WorkArgs {
    /// The kind of jobs; may be said several times for one program
    #[arg(long = "kind", required = true, value_name = "KIND", add = crate::names::kinds())]
    kinds: Vec<String>,
    /// The queues to claim from
    #[arg(long = "queue", default_value = "default", value_name = "QUEUE", add = crate::names::queues())]
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
    /// Say nothing of attempts, and pass no output of the program through
    #[arg(long, short)]
    quiet: bool,
    /// The same as -- PROGRAM; every word behind it belongs to the program
    #[arg(long, num_args = 1.., allow_hyphen_values = true, value_name = "PROGRAM")]
    exec: Vec<String>,
    #[command(flatten)]
    place: PlaceArgs,
    /// The program and its arguments; there is no shell in between
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Works until SIGTERM or SIGINT.
pub async fn run(args: WorkArgs, json: bool) -> anyhow::Result<Code> {
    let program = program(&args)?;
    let swept = sweep_orphans();
    if swept > 0 {
        let swept = if swept == 1 { "1 process".to_owned() } else { format!("{swept} processes") };
        eprintln!("ended {swept} that an earlier worker had left behind");
    }
    let store = make_place(&args.place).await?;
    let mut command = Command::new(program)?;
    for name in &args.env {
        command = command.inherit(name);
    }
    let mut worker = Worker::new(store)
        .slots(usize::from(args.slots))
        .grace(Duration::from_millis(args.grace.ms()))
        .still(Duration::from_millis(args.still.ms()))
        .queues(args.queues.iter().map(String::as_str));
    if !args.quiet {
        command = if json { command.on_line(spoken::output_json) } else { command.on_line(spoken::output) };
        worker = if json { worker.on_event(spoken::event_json) } else { worker.on_event(spoken::event) };
    }
    for kind in &args.kinds {
        worker = worker.handle_command(kind, command.clone());
    }
    eprintln!(
        "working on {} from {} of {}; Ctrl-C ends it",
        args.kinds.join(", "),
        args.queues.join(", "),
        without_password(&args.place.target())
    );
    let summary = match args.until_idle {
        true => worker.run_until_idle().await?,
        false => worker.run_until_signal().await?,
    };
    match json {
        true => print_json(&serde_json::json!({
            "event": "over", "attempts": summary.claimed, "settled": summary.settled, "lost": summary.lost,
        }))?,
        false => {
            let attempts = counted(summary.claimed, "attempt");
            eprintln!("{attempts}, {} settled, {} lost", summary.settled, summary.lost)
        }
    }
    Ok(Code::Done)
}

/// What to run: known to be there, so that no job fails for a slip of the pen.
fn program(args: &WorkArgs) -> anyhow::Result<Vec<String>> {
    // Behind --exec a flag of ours would go to the program, and the worker elsewhere.
    let known = WorkArgs::augment_args(clap::Command::new("work"));
    let ours = |word: &str| {
        let name = word.strip_prefix("--").and_then(|rest| rest.split('=').next());
        name.is_some_and(|name| {
            known.get_arguments().any(|arg| arg.get_long() == Some(name)) || name == "json"
        })
    };
    let swallowed = args.exec.iter().find(|word| ours(word));
    if let Some(flag) = swallowed {
        bail!(
            "{flag} stands behind --exec and would go to the program; say it before, or write: windlass work … {flag} … -- PROGRAM"
        );
    }
    let words = if args.program.is_empty() { &args.exec } else { &args.program };
    let name = words.first().map(String::as_str).unwrap_or_default();
    if !is_there(name) {
        bail!(
            "there is no program {name:?} that may be run; give its path, such as ./greet.sh, and chmod +x it"
        );
    }
    Ok(words.clone())
}

fn is_there(name: &str) -> bool {
    if name.contains('/') {
        return may_run(Path::new(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| may_run(&folder.join(name)))
}

fn may_run(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
