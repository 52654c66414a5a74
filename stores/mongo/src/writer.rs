//! The writer: calls that come at the same time share an entry (group commit).
//!
//! Operations are tried on a draft, and become true when their entry is in the journal. When somebody else was
//! first, the draft is made anew from what is true, and all are tried again.

use std::sync::Arc;

use mongodb::bson::oid::ObjectId;
use tokio::sync::{mpsc, oneshot};
use windlass_core::error::StoreError;
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::journal::entry::Entry;
use crate::journal::op::{Answer, Op};
use crate::journal::{Appended, Copy};
use crate::store::Shared;

/// How many calls share an entry at most.
const TOGETHER_MAX: usize = 256;
/// The number of a draft that holds what may not have happened.
const SPOILED: i64 = -1;
/// How often an entry is tried while others are first.
const TRIES_MAX: usize = 1_000;

/// A call that waits.
pub(crate) struct Wish {
    pub(crate) op: Op,
    /// Whom it concerns when it is done.
    pub(crate) work: Option<Work>,
    pub(crate) tell: oneshot::Sender<Result<Answer, StoreError>>,
}

/// What became of an operation on the draft.
type Tried = Result<(Answer, bool), StoreError>;

pub(crate) struct Writer {
    shared: Arc<Shared>,
    draft: Copy,
    /// How many bytes of entries there are since the last snapshot, and how many that had.
    bytes: usize,
    snapshot_bytes: usize,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>, draft: Copy) -> Self {
        Self { shared, draft, bytes: 0, snapshot_bytes: 0 }
    }

    pub(crate) async fn run(mut self, mut asked: mpsc::Receiver<Wish>) {
        let mut wishes = Vec::new();
        while asked.recv_many(&mut wishes, TOGETHER_MAX).await > 0 {
            let (ops, tellers): (Vec<Arc<Op>>, Vec<_>) =
                wishes.drain(..).map(|Wish { op, work, tell }| (Arc::new(op), (work, tell))).unzip();
            match self.write(&ops).await {
                Ok(answers) => {
                    for ((work, tell), answer) in tellers.into_iter().zip(answers) {
                        let changed = matches!(answer, Ok((_, true)));
                        // Whoever gave up waiting does not need the answer.
                        drop(tell.send(answer.map(|(answer, _)| answer)));
                        if let Some(work) = work.filter(|_| changed) {
                            self.shared.wake(&work);
                        }
                    }
                }
                Err(error) => tellers.into_iter().for_each(|(_, tell)| drop(tell.send(Err(error.clone())))),
            }
        }
    }

    /// Has these operations done together.
    async fn write(&mut self, ops: &[Arc<Op>]) -> Result<Vec<Tried>, StoreError> {
        let shared = self.shared.clone();
        for _ in 0..TRIES_MAX {
            let mut copy = shared.copy.lock().await;
            let at = shared.follow(&mut copy).await?;
            if (self.draft.number, self.draft.mark) != (copy.number, copy.mark) {
                self.draft = copy.clone();
            }
            let tried: Vec<Tried> = ops.iter().map(|op| self.attempt(op, at)).collect();
            let changed = ops.iter().zip(&tried).filter(|(_, tried)| matches!(tried, Ok((_, true))));
            let ops: Vec<Arc<Op>> = changed.map(|(op, _)| op.clone()).collect();
            if ops.is_empty() {
                return Ok(tried);
            }
            let entry = Entry { number: copy.number + 1, mark: ObjectId::new(), at, by: shared.program, ops };
            // Whatever happens now, the draft is only true when the entry is in the journal.
            self.draft.number = SPOILED;
            if let Appended::Done { bytes } = shared.journal.append(&entry).await? {
                entry.replay(&mut copy)?;
                entry.passed(&mut self.draft);
                self.bytes += bytes;
                self.shorten(&copy).await;
                return Ok(tried);
            }
        }
        Err(StoreError::Busy("too many write to this store at once. Nothing was changed".to_owned()))
    }

    fn attempt(&mut self, op: &Op, at: Time) -> Tried {
        let new = op.new_jobs().filter(|job| self.draft.book.job(job.id).is_none()).count();
        let (len, max) = (self.draft.book.len(), self.shared.options.jobs_max);
        if new > 0 && len + new > max {
            return Err(StoreError::Full(format!(
                "it keeps {len} jobs and may keep {max}; let finished jobs go sooner (retention)"
            )));
        }
        op.apply(&mut self.draft.book, at)
    }

    /// Writes a snapshot when there are as many bytes of entries as the last one had: then reading the store costs no
    /// more than twice of what is in it, and writing it neither.
    async fn shorten(&mut self, copy: &Copy) {
        if self.bytes < self.shared.options.snapshot_bytes_min.max(self.snapshot_bytes) {
            return;
        }
        match self.shared.journal.write_snapshot(copy).await {
            Ok(bytes) => (self.bytes, self.snapshot_bytes) = (0, bytes),
            // The next entry tries again.
            Err(error) => tracing::warn!(%error, "a snapshot of the store could not be written"),
        }
    }
}
