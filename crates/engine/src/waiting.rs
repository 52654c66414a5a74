//! Waiting for a job to be over, and what it gave.

use std::fmt;
use std::marker::PhantomData;

use futures::future::BoxFuture;
use serde::de::DeserializeOwned;
use windlass_core::error::StoreError;
use windlass_core::id::JobId;
use windlass_core::job::Job as JobRecord;
use windlass_core::json::Json;
use windlass_core::state::{FailureReason, State};
use windlass_core::store::{Enqueued, Store};

use crate::client::Client;
use crate::world::World;

/// How often a job that is waited for is looked at: soon at first, then seldom.
const LOOK_MS: std::ops::RangeInclusive<u64> = 2..=250;

/// A job that was enqueued; `O` is what its handler returns.
pub struct JobHandle<O = serde_json::Value> {
    client: Client,
    enqueued: Enqueued,
    output: PhantomData<fn() -> O>,
}

impl<O> JobHandle<O> {
    pub(crate) fn new(client: Client, enqueued: Enqueued) -> Self {
        Self { client, enqueued, output: PhantomData }
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.enqueued.id
    }

    /// Whether the job was there before: by its id, or by its dedupe key.
    pub fn is_deduplicated(&self) -> bool {
        self.enqueued.deduplicated
    }
}

impl<O: DeserializeOwned> JobHandle<O> {
    /// Waits until the job is over, and gives what its handler returned. It
    /// waits for as long as it takes; put a timeout around it for less. A queue
    /// that deletes finished jobs leaves nothing to read: [`WaitError::Gone`].
    pub async fn wait(&self) -> Result<O, WaitError> {
        let job = until_final(&**self.client.store(), self.client.world(), self.id()).await?;
        output_of(&job).unwrap_or(Err(WaitError::Gone(job.id)))
    }
}

impl<O> fmt::Debug for JobHandle<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { client: _, enqueued, output: _ } = self;
        f.debug_tuple("JobHandle").field(enqueued).finish()
    }
}

/// Why a job gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// It failed, and will not be tried again.
    #[error("job {id} has failed ({reason}): {error}")]
    Failed {
        /// The job.
        id: JobId,
        /// Why no further attempt is made.
        reason: FailureReason,
        /// What its last attempt said.
        error: String,
    },
    /// Somebody canceled it.
    #[error("job {0} was canceled")]
    Canceled(JobId),
    /// There is no such job, or not any more: finished jobs are deleted in time, in some queues at once.
    #[error("job {0} is not there; a queue with `delete_finished` keeps no results")]
    Gone(JobId),
    /// It gave something else.
    #[error("job {id} has given something else than expected: {error}")]
    Output {
        /// The job.
        id: JobId,
        /// What does not fit.
        error: serde_json::Error,
    },
    /// The store could not be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a job gave; nothing while it is not over.
pub(crate) fn output_of<O: DeserializeOwned>(job: &JobRecord) -> Option<Result<O, WaitError>> {
    let id = job.id;
    Some(match &job.state {
        State::Queued | State::Running(_) => return None,
        State::Completed { result, .. } => {
            let read = result.as_ref().map_or_else(|| Json::null().read(), Json::read);
            read.map_err(|error| WaitError::Output { id, error })
        }
        State::Failed { reason, .. } => {
            let error = job.last_error().unwrap_or("it said nothing").to_owned();
            Err(WaitError::Failed { id, reason: *reason, error })
        }
        State::Canceled { .. } => Err(WaitError::Canceled(id)),
    })
}

/// Looks at a job until it is over. A store that is away for a moment is asked again.
fn until_final<'a>(
    store: &'a dyn Store,
    world: &'a dyn World,
    id: JobId,
) -> BoxFuture<'a, Result<JobRecord, WaitError>> {
    Box::pin(looked_at(store, world, id))
}

async fn looked_at(store: &dyn Store, world: &dyn World, id: JobId) -> Result<JobRecord, WaitError> {
    let mut wait_ms = *LOOK_MS.start();
    loop {
        match store.get(id).await {
            Ok(Some(job)) if job.state.ended_at().is_some() => return Ok(job),
            Ok(Some(_)) => {}
            Ok(None) => return Err(WaitError::Gone(id)),
            Err(error) if error.is_transient() => {
                tracing::warn!(job_id = %id, code = error.code(), "the store did not say how the job is; asking again");
            }
            Err(error) => return Err(error.into()),
        }
        world.sleep_ms(wait_ms).await;
        wait_ms = (wait_ms * 3 / 2).min(*LOOK_MS.end());
    }
}
