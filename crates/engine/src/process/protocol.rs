//! What a program says on stdout: lines that begin with `::windlass ` and go
//! on with a JSON object of one field. All other lines are ordinary output.
//!
//! ```text
//! ::windlass {"progress": {"done": 3, "of": 10}}
//! ::windlass {"step": {"name": "download", "output": {"bytes": 512}}}
//! ::windlass {"result": {"url": "…"}}
//! ::windlass {"retry_after": "30s"}     on a non-zero exit: when to try again
//! ::windlass {"park": "5m"}             go on later; costs no attempt
//! ::windlass {"error": "no such shop"}  what to store instead of stderr's end
//! ```

use serde::{Deserialize, Serialize};
use windlass_core::id::StepName;
use windlass_core::json::Json;
use windlass_core::time::Span;

/// What a line of the protocol begins with.
pub const PREFIX: &str = "::windlass ";
/// The longest line that is read; more is cut off.
pub const LINE_BYTES_MAX: usize = 1024 * 1024 + 64 * 1024;

/// One thing that a program says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Word {
    /// How far it is.
    Progress(Json),
    /// A step has finished.
    Step {
        /// The step.
        name: StepName,
        /// What it gave.
        output: Json,
    },
    /// What the job gives.
    Result(Json),
    /// When to try again, should it not exit with 0.
    RetryAfter(Span),
    /// Go on later; costs no attempt.
    Park(Span),
    /// What went wrong.
    Error(String),
}

/// What a line is.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// A word of the protocol.
    Word(Word),
    /// A line that begins like one and cannot be read.
    Garbled(String),
    /// Ordinary output.
    Output(&'a str),
}

/// Reads a line.
pub fn read(line: &str) -> Line<'_> {
    match line.strip_prefix(PREFIX) {
        None => Line::Output(line),
        Some(json) => match serde_json::from_str(json) {
            Ok(word) => Line::Word(word),
            Err(error) => Line::Garbled(error.to_string()),
        },
    }
}

/// Writes a word as a line, without its end.
pub fn write(word: &Word) -> Result<String, serde_json::Error> {
    Ok(format!("{PREFIX}{}", serde_json::to_string(word)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_as_written() {
        for text in [
            r#"{"progress":{"done":3,"of":10}}"#,
            r#"{"step":{"name":"download","output":{"bytes":512}}}"#,
            r#"{"result":null}"#,
            r#"{"retry_after":"30s"}"#,
            r#"{"park":"5m"}"#,
            r#"{"error":"no such shop"}"#,
        ] {
            let line = format!("{PREFIX}{text}");
            let Line::Word(word) = read(&line) else { panic!("{line}") };
            assert_eq!(write(&word).unwrap(), line);
        }
        assert_eq!(read("hello"), Line::Output("hello"));
        for garbled in ["{", r#"{"unknown":1}"#, r#"{"park":"soon"}"#, r#"{"result":{"a":1,"a":2}}"#] {
            assert!(matches!(read(&format!("{PREFIX}{garbled}")), Line::Garbled(_)), "{garbled}");
        }
    }
}
