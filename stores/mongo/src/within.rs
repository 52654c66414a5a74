//! Jobs within a transaction of the caller's: they are accepted when it is committed, together with whatever else is
//! in it, or not at all.

use std::collections::HashSet;
use std::sync::Arc;

use mongodb::ClientSession;
use mongodb::error::Error;
use tokio::sync::MutexGuard;
use windlass_core::error::StoreError;
use windlass_core::id::JobId;
use windlass_core::job::NewJob;
use windlass_core::store::check_jobs;
use windlass_core::wake::Work;

use crate::error::{code, may_try_again};
use crate::journal::Copy;
use crate::journal::entry::Entry;
use crate::journal::op::{New, Op};
use crate::store::{MongoStore, Shared};

/// Jobs that are in a transaction. As long as this lives no other call of this program changes the store: say how the
/// transaction ended, or drop it.
pub struct Within<'a> {
    shared: &'a Shared,
    copy: MutexGuard<'a, Copy>,
    entry: Option<(Entry, usize)>,
    work: Work,
    known: HashSet<JobId>,
}

/// Why jobs did not get into a transaction.
#[derive(Debug, thiserror::Error)]
pub enum WithinError {
    /// Another program was first. The transaction must be aborted, and may be made again at once.
    #[error("another program has changed the store meanwhile; make the transaction again")]
    Raced,
    /// The store does not take them, or cannot now.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The database.
    #[error(transparent)]
    Database(Box<Error>),
}

impl MongoStore {
    /// Puts jobs into a transaction that the caller has begun, on a session of the client that this store was opened
    /// with ([`MongoStore::of`]). A job whose id is known already is left out. Call it last, right before the commit:
    /// others who write meanwhile wait for it.
    pub async fn enqueue_within(
        &self,
        session: &mut ClientSession,
        jobs: Vec<NewJob>,
    ) -> Result<Within<'_>, WithinError> {
        check_jobs(&jobs)?;
        let shared: &Shared = &self.shared;
        let mut copy = shared.copy.lock().await;
        let at = shared.prepare(&mut copy).await?;
        let work = Work::in_queues(jobs.iter().map(|job| &job.spec.queue));
        let (known, new) = apart(&copy, jobs);
        shared.full(copy.book.len(), new.len())?;
        if new.is_empty() {
            return Ok(Within { shared, copy, entry: None, work, known });
        }
        let ops = vec![Arc::new(Op::Enqueue(new.into_iter().map(New).collect()))];
        let entry = copy.next(at, shared.program, ops);
        let bytes = shared.journal.append_within(&entry, session).await.map_err(raced)?;
        Ok(Within { shared, copy, entry: Some((entry, bytes)), work, known })
    }
}

/// Jobs that are there already, and those that are not, each once.
fn apart(copy: &Copy, jobs: Vec<NewJob>) -> (HashSet<JobId>, Vec<NewJob>) {
    let (mut known, mut seen) = (HashSet::new(), HashSet::new());
    let mut new = Vec::with_capacity(jobs.len());
    for job in jobs {
        if copy.book.job(job.id).is_some() {
            known.insert(job.id);
        } else if seen.insert(job.id) {
            new.push(job);
        }
    }
    (known, new)
}

fn raced(error: WithinError) -> WithinError {
    match error {
        WithinError::Database(error)
            if may_try_again(&error) || code(&error) == Some(crate::journal::DUPLICATE_KEY) =>
        {
            WithinError::Raced
        }
        other => other,
    }
}

impl Within<'_> {
    /// Whether a job was there before this.
    pub fn is_known(&self, id: JobId) -> bool {
        self.known.contains(&id)
    }

    /// The transaction was committed. (Where nobody knows whether it was, the next look at the store tells.)
    pub fn committed(self) {
        let Self { shared, mut copy, entry, work, known: _ } = self;
        let Some((entry, bytes)) = entry else { return };
        entry.replay(&mut copy, bytes);
        drop(copy);
        shared.wake(&work);
    }
}
