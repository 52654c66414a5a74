//! Concurrent enqueues share a commit. Calls are written by one clerk on the
//! store's own thread: what has come in by the time that a batch begins goes
//! together, and what comes in meanwhile goes next. A call that comes alone
//! waits for nobody; those who were answered just now, and mostly have the next
//! job in hand, are given a moment to come back and go with the others.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use windlass_core::error::StoreError;
use windlass_core::job::NewJob;
use windlass_core::store::{ClaimAnswer, Enqueued, Offer};
use windlass_core::wake::Work;

use crate::claim::{self, claim};
use crate::connect::{Connections, settled};
use crate::enqueue::{self, Batch, insert};
use crate::error::{Fault, late};
use crate::offers::Offers;
use crate::store::call;

/// How often the clerk looks in vain for those who may come back, each time after all else that the
/// thread has to do: a tenth or two of a millisecond.
const LOOKS_MAX: u32 = 100;
/// A call with so many jobs gains nothing by company.
const ALONE_MIN: usize = 100;
/// So many jobs go together.
const TOGETHER_MAX: usize = 1_000;
/// So many jobs wait at most.
const WAITING_MAX: usize = 50_000;

type Answer = Result<Entered, StoreError>;

/// What became of a call.
pub(crate) struct Entered {
    pub(crate) answers: Vec<Enqueued>,
    /// Workers of this program have all of it in hand already: nobody need be told.
    pub(crate) taken: bool,
}

pub(crate) struct Gather(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    connections: Arc<Connections>,
    offers: Arc<Offers>,
}

#[derive(Default)]
struct Waiting {
    calls: VecDeque<Call>,
    jobs: usize,
    /// Whether a clerk serves them.
    served: bool,
}

struct Call {
    jobs: Vec<NewJob>,
    answer: oneshot::Sender<Answer>,
}

impl Gather {
    pub(crate) fn new(connections: Arc<Connections>, offers: Arc<Offers>) -> Self {
        Self(Arc::new(Shared { waiting: Mutex::default(), connections, offers }))
    }

