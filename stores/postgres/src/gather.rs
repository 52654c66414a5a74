//! Concurrent enqueues share a commit. Calls are written by lanes on the
//! store's own thread: what has come in by the time that a lane begins goes
//! together, and what comes in meanwhile goes next. Nobody waits for others to
//! come.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use windlass_core::error::StoreError;
use windlass_core::job::NewJob;
use windlass_core::store::Enqueued;

use crate::connect::Connections;
use crate::enqueue::{Batch, insert};
use crate::error::late;
use crate::store::call;

/// So many batches are under way at once: while one commits, others are prepared.
const LANES_MAX: usize = 3;
/// A call with so many jobs gains nothing by company.
const ALONE_MIN: usize = 100;
/// So many jobs go together.
const TOGETHER_MAX: usize = 1_000;
/// So many jobs wait at most.
const WAITING_MAX: usize = 50_000;

type Answer = Result<Vec<Enqueued>, StoreError>;

pub(crate) struct Gather(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    connections: Arc<Connections>,
}

#[derive(Default)]
struct Waiting {
    calls: VecDeque<Call>,
    jobs: usize,
    /// How many batches are under way.
    lanes: usize,
}

struct Call {
    jobs: Vec<NewJob>,
    answer: oneshot::Sender<Answer>,
}

impl Gather {
    pub(crate) fn new(connections: Arc<Connections>) -> Self {
        Self(Arc::new(Shared { waiting: Mutex::default(), connections }))
    }

    pub(crate) async fn enqueue(&self, jobs: Vec<NewJob>) -> Answer {
        if jobs.len() >= ALONE_MIN {
            return self.0.insert(&jobs).await;
        }
        let answered = Shared::enter(&self.0, jobs)?;
        match tokio::time::timeout(self.0.connections.call_time(), answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(gone())),
            Err(_) => Err(late()),
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call to those that wait, and opens a lane for them when one is free.
    fn enter(shared: &Arc<Self>, jobs: Vec<NewJob>) -> Result<oneshot::Receiver<Answer>, StoreError> {
        let runtime = shared.connections.handle()?;
        let mut waiting = shared.waiting();
        if waiting.jobs + jobs.len() > WAITING_MAX {
            return Err(StoreError::Full(format!(
                "{WAITING_MAX} jobs are waiting to be written. Nothing was changed; ask again later"
            )));
        }
        let (answer, answered) = oneshot::channel();
        waiting.jobs += jobs.len();
        waiting.calls.push_back(Call { jobs, answer });
        if waiting.lanes < LANES_MAX {
            waiting.lanes += 1;
            drop(waiting);
            runtime.spawn(Lane { shared: Arc::clone(shared), done: false }.serve());
        }
        Ok(answered)
    }

    async fn insert(&self, jobs: &[NewJob]) -> Answer {
        let batch = Batch::of(jobs);
        let connections = &self.connections;
        call!(connections, async {
            insert(&mut connections.link().await?, &batch, connections.given_now(), true).await
        })
    }

    /// Those that go together now. When there are none, the lane that asks is closed.
    fn take(&self) -> Vec<Call> {
        let mut waiting = self.waiting();
        let (mut calls, mut jobs) = (Vec::new(), 0);
        while let Some(call) = waiting.calls.pop_front_if(|call| jobs + call.jobs.len() <= TOGETHER_MAX) {
            waiting.jobs -= call.jobs.len();
            // Who no longer waits for an answer is not written.
            if !call.answer.is_closed() {
                jobs += call.jobs.len();
                calls.push(call);
            }
        }
        if calls.is_empty() {
            waiting.lanes -= 1;
        }
        calls
    }

    /// Writes calls in one commit, or one by one when one of them would spoil it for the others.
    async fn write(&self, calls: Vec<Call>) {
        let mut ids = HashSet::new();
        let apart = calls.iter().flat_map(|call| &call.jobs).all(|job| ids.insert(job.id));
        if apart && calls.len() > 1 {
            let jobs: Vec<NewJob> = calls.iter().flat_map(|call| call.jobs.iter().cloned()).collect();
            match self.insert(&jobs).await {
                Ok(answers) => return share(calls, answers),
                Err(
                    error @ (StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::CannotWrite(_)),
                ) => {
                    for call in calls {
                        let _ = call.answer.send(Err(error.clone()));
                    }
                    return;
                }
                // One of them is refused: each hears of its own.
                Err(_) => {}
            }
        }
        for call in calls {
            let answer = self.insert(&call.jobs).await;
            let _ = call.answer.send(answer);
        }
    }
}

fn share(calls: Vec<Call>, answers: Vec<Enqueued>) {
    let mut answers = answers.into_iter();
    for call in calls {
        let own = answers.by_ref().take(call.jobs.len()).collect();
        let _ = call.answer.send(Ok(own));
    }
}

/// A lane that serves those that wait until there are none.
struct Lane {
    shared: Arc<Shared>,
    done: bool,
}

impl Lane {
    async fn serve(mut self) {
        loop {
            let calls = self.shared.take();
            if calls.is_empty() {
                self.done = true;
                return;
            }
            self.shared.write(calls).await;
        }
    }
}

impl Drop for Lane {
    /// Ended half-way, with the runtime: those that wait hear that nobody comes.
    fn drop(&mut self) {
        if !self.done {
            let mut waiting = self.shared.waiting();
            waiting.lanes -= 1;
            waiting.jobs = 0;
            waiting.calls.clear();
        }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the store was closed before the jobs were written".to_owned())
}
