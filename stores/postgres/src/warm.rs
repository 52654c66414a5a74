//! The first job of a connection meets statements that the server has not planned
//! yet, which takes it some ten milliseconds. They are planned when the store is
//! opened instead: a job is accepted and claimed, in a queue of nobody's, and all
//! of it is taken back.

use uuid::Uuid;
use windlass_core::id::{JobId, Kind, QueueName, WorkerName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::store::ClaimRequest;

use crate::claim::claim;
use crate::enqueue::{Batch, insert};
use crate::error::Fault;
use crate::link::Link;

/// Has the server plan what an enqueue and a claim need. It is no harm when it cannot.
pub(crate) async fn warm_up(link: &Link, instance: &str) {
    if let Err(fault) = plan(link, instance).await {
        tracing::debug!(?fault, "could not plan statements ahead");
    }
}

async fn plan(link: &Link, instance: &str) -> Result<(), Fault> {
    let name = format!("windlass-{instance}");
    let id = Uuid::parse_str(instance).map_err(|why| Fault::unreadable("its own name", why))?;
    let (kind, queue) = (Kind::new(&name)?, QueueName::new(&name)?);
    let request = ClaimRequest {
        request_id: id,
        worker: WorkerName::new(&name)?,
        queues: vec![queue.clone()],
        kinds: Some(vec![kind.clone()]),
        limit: 1,
        lease_ms: None,
    };
    let job =
        NewJob { id: JobId(id), spec: JobSpec::new(kind, queue, Json::payload("null")?), start: Start::Now };
    link.begin().await?;
    insert(link, &Batch::of(&[job]), None, true).await?;
    claim(link, &request, None).await?;
    link.rollback().await
}
