//! The writer: calls that come at the same time share an entry (group commit).
//!
//! An entry says what was asked for (a log of commands); what becomes of it is the same in every copy, since each
//! does the same in the same order. So nothing is tried before it is written, and whoever was not first in line for a
//! number only asks for the next one. Jobs that are new are not even looked for before they are written.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::time::Time;
use windlass_core::wake::Work;

use crate::journal::entry::Done;
use crate::journal::op::{Answer, Op};
use crate::journal::{Appended, Copy};
use crate::store::Shared;

/// How many calls share an entry at most.
const TOGETHER_MAX: usize = 256;
/// How often an entry is tried while others are first.
const TRIES_MAX: usize = 1_000;

/// A call that waits.
pub(crate) struct Wish {
    pub(crate) op: Op,
    /// Whom it concerns when it is done.
    pub(crate) work: Option<Work>,
    pub(crate) tell: oneshot::Sender<Result<Answer, StoreError>>,
}

pub(crate) struct Writer {
    shared: Arc<Shared>,
    /// The snapshot that is being written; it answers how many bytes it has. It ends with the writer.
    snapshot: JoinSet<Result<usize, StoreError>>,
    /// Whether others write, too, so that it is better to look first.
    is_behind: bool,
}

impl Writer {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, snapshot: JoinSet::new(), is_behind: false }
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
    async fn write(&mut self, ops: &[Arc<Op>]) -> Result<Vec<Done>, StoreError> {
        let shared = self.shared.clone();
        if let Some(done) = self.write_ahead(&mut *shared.copy.lock().await, ops).await? {
            return Ok(done);
        }
        for _ in 0..TRIES_MAX {
            let mut copy = shared.copy.lock().await;
            let seen = copy.number;
            let at = shared.prepare(&mut copy).await?;
            self.is_behind = copy.number != seen;
            let mut done = self.done_already(ops, &mut copy.book, at);
            let open = ops.iter().zip(&done).filter(|(_, done)| done.is_none());
            let ops: Vec<Arc<Op>> = open.map(|(op, _)| op.clone()).collect();
            if ops.is_empty() {
                return Ok(done.into_iter().flatten().collect());
            }
            let entry = copy.next(at, shared.program, ops);
            if let Appended::Done { bytes } = shared.journal.append(&entry).await? {
                let mut written = entry.replay(&mut copy, bytes).into_iter();
                done.iter_mut().filter(|done| done.is_none()).for_each(|done| *done = written.next());
                self.shorten(&mut copy).await;
                return Ok(done.into_iter().flatten().collect());
            }
        }
        Err(StoreError::Busy("too many write to this store at once. Nothing was changed".to_owned()))
    }

    /// Writes what may be written without a look at the journal: jobs that are new as far as we know. Nothing where
    /// somebody else was first, or where there is more to do.
    async fn write_ahead(
        &mut self,
        copy: &mut Copy,
        ops: &[Arc<Op>],
    ) -> Result<Option<Vec<Done>>, StoreError> {
        let shared = self.shared.clone();
        let new: usize = ops.iter().map(|op| op.new_jobs().count()).sum();
        let is_sure =
            copy.history.is_some() && copy.lost.is_none() && !shared.is_unsure.load(Ordering::Acquire);
        let may = is_sure
            && !self.is_behind
            && ops.iter().all(|op| op.is_new(&copy.book))
            && shared.full(copy.book.len(), new).is_ok();
        if !may {
            return Ok(None);
        }
        let clock = shared.options.clock.as_ref().map(|clock| clock.wall().max(copy.at));
        let mut entry = copy.next(clock.unwrap_or(copy.at), shared.program, ops.to_vec());
        match shared.journal.append_ahead(copy, &mut entry, clock.is_some()).await? {
            Appended::Done { bytes } => {
                let done = entry.replay(copy, bytes);
                self.shorten(copy).await;
                Ok(Some(done))
            }
            Appended::Taken => {
                self.is_behind = true;
                Ok(None)
            }
        }
    }

    /// What changes nothing is answered without an entry; a place is left for everything else.
    fn done_already(&self, ops: &[Arc<Op>], book: &mut Book, at: Time) -> Vec<Option<Done>> {
        let mut len = book.len();
        let mut answers = Vec::with_capacity(ops.len());
        for op in ops {
            let new = op.new_jobs().filter(|job| book.job(job.id).is_none()).count();
            let full = self.shared.full(len, new);
            answers.push(match (full, op.may_change(book, at)) {
                (Err(full), _) => Some(Err(full)),
                (Ok(()), false) => Some(op.apply(book, at)),
                (Ok(()), true) => None,
            });
            len += if matches!(answers.last(), Some(None)) { new } else { 0 };
        }
        answers
    }

    /// Has a snapshot written when there are as many bytes of entries as the last one had: then reading the store costs no
    /// more than twice of what is in it, and writing it neither. It is written beside the work of the store, which waits
    /// only while the book is copied.
    async fn shorten(&mut self, copy: &mut Copy) {
        match self.snapshot.try_join_next() {
            Some(Ok(Ok(bytes))) => copy.snapshot_bytes = bytes,
            Some(Ok(Err(error))) => {
                tracing::warn!(%error, "a snapshot of the store could not be written");
                // The next entry tries again.
                copy.bytes = copy.bytes.max(self.due(copy));
            }
            Some(Err(error)) => tracing::error!(%error, "the writing of a snapshot has ended"),
            None => {}
        }
        if !self.snapshot.is_empty() || copy.bytes < self.due(copy) {
            return;
        }
        match self.shared.journal.later_snapshot(copy).await {
            Ok(Some(bytes)) => copy.snapshot_bytes = bytes,
            Ok(None) => {
                let (shared, snapshot) = (self.shared.clone(), copy.snapshot());
                self.snapshot.spawn(async move { shared.journal.write_snapshot(snapshot).await });
            }
            Err(error) => {
                tracing::warn!(%error, "whether a snapshot is due cannot be asked now");
                return;
            }
        }
        (copy.bytes, copy.since) = (0, copy.number);
    }

    /// How many bytes of entries there may be without a snapshot.
    fn due(&self, copy: &Copy) -> usize {
        self.shared.options.snapshot_bytes_min.max(copy.snapshot_bytes)
    }
}
