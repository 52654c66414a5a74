//! Enqueue calls that come at the same time share a commit.
//!
//! For stores that do not see to that themselves: while one commit is under
//! way the calls that come in are gathered, and go together in the next. Nobody
//! waits for company: a call that comes alone goes at once.

use std::sync::{Arc, Mutex, PoisonError};

use futures::future::BoxFuture;
use tokio::sync::oneshot;
use windlass_core::error::StoreError;
use windlass_core::job::NewJob;
use windlass_core::store::{ENQUEUE_MAX, Enqueued, Store};

/// How many jobs one shared commit carries.
const SHARED_MAX: usize = 2_000;
const _: () = assert!(SHARED_MAX <= ENQUEUE_MAX);

/// Gathers calls. Clones share their commits.
#[derive(Clone)]
pub(crate) struct Batcher {
    store: Arc<dyn Store>,
    state: Arc<Mutex<Waiting>>,
}

#[derive(Default)]
struct Waiting {
    calls: Vec<Call>,
    under_way: bool,
}

struct Call {
    jobs: Vec<NewJob>,
    answer: oneshot::Sender<Result<Vec<Enqueued>, StoreError>>,
}

impl Batcher {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, state: Arc::default() }
    }

    /// Enqueues jobs, all or none; answers when they are durable.
    pub(crate) fn enqueue(&self, jobs: Vec<NewJob>) -> BoxFuture<'_, Result<Vec<Enqueued>, StoreError>> {
        Box::pin(self.enqueued(jobs))
    }

    async fn enqueued(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>, StoreError> {
        if jobs.len() > SHARED_MAX / 2 || self.store.capabilities().shares_commits {
            return self.store.enqueue(jobs).await;
        }
        let (answer, answered) = oneshot::channel();
        if self.join(Call { jobs, answer }) {
            // Apart from the caller, who may be dropped while others wait.
            tokio::spawn(self.clone().commit_all());
        }
        answered.await.unwrap_or_else(|_| Err(StoreError::Unavailable("the commit was given up".into())))
    }

    /// Adds a call; answers whether nobody is committing yet.
    fn join(&self, call: Call) -> bool {
        let mut waiting = self.lock();
        waiting.calls.push(call);
        !std::mem::replace(&mut waiting.under_way, true)
    }

    async fn commit_all(self) {
        loop {
            let calls = self.take();
            if calls.is_empty() {
                return;
            }
            self.commit(calls).await;
        }
    }

    /// The calls of the next commit; none ends the committing.
    fn take(&self) -> Vec<Call> {
        let mut waiting = self.lock();
        let mut jobs = 0;
        let fits = |call: &Call| {
            jobs += call.jobs.len();
            jobs <= SHARED_MAX
        };
        let count = waiting.calls.iter().map(fits).take_while(|fits| *fits).count();
        waiting.under_way = count > 0;
        waiting.calls.drain(..count).collect()
    }

    async fn commit(&self, calls: Vec<Call>) {
        let jobs: Vec<NewJob> = calls.iter().flat_map(|call| call.jobs.iter().cloned()).collect();
        match self.store.enqueue(jobs).await {
            Ok(answers) => {
                let mut answers = answers.into_iter();
                for Call { jobs, answer } in calls {
                    // A caller who no longer listens loses nothing: the job is there.
                    let _ = answer.send(Ok(answers.by_ref().take(jobs.len()).collect()));
                }
            }
            // One call's fault must not be the others'.
            Err(
                StoreError::Conflict(_) | StoreError::Invalid(_) | StoreError::Full(_) | StoreError::Unfit(_),
            ) if calls.len() > 1 => {
                for Call { jobs, answer } in calls {
                    let _ = answer.send(self.store.enqueue(jobs).await);
                }
            }
            Err(error) => {
                for call in calls {
                    let _ = call.answer.send(Err(error.clone()));
                }
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
