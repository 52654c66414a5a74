//! What a job gives: why it ended, and counts that add up to what was selected.

use serde::Serialize;
use serde_json::{Map, Value, json};

/// How many entries a list in a result has at most; the counts know of all.
const ENTRIES_MAX: usize = 10_000;

/// How the job's process is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Completed,
    Failed,
    Canceled,
}

/// Why a job ended, and what it did.
#[derive(Debug)]
pub(crate) struct Report {
    pub end: End,
    /// A word for programs.
    pub reason: &'static str,
    /// A sentence for people; no path, no key and no article in it.
    pub message: String,
    pub tally: Tally,
    /// What only this kind of job has to say.
    pub more: Map<String, Value>,
}

impl Report {
    pub(crate) fn new(end: End, reason: &'static str, message: impl Into<String>, tally: Tally) -> Self {
        Self { end, reason, message: message.into(), tally, more: Map::new() }
    }

    /// A job that could not begin.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(End::Failed, "error", message, Tally::default())
    }

    pub(crate) fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.more.insert(name.to_owned(), json!(value));
        self
    }

    /// The result as it is stored.
    pub(crate) fn to_json(&self) -> Value {
        let Self { end: _, reason, message, tally, more } = self;
        let Tally { selected, succeeded, skipped, failed, not_attempted } = tally;
        let mut result = json!({
            "schemaVersion": 1,
            "endingReason": reason,
            "endingMessage": message,
            "counts": {
                "selected": selected,
                "succeeded": succeeded,
                "skipped": skipped.count,
                "failed": failed.count,
                "notAttempted": not_attempted.count,
            },
            "skipped": skipped.entries,
            "failed": failed.entries,
            "notAttempted": not_attempted.entries,
        });
        for (name, value) in more {
            result[name] = value.clone();
        }
        result
    }
}

/// What became of everything that was selected.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub selected: usize,
    pub succeeded: usize,
    pub skipped: Listed,
    pub failed: Listed,
    pub not_attempted: Listed,
}

/// Entries with their number; of very many only the first are listed.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    pub count: usize,
    entries: Vec<Value>,
}

impl Listed {
    pub(crate) fn add(&mut self, entry: Value) {
        self.count += 1;
        if self.entries.len() < ENTRIES_MAX {
            self.entries.push(entry);
        }
    }

    /// An article and why.
    pub(crate) fn article(&mut self, id: i64, reason: &str) {
        self.add(json!({ "id": id, "reason": reason }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_bounded_and_counts_are_not() {
        let mut tally = Tally { selected: ENTRIES_MAX + 3, succeeded: 1, ..Tally::default() };
        for id in 0..ENTRIES_MAX + 2 {
            tally.failed.article(id as i64, "timeout");
        }
        let result = Report::new(End::Completed, "done", "Done.", tally).with("more", 7).to_json();
        assert_eq!(result["counts"]["failed"], ENTRIES_MAX + 2);
        assert_eq!(result["failed"].as_array().unwrap().len(), ENTRIES_MAX);
        assert_eq!((&result["more"], &result["endingReason"]), (&json!(7), &json!("done")));
    }
}
