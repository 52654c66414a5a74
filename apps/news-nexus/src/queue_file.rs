//! The queue file: `{"jobs": […]}`, in the order of creation.
//!
//! Of a job it keeps its record and nothing else: parameters and results have
//! files of their own, and what the engine needs while a job is under way
//! (lease, fence, payload) ends with the process, as the job itself does.

use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use windlass_engine::core::book::Book;
use windlass_engine::core::book::layout::{Content, Layout, Unreadable};
use windlass_engine::core::error::Invalid;
use windlass_engine::core::job::Job;
use windlass_engine::core::time::Clock;

use crate::record::Record;
use crate::repair;

/// How the queue file is written.
#[derive(Clone)]
pub(crate) struct QueueFile {
    /// For records that do not say when they were made.
    pub clock: Arc<dyn Clock>,
}

#[derive(Serialize)]
struct Document {
    jobs: Vec<Record>,
}

impl Layout for QueueFile {
    fn write(&self, content: &Content) -> Result<Vec<u8>, String> {
        let document = Document { jobs: content.book.jobs().map(Record::of).collect() };
        let mut bytes = serde_json::to_vec_pretty(&document).map_err(|error| error.to_string())?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Whatever has a list of jobs is a queue file; a record in it that is odd
    /// is repaired, so that the others stay readable.
    fn read(&self, bytes: &[u8]) -> Result<Content, Unreadable> {
        let damaged = |why: String| Unreadable::Damaged(why);
        // What some editors write before the text.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let document: Value = serde_json::from_slice(bytes).map_err(|error| {
            damaged(format!("it is not JSON (line {}, column {})", error.line(), error.column()))
        })?;
        let Value::Object(mut document) = document else { return Err(damaged("it is no object".to_owned())) };
        let Some(Value::Array(jobs)) = document.remove("jobs") else {
            return Err(damaged("it has no list of jobs".to_owned()));
        };
        let (records, repaired) = repair::records(jobs, self.clock.wall());
        if repaired > 0 {
            tracing::warn!(
                repaired,
                of = records.len(),
                "The queue file had odd records; they were repaired"
            );
        }
        let numbered = records.into_iter().zip(0..);
        let jobs: Result<Vec<Job>, Invalid> = numbered.map(|(record, seq)| record.into_job(seq)).collect();
        let book = jobs.and_then(Book::of_jobs).map_err(|error| damaged(error.to_string()))?;
        Ok(Content { book: Arc::new(book), ..Content::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass_engine::world::RealWorld;

    fn queue_file() -> QueueFile {
        QueueFile { clock: Arc::new(RealWorld::new()) }
    }

    const ALL: &str = r#"{
  "jobs": [
    {
      "jobId": "0001",
      "endpointName": "/state-assigner/start-job",
      "status": "completed",
      "createdAt": "2026-02-27T20:14:18.123Z",
      "startedAt": "2026-02-27T20:14:18.200Z",
      "endedAt": "2026-02-27T20:15:00.000Z"
    },
    {
      "jobId": "019c9f2a-0000-7000-8000-000000000001",
      "endpointName": "/request-google-rss/start-job",
      "status": "failed",
      "createdAt": "2026-02-27T20:14:19.000Z",
      "endedAt": "2026-02-27T20:15:00.000Z",
      "failureReason": "worker_restart"
    },
    {
      "jobId": "019c9f2a-0000-7000-8000-000000000002",
      "endpointName": "/a-route-of-tomorrow/start-job",
      "status": "canceled",
      "createdAt": "2026-02-27T20:14:19.000Z",
      "endedAt": "2026-02-27T20:15:00.000Z",
      "failureReason": "canceled_before_start"
    },
    {
      "jobId": "019c9f2a-0000-7000-8000-000000000003",
      "endpointName": "/semantic-scorer/start-job",
      "status": "running",
      "createdAt": "2026-02-27T20:14:20.000Z",
      "startedAt": "2026-02-27T20:15:01.000Z"
    },
    {
      "jobId": "019c9f2a-0000-7000-8000-000000000004",
      "endpointName": "/semantic-scorer/start-job",
      "status": "queued",
      "createdAt": "2026-02-27T20:14:21.000Z"
    }
  ]
}
"#;

    #[test]
    fn it_reads_back_as_written() {
        let content = queue_file().read(ALL.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(queue_file().write(&content).unwrap()).unwrap(), ALL);
        let empty = queue_file().write(&Content::default()).unwrap();
        assert_eq!(empty, b"{\n  \"jobs\": []\n}\n");
        assert!(queue_file().read(&empty).unwrap().book.is_empty());
    }

    /// An editor may have put a byte order mark before it.
    #[test]
    fn a_byte_order_mark_is_nothing() {
        let content = queue_file().read(format!("\u{feff}{ALL}").as_bytes()).unwrap();
        assert_eq!(String::from_utf8(queue_file().write(&content).unwrap()).unwrap(), ALL);
    }

    #[test]
    fn a_start_ends_what_was_unfinished() {
        let mut content = queue_file().read(ALL.as_bytes()).unwrap();
        let ended = Arc::make_mut(&mut content.book).end_by_restart("2026-03-01T00:00:00Z".parse().unwrap());
        assert_eq!(ended, 2);
        let text = String::from_utf8(queue_file().write(&content).unwrap()).unwrap();
        assert_eq!(text.matches("worker_restart").count(), 3);
        assert!(
            text.contains("\"startedAt\": \"2026-02-27T20:15:01.000Z\",\n      \"endedAt\": \"2026-03-01")
        );
    }

    /// Fault 6: what is no queue file is damage.
    #[test]
    fn fault_6_a_damaged_queue_file() {
        for bad in ["", "{", "[]", "{}", "null", "{\"jobs\": {}}", &ALL[..ALL.len() / 2]] {
            assert!(matches!(queue_file().read(bad.as_bytes()), Err(Unreadable::Damaged(_))), "{bad}");
        }
    }

    /// One odd record is repaired, and the others are as they were.
    #[test]
    fn odd_records_are_repaired_and_the_others_stay() {
        for (odd, shown) in [
            (ALL.replace("completed", "done"), "unknown_status: done"),
            (ALL.replace("\"0001\"", "1"), "\"1\""),
            (ALL.replace("000000000003", "000000000004"), "000000000004-2"),
            (ALL.replace("\"jobId\": \"0001\",", ""), "unnamed-1"),
            (ALL.replace("\"jobId\": \"0001\",", "\"jobId\": \"0001\", \"extra\": {\"n\": [1]},"), "\"extra\""),
            (ALL.replace("2026-02-27T20:14:18.123Z", "yesterday"), "2026-02-27T20:14:18.200Z"),
            (ALL.replace("      \"endedAt\": \"2026-02-27T20:15:00.000Z\"\n    },\n    {\n      \"jobId\": \"019c9f2a-0000-7000-8000-000000000001\"",
                "      \"endedAt\": null\n    },\n    {\n      \"jobId\": \"019c9f2a-0000-7000-8000-000000000001\""), "\"0001\""),
            (ALL.replace("\"jobs\": [", "\"version\": 2, \"jobs\": [7, "), "unnamed-1"),
            (ALL.replace("/a-route-of-tomorrow/start-job", ""), "\"unknown\""),
        ] {
            assert_ne!(odd, ALL, "{shown}: nothing was changed");
            let content = queue_file().read(odd.as_bytes()).unwrap_or_else(|error| panic!("{shown}: {error:?}"));
            let text = String::from_utf8(queue_file().write(&content).unwrap()).unwrap();
            assert!(text.contains(shown), "{shown} is not in {text}");
            assert!(text.contains("000000000001") && text.contains("worker_restart"), "{text}");
            let again = queue_file().read(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(queue_file().write(&again).unwrap()).unwrap(), text, "repaired once");
        }
    }
}
