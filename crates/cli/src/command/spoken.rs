//! What `windlass work` says while it works: a line for each attempt, and what programs write.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use windlass_engine::WorkerEvent;
use windlass_engine::core::id::JobId;
use windlass_engine::core::job::{Job, Start};
use windlass_engine::core::transition::Outcome;
use windlass_engine::process::Pipe;

use crate::output::{cut, plain};

/// How much of an error is shown; all of it is kept with the job.
const ERROR_LETTERS_MAX: usize = 200;

/// Says how an attempt ended. Should nobody read it, the work goes on all the same.
pub fn event(event: &WorkerEvent<'_>) {
    let line = match event {
        WorkerEvent::Ended { job, outcome, took } => ended(job, outcome, *took),
        WorkerEvent::Lost { job_id, .. } => {
            format!("! {} lost: another worker may have it; what it gave is dropped", short(*job_id))
        }
        _ => return,
    };
    let _ = writeln!(std::io::stderr(), "{}", coloured(&line, std::io::stderr().is_terminal()));
}

/// Passes a line of a program through, with its job before it.
pub fn output(job: &Job, pipe: Pipe, line: &str) {
    let line = format!("{} {} | {}", job.spec.kind, short(job.id), plain(line));
    let _ = match pipe {
        Pipe::Out => writeln!(std::io::stdout(), "{line}"),
        Pipe::Err => writeln!(std::io::stderr(), "{line}"),
    };
}

fn ended(job: &Job, outcome: &Outcome, took: Duration) -> String {
    let who = format!("{} {} {}", job.spec.kind, short(job.id), span(took));
    match outcome {
        Outcome::Completed { .. } => format!("✓ {who}"),
        Outcome::Retry { error, when: Some(Start::AfterMs(ms)) } => {
            format!("✗ {who} {} · again in {}", said(error), span(Duration::from_millis(*ms)))
        }
        Outcome::Retry { error, .. } => format!("✗ {who} {} · that was its last attempt", said(error)),
        Outcome::Failed { error } => format!("✗ {who} {} · failed for good", said(error)),
        Outcome::Parked { until: Start::AfterMs(ms) } => {
            format!("· {who} parked · again in {}", span(Duration::from_millis(*ms)))
        }
        Outcome::Parked { .. } => format!("· {who} parked"),
        Outcome::Released => format!("· {who} given back, unfinished"),
        Outcome::Canceled => format!("· {who} canceled"),
    }
}

fn said(error: &str) -> String {
    cut(
        error.strip_prefix("exit status: ").map_or(error.to_owned(), |rest| format!("exit {rest}")).trim(),
        ERROR_LETTERS_MAX,
    )
}

fn short(id: JobId) -> String {
    format!("…{}", super::which::short(id))
}

fn span(took: Duration) -> String {
    match took.as_millis() {
        ms @ ..1_000 => format!("{ms} ms"),
        ms @ ..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        ms @ ..3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1_000 % 60),
        ms => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

fn coloured(line: &str, terminal: bool) -> String {
    if !terminal || std::env::var_os("NO_COLOR").is_some() {
        return line.to_owned();
    }
    let (mark, rest) = line.split_at(line.chars().next().map_or(0, char::len_utf8));
    let colour = match mark {
        "✓" => 32,
        "✗" | "!" => 31,
        _ => 2,
    };
    format!("\x1b[{colour}m{mark}\x1b[0m{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short() {
        for (ms, text) in [(18, "18 ms"), (11_000, "11.0 s"), (61_000, "1 min 1 s"), (7_260_000, "2 h 1 min")]
        {
            assert_eq!(span(Duration::from_millis(ms)), text);
        }
    }

    #[test]
    fn errors_are_one_line() {
        assert_eq!(said("exit status: 1: no\nluck"), "exit 1: no\\nluck");
        assert_eq!(said(&"x".repeat(300)).chars().count(), ERROR_LETTERS_MAX + 1);
    }
}
