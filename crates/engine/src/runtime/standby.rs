//! Standing by: while the producer waits for work, the store may make its claim
//! inside of the commit that brings the work, and hand over what it gave.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::{Mutex, MutexGuard, mpsc};
use windlass_core::error::StoreError;
use windlass_core::store::{ClaimAnswer, Offer};
use windlass_core::wake::{Registration, Work};

use super::pool::NOT_IDLE;
use super::producer::{Claimed, Question, take};
use super::{Claiming, Engine, Pool};

/// More than this an idle worker claims after the commit, so that whoever enqueues a great many does not
/// wait for their claim. A worker in the midst of its work waits for its own settlements to make room, and
/// saves a commit by claiming all that it can.
const OFFERED_IDLE_MAX: usize = 64;

/// A claim that the store was given; it is under way until this is dropped.
pub(super) struct Handed {
    pub(super) became: Became,
    pub(super) _claiming: Claiming,
}

/// What became of it.
pub(super) enum Became {
    /// Its jobs are started.
    Started(Claimed),
    /// It has to be asked again.
    Failed(Box<Question>, StoreError),
    /// It was never made.
    Nothing,
}

/// Whether the producer waits, and the way to it.
pub(crate) struct Standby {
    waits: AtomicBool,
    sender: mpsc::Sender<Handed>,
    hands: Mutex<mpsc::Receiver<Handed>>,
}

impl Standby {
    pub(super) fn new() -> Self {
        // Who takes a claim ends the waiting, so there is never more than one.
        let (sender, hands) = mpsc::channel(1);
        Self { waits: AtomicBool::new(false), sender, hands: Mutex::new(hands) }
    }

    /// Where claims are handed over; the producer's alone.
    pub(super) async fn hands(&self) -> MutexGuard<'_, mpsc::Receiver<Handed>> {
        self.hands.lock().await
    }

    /// The producer waits from here on.
    pub(super) fn enter(&self) {
        self.waits.store(true, Ordering::SeqCst);
    }

    /// The producer waits no more. Answers whether a claim was taken meanwhile: then it will be handed over.
    pub(super) fn leave(&self) -> bool {
        !self.waits.swap(false, Ordering::SeqCst)
    }
}

/// The claim of a worker that waits for work, for the store to make.
pub(super) fn offer(engine: &Weak<Engine>, pool: &Weak<Pool>, work: &Work) -> Option<Offer> {
    let (engine, pool) = (engine.upgrade()?, pool.upgrade()?);
    if !work.concerns(&pool.queues) || !pool.standby.waits.swap(false, Ordering::SeqCst) {
        return None;
    }
    // From here on the producer waits for this hand.
    let claiming = engine.claiming();
    let mut hand =
        Hand { engine: engine.clone(), pool: pool.clone(), question: None, claiming: Some(claiming) };
    pool.idle_at.store(NOT_IDLE, Ordering::SeqCst);
    let question =
        if engine.is_working() { Question::offered(&engine, &pool, OFFERED_IDLE_MAX) } else { None };
    let request = question.as_ref()?.request.clone();
    hand.question = question;
    Some(Offer { request, answer: Box::new(move |answer| hand.give(answer)) })
}

/// Hands over what a claim gave, or that it came to nothing.
struct Hand {
    engine: Arc<Engine>,
    pool: Arc<Pool>,
    question: Option<Question>,
    /// Nothing once it was handed over.
    claiming: Option<Claiming>,
}

impl Hand {
    /// Starts the jobs on the thread of the store: they need not wait for the producer to wake.
    fn give(mut self, answer: Result<ClaimAnswer, StoreError>) {
        let became = match (self.question.take(), answer) {
            (Some(question), Ok(answer)) => Became::Started(take(&self.engine, question, answer)),
            (Some(question), Err(error)) => Became::Failed(Box::new(question), error),
            (None, _) => Became::Nothing,
        };
        self.send(became);
    }

    fn send(&mut self, became: Became) {
        if let Some(_claiming) = self.claiming.take() {
            // There is room for the only one; when the producer is gone, its leases run out.
            let _ = self.pool.standby.sender.try_send(Handed { became, _claiming });
        }
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        self.send(Became::Nothing);
    }
}

/// Tells the source that this worker may be asked, until what is returned is dropped.
pub(super) fn register(engine: &Arc<Engine>) -> Vec<Registration> {
    // Whoever decides over admission is asked before each claim, and waited for: a commit cannot.
    if engine.admission.is_some() {
        return Vec::new();
    }
    let register = |pool| {
        let (engine_of, pool) = (Arc::downgrade(engine), Arc::downgrade(pool));
        engine.source.on_commit(Arc::new(move |work: &Work| offer(&engine_of, &pool, work)))
    };
    engine.pools.iter().map(register).collect()
}
