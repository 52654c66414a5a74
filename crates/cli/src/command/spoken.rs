//! What `windlass work` says while it works: a line for each attempt, and what programs write.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use serde::Serialize;
use serde_json::json;
use windlass_engine::WorkerEvent;
use windlass_engine::core::id::{JobId, Kind, QueueName};
use windlass_engine::core::job::{Job, Start};
use windlass_engine::core::transition::Outcome;
use windlass_engine::process::Pipe;
use windlass_report::words::short_id;

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

/// As [`event`], for programs: a line of JSON on stdout.
pub fn event_json(event: &WorkerEvent<'_>) {
    let line = match event {
        WorkerEvent::Ended { job, outcome, took } => serde_json::to_string(&Ended::of(job, outcome, *took)),
        WorkerEvent::Lost { job_id, fence } => {
            serde_json::to_string(&json!({ "event": "lost", "id": job_id, "fence": fence }))
        }
        _ => return,
    };
    let _ = writeln!(std::io::stdout(), "{}", line.unwrap_or_default());
}

/// As [`output`], for programs.
pub fn output_json(job: &Job, pipe: Pipe, line: &str) {
    let pipe = match pipe {
        Pipe::Out => "stdout",
        Pipe::Err => "stderr",
    };
    let line = json!({ "event": "output", "id": job.id, "kind": job.spec.kind, "pipe": pipe, "line": line });
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// How an attempt ended, for programs.
#[derive(Serialize)]
struct Ended<'a> {
    event: &'static str,
    id: JobId,
    kind: &'a Kind,
    queue: &'a QueueName,
    attempt: u32,
    outcome: &'static str,
    took_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    again_in_ms: Option<u64>,
}

impl<'a> Ended<'a> {
    fn of(job: &'a Job, outcome: &'a Outcome, took: Duration) -> Self {
        let (word, error, again_in_ms) = match outcome {
            Outcome::Completed { .. } => ("completed", None, None),
            Outcome::Retry { error, when: Some(Start::AfterMs(ms)) } => {
                ("retrying", Some(error.as_str()), Some(*ms))
            }
            Outcome::Retry { error, .. } | Outcome::Failed { error } => {
                ("failed", Some(error.as_str()), None)
            }
            Outcome::Parked { until: Start::AfterMs(ms) } => ("parked", None, Some(*ms)),
            Outcome::Parked { .. } => ("parked", None, None),
            Outcome::Released => ("released", None, None),
            Outcome::Canceled => ("canceled", None, None),
        };
        Self {
            event: "ended",
            id: job.id,
            kind: &job.spec.kind,
            queue: &job.spec.queue,
            attempt: job.attempt,
            outcome: word,
            took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            error,
            again_in_ms,
        }
    }
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
    format!("…{}", short_id(id))
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