    pub(crate) async fn enqueue(&self, jobs: Vec<NewJob>) -> Answer {
        if jobs.len() >= ALONE_MIN {
            return self.0.insert(&jobs).await;
        }
        let answered = Shared::enter(&self.0, jobs)?;
        // The clerk's own call ends when the server is lost; this one ends with it.
        match tokio::time::timeout(self.0.connections.pulse().call_time(), answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(gone())),
            Err(_) => Err(late()),
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call to those that wait, and calls the clerk unless he is there.
    fn enter(shared: &Arc<Self>, jobs: Vec<NewJob>) -> Result<oneshot::Receiver<Answer>, StoreError> {
        let runtime = shared.connections.handle()?;
        let mut waiting = shared.waiting();
        if waiting.jobs + jobs.len() > WAITING_MAX {
            return Err(StoreError::Busy(format!(
                "{WAITING_MAX} jobs are waiting to be written. Nothing was changed; ask again later"
            )));
        }
        let (answer, answered) = oneshot::channel();
        waiting.jobs += jobs.len();
        waiting.calls.push_back(Call { jobs, answer });
        if !std::mem::replace(&mut waiting.served, true) {
            drop(waiting);
            runtime.spawn(Clerk { shared: Arc::clone(shared), done: false }.serve());
        }
        Ok(answered)
    }

    async fn insert(&self, jobs: &[NewJob]) -> Answer {
        let batch = Batch::of(jobs);
        if let Some(offer) = self.offer(jobs)
            && let Some(answer) = self.insert_and_claim(&batch, offer).await
        {
            return answer;
        }
        let connections = &self.connections;
        let answers = call!(connections, async {
            insert(&connections.link().await?, &batch, connections.given_now(), true).await
        });
        answers.map(|answers| Entered { answers, taken: false })
    }

    /// The claim of a worker that waits for jobs such as these. With keys, locks would be taken out of order.
    fn offer(&self, jobs: &[NewJob]) -> Option<Offer> {
        let fit = jobs.len() < ALONE_MIN && jobs.iter().all(|job| job.spec.key.is_none());
        let work = Work::in_queues(jobs.iter().map(|job| &job.spec.queue));
        if fit { self.offers.take(&work) } else { None }
    }

    /// Writes a batch and makes a claim in the same commit, sent together. Nothing when neither was done.
    async fn insert_and_claim(&self, batch: &Batch<'_>, offer: Offer) -> Option<Answer> {
        let Offer { request, answer } = offer;
        if let Err(refused) = windlass_core::book::claim::check(&request) {
            answer(Err(refused.into()));
            return None;
        }
        let connections = &self.connections;
        let both = async {
            let (link, now) = (connections.link().await?, connections.given_now());
            link.prepare(enqueue::SQL, &enqueue::TYPES).await?;
            link.prepare(claim::SQL, &claim::TYPES).await?;
            let sent =
                (link.begin(), insert(&link, batch, now, true), claim(&link, &request, now), link.commit());
            let (begun, entered, claimed, committed) = tokio::join!(sent.0, sent.1, sent.2, sent.3);
            begun.and(committed)?;
            // Where one of them failed, the commit was none.
            Ok::<_, Fault>(entered.ok().zip(claimed.ok()))
        };
        match connections.pulse().wait(both).await {
            Ok(Ok(Some((answers, claimed)))) => {
                let taken = claimed.as_ref().is_some_and(|claimed| batch.is_among(claimed));
                // What bounds a claim would be locked up to the commit of others: then the worker claims by itself, now.
                answer(Ok(
                    claimed.unwrap_or(ClaimAnswer { next_due_in_ms: Some(0), ..ClaimAnswer::default() })
                ));
                Some(Ok(Entered { answers, taken }))
            }
            Ok(Ok(None)) => None,
            Ok(Err(fault)) => Some(Err(told(answer, settled(fault)))),
            Err(late) => Some(Err(told(answer, late))),
        }
    }

    /// Waits until so many calls are there, as long as they keep coming.
    async fn gathered(&self, expected: usize) {
        let (mut there, mut looks) = (0, 0);
        while looks < LOOKS_MAX {
            let now = self.waiting().calls.len();
            if now >= expected {
                return;
            }
            looks = if now > there { 0 } else { looks + 1 };
            there = now;
            tokio::task::yield_now().await;
        }
    }

    /// Those that go together now. When there are none, the clerk leaves.
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
        waiting.served = !calls.is_empty();
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
                    error @ (StoreError::Unavailable(_)
                    | StoreError::Busy(_)
                    | StoreError::Full(_)
                    | StoreError::CannotWrite(_)),
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

fn share(calls: Vec<Call>, answers: Entered) {
    let Entered { answers, taken } = answers;
    let mut answers = answers.into_iter();
    for call in calls {
        let own = answers.by_ref().take(call.jobs.len()).collect();
        let _ = call.answer.send(Ok(Entered { answers: own, taken }));
    }
}

/// Tells the worker that its claim may or may not have been made.
fn told(answer: Box<dyn FnOnce(Result<ClaimAnswer, StoreError>) + Send>, error: StoreError) -> StoreError {
    answer(Err(error.clone()));
    error
}

/// Serves those that wait until there are none.
struct Clerk {
    shared: Arc<Shared>,
    done: bool,
}

impl Clerk {
    async fn serve(mut self) {
        loop {
            let calls = self.shared.take();
            if calls.is_empty() {
                self.done = true;
                return;
            }
            let answered = calls.len();
            self.shared.write(calls).await;
            let expected = answered + self.shared.waiting().calls.len();
            if expected > 1 {
                self.shared.gathered(expected).await;
            }
        }
    }
}

impl Drop for Clerk {
    /// Ended half-way, with the runtime: those that wait hear that nobody comes.
    fn drop(&mut self) {
        if !self.done {
            let mut waiting = self.shared.waiting();
            waiting.served = false;
            waiting.jobs = 0;
            waiting.calls.clear();
        }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("the store was closed before the jobs were written".to_owned())
}
