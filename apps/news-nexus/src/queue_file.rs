//! The queue file: `{"jobs": […]}`, in the order of creation.
//!
//! Of a job it keeps its record and nothing else: parameters and results have
//! files of their own, and what the engine needs while a job is under way
//! (lease, fence, payload) ends with the process, as the job itself does.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use windlass::core::book::Book;
use windlass::core::book::layout::{Content, Layout, Unreadable};
use windlass::core::error::Invalid;
use windlass::core::job::Job;

use crate::record::Record;

/// How the queue file is written.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct QueueFile;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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

    fn read(&self, bytes: &[u8]) -> Result<Content, Unreadable> {
        let document: Document = serde_json::from_slice(bytes).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            Unreadable::Damaged(format!("it is not a list of jobs (line {line}, column {column})"))
        })?;
        let numbered = document.jobs.into_iter().zip(0..);
        let jobs: Result<Vec<Job>, Invalid> = numbered.map(|(record, seq)| record.into_job(seq)).collect();
        let book = jobs.and_then(Book::of_jobs).map_err(|error| Unreadable::Damaged(error.to_string()))?;
        Ok(Content { book: Arc::new(book), timekeeper: None, saved_at: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let content = QueueFile.read(ALL.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(QueueFile.write(&content).unwrap()).unwrap(), ALL);
        let empty = QueueFile.write(&Content::default()).unwrap();
        assert_eq!(empty, b"{\n  \"jobs\": []\n}\n");
        assert!(QueueFile.read(&empty).unwrap().book.is_empty());
    }

    #[test]
    fn a_start_ends_what_was_unfinished() {
        let mut content = QueueFile.read(ALL.as_bytes()).unwrap();
        let ended = Arc::make_mut(&mut content.book).end_by_restart("2026-03-01T00:00:00Z".parse().unwrap());
        assert_eq!(ended, 2);
        let text = String::from_utf8(QueueFile.write(&content).unwrap()).unwrap();
        assert_eq!(text.matches("worker_restart").count(), 3);
        assert!(
            text.contains("\"startedAt\": \"2026-02-27T20:15:01.000Z\",\n      \"endedAt\": \"2026-03-01")
        );
    }

    /// Fault 6: whatever is not a whole queue file is damage.
    #[test]
    fn fault_6_a_damaged_queue_file() {
        for bad in [
            "",
            "{",
            "[]",
            "{}",
            "null",
            &ALL[..ALL.len() / 2],
            &ALL.replace("completed", "done"),
            &ALL.replace("\"0001\"", "1"),
            &ALL.replace("2026-02-27T20:14:20.000Z", "yesterday"),
            &ALL.replace("000000000003", "000000000004"),
            &ALL.replace("\"jobId\": \"0001\",", ""),
            &ALL.replace("\"jobId\": \"0001\",", "\"jobId\": \"0001\", \"result\": {},"),
        ] {
            assert!(matches!(QueueFile.read(bad.as_bytes()), Err(Unreadable::Damaged(_))), "{bad}");
        }
    }
}
