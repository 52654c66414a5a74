//! Standing by: while the producer waits for work, the store may make its claim
//! inside of the commit that brings the work, and hand over what it gave.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use tokio::sync::{Mutex, MutexGuard, mpsc};
use windlass_core::error::StoreError;
use windlass_core::store::{ClaimAnswer, Offer};

use super::Engine;
use super::producer::{Claimed, Question, take};

/// More than this an idle worker claims after the commit, so that whoever enqueues a great many does not
/// wait for their claim. A worker in the midst of its work waits for its own settlements to make room, and
/// saves a commit by claiming all that it can.
const OFFERED_IDLE_MAX: usize = 64;

/// What became of a claim that the store was given.
pub(super) enum Handed {
    /// Its jobs are started.
    Started(Claimed),
    /// It has to be asked again.
    Failed(Question, StoreError),
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
pub(super) fn offer(engine: &Weak<Engine>) -> Option<Offer> {
    let engine = engine.upgrade()?;
    if !engine.standby.waits.swap(false, Ordering::SeqCst) {
        return None;
    }
    // From here on the producer waits for this hand.
    let mut hand = Hand { engine: engine.clone(), question: None, given: false };
    engine.counts.idle.store(false, Ordering::SeqCst);
    // Said before looking at the phase, as by the producer itself.
    engine.counts.claiming.fetch_add(1, Ordering::SeqCst);
    let question = if engine.is_working() { Question::offered(&engine, OFFERED_IDLE_MAX) } else { None };
    let request = question.as_ref()?.request.clone();
    hand.question = question;
    Some(Offer { request, answer: Box::new(move |answer| hand.give(answer)) })
}

/// Hands over what a claim gave, or that it came to nothing.
struct Hand {
    engine: Arc<Engine>,
    question: Option<Question>,
    given: bool,
}

impl Hand {
    /// Starts the jobs on the thread of the store: they need not wait for the producer to wake.
    fn give(mut self, answer: Result<ClaimAnswer, StoreError>) {
        let handed = match (self.question.take(), answer) {
            (Some(question), Ok(answer)) => Handed::Started(take(&self.engine, question, answer)),
            (Some(question), Err(error)) => Handed::Failed(question, error),
            (None, _) => Handed::Nothing,
        };
        self.send(handed);
    }

    fn send(&mut self, handed: Handed) {
        self.given = true;
        // There is room for the only one; when the producer is gone, its leases run out.
        let _ = self.engine.standby.sender.try_send(handed);
    }
}

impl Drop for Hand {
    fn drop(&mut self) {
        if !self.given {
            self.send(Handed::Nothing);
        }
    }
}

/// Tells the source that this worker may be asked.
pub(super) fn register(engine: &Arc<Engine>) {
    let engine_of = Arc::downgrade(engine);
    engine.source.on_commit(Arc::new(move || offer(&engine_of)));
}
