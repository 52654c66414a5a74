//! What no store takes: a clear typed error, and nothing stored.

use std::time::Duration;

use windlass_engine::JobRequest;
use windlass_engine::core::error::{Invalid, StoreError};
use windlass_engine::core::id::{DedupeKey, Key, Kind, QueueName};
use windlass_engine::core::job::{JobSpec, NewJob, Start};
use windlass_engine::core::json::{Json, PAYLOAD_BYTES_MAX};
use windlass_engine::core::query::{JobFilter, ListRequest};
use windlass_engine::core::store::{ENQUEUE_MAX, Store};
use windlass_engine::core::time::{Span, Time};

use crate::stage::Stage;

async fn nothing_is_stored(stage: &Stage) {
    let request = ListRequest { filter: JobFilter::default(), limit: 10, after: None };
    assert!(stage.store.list(request).await.unwrap().jobs.is_empty());
    assert!(stage.store.queues().await.unwrap().is_empty());
}

#[tokio::test]
async fn bad_payloads_are_refused() {
    let nested = |depth: usize| [vec![b'['; depth], vec![b']'; depth]].concat();
    let cases: [(Vec<u8>, &str); 8] = [
        (vec![b'1'; PAYLOAD_BYTES_MAX + 1], "payload has 1048577 bytes; at most 1048576 are allowed"),
        (b"\"a\\u0000b\"".to_vec(), "payload contains NUL (at byte 8)"),
        (b"\"a\0b\"".to_vec(), "payload has a control character in a string (at byte 2)"),
        (b"\"\xc3\x28\"".to_vec(), "payload is not UTF-8"),
        (nested(10_000), "payload is nested deeper than 64 (at byte 64)"),
        (b"{\"a\":1,\"a\":2}".to_vec(), "payload has an object with a duplicate key (at byte 13)"),
        (
            b"12345678901234567890".to_vec(),
            "payload has an integer that does not fit into 64 bits (at byte 20)",
        ),
        (b"{".to_vec(), "payload has an object without a key in quotes (at byte 1)"),
    ];
    for (payload, expected) in cases {
        assert_eq!(Json::payload(&payload).unwrap_err().to_string(), expected);
    }
    // The same gate stands before the client.
    let huge = "x".repeat(PAYLOAD_BYTES_MAX);
    assert!(JobRequest::new("note", &huge).build().is_err());
    assert!(JobRequest::new("note", "a\0b").build().is_err());
}

#[test]
fn bad_names_are_refused() {
    for name in ["", "a\nb", "a\0b", &"x".repeat(129)] {
        assert!(Kind::new(name).is_err() && QueueName::new(name).is_err(), "{name:?}");
        assert!(JobRequest::new(name, ()).build().is_err());
    }
    assert!(Key::new("x".repeat(513)).is_err() && DedupeKey::new("").is_err());
}

#[test]
fn absurd_times_are_refused_or_bounded() {
    for text in ["", "tomorrow", "2026-13-01T00:00:00Z", "-262143-01-01T00:00:00Z", "99999-01-01T00:00:00Z"] {
        assert!(text.parse::<Time>().is_err(), "{text}");
    }
    for text in ["-5m", "5", "1e9d", "999999999999d"] {
        let error: Invalid = text.parse::<Span>().unwrap_err();
        assert_eq!(error.field, "duration", "{text}");
    }
    assert_eq!(Start::AfterMs(u64::MAX).moment(Time::MIN), Time::MAX);
}

#[tokio::test]
async fn refusals_leave_nothing_behind() {
    let stage = Stage::new();
    let too_many_budgets = (0..9).fold(JobRequest::new("note", ()), |job, at| job.budget(format!("b{at}")));
    let refused = stage.client.enqueue(too_many_budgets).await.unwrap_err();
    assert_eq!((refused.code(), refused.is_transient()), ("invalid", false));
    let jobs = vec![JobRequest::new("note", ()); ENQUEUE_MAX + 1];
    assert!(matches!(stage.client.enqueue_many(jobs).await, Err(StoreError::Invalid(_))));
    nothing_is_stored(&stage).await;

    // An id that is used again for something else takes the whole batch with it.
    let id = stage.enqueue_with("one", |job| job.delay(Duration::from_secs(60))).await;
    let spec = JobSpec::new(Kind::new("other").unwrap(), QueueName::default(), Json::null());
    let conflict = NewJob { id, spec: spec.clone(), start: Start::Now };
    let fresh =
        NewJob { id: "0198c0de-0000-7000-8000-000000000001".parse().unwrap(), spec, start: Start::Now };
    let refused = stage.store.enqueue(vec![fresh.clone(), conflict]).await.unwrap_err();
    assert_eq!(refused, StoreError::Conflict(id));
    assert!(stage.store.get(fresh.id).await.unwrap().is_none());
}
