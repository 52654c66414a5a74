//! Whether the server has room for jobs. What its disk has left cannot be asked of Postgres, so it is learned from a refusal:
//! from then on a trial, a job that is rolled back, says whether one would be taken.

use std::sync::atomic::{AtomicBool, Ordering};

use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::id::{JobId, Kind, QueueName};
use windlass_core::job::{JobSpec, NewJob, Start};
use windlass_core::json::Json;

use crate::enqueue::{Batch, insert};
use crate::error::Fault;
use crate::store::PostgresStore;

/// Large enough that it does not fit into what a table has left over.
const TRIAL_BYTES: usize = 256 * 1024;

/// What the newest enqueues said of the server's disk. A hint: it decides about no job.
#[derive(Default)]
pub(crate) struct Room(AtomicBool);

impl Room {
    /// Hears how an enqueue went.
    pub(crate) fn hear<T>(&self, answer: &Result<T, StoreError>) {
        match answer {
            Ok(_) => self.0.store(false, Ordering::Relaxed),
            Err(StoreError::CannotWrite(_)) => self.0.store(true, Ordering::Relaxed),
            // It says nothing of the disk.
            Err(_) => {}
        }
    }

    /// Whether the newest job was refused for want of it.
    pub(crate) fn is_doubted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl PostgresStore {
    /// Enqueues a large job and takes that back.
    pub(crate) async fn trial_once(&self) -> Result<(), Fault> {
        let job = trial().map_err(Fault::Failed)?;
        let link = self.link().await?;
        link.begin().await?;
        let tried = insert(&link, &Batch::of(&[job]), self.given_now(), true).await;
        link.rollback().await?;
        tried.map(drop)
    }
}

/// A job whose payload does not get smaller by being packed.
fn trial() -> Result<NewJob, StoreError> {
    let mut x: u64 = 1;
    let letters = std::iter::repeat_with(|| {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + ((x >> 40) % 26) as u8)
    });
    let text: String = letters.take(TRIAL_BYTES).collect();
    let payload = Json::payload(format!("\"{text}\""))?;
    let spec = JobSpec::new(Kind::new("trial")?, QueueName::default(), payload);
    Ok(NewJob { id: JobId(Uuid::nil()), spec, start: Start::Now })
}
