//! Jobs and claims of tests.

use uuid::Uuid;
use windlass_core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::store::ClaimRequest;

pub fn queue() -> QueueName {
    QueueName::new("mail").expect("a name")
}

pub fn job(number: u128) -> NewJob {
    let spec = JobSpec::new(Kind::new("send").expect("a kind"), queue(), Json::null());
    NewJob { id: JobId(Uuid::from_u128(number + 1)), spec, start: Start::Now }
}

pub fn claim(number: u128) -> ClaimRequest {
    ClaimRequest {
        request_id: Uuid::from_u128(number << 64),
        worker: WorkerName::new("worker").expect("a name"),
        queues: vec![queue()],
        kinds: None,
        limit: 50,
        lease_ms: Some(600_000),
    }
}
