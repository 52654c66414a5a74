//! What is true, and what is about to be.
//!
//! Changes are made to a draft. The writer takes the draft to the disk; only
//! then does it become what readers see, and only then are those answered
//! whose changes are in it. An answer that changed nothing may still rest on a
//! draft that is not written yet, so it waits for that draft too.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use windlass_core::book::Book;
use windlass_core::error::StoreError;
use windlass_core::timekeeper::Timekeeper;

/// A book and the timekeeper that belongs to it.
#[derive(Clone)]
pub struct Sheet {
    pub book: Arc<Book>,
    pub timekeeper: Timekeeper,
}

/// The meeting place of callers and the writer.
pub struct Desk {
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    /// On the disk. Readers see this.
    durable: Sheet,
    /// With all changes that were asked for.
    draft: Sheet,
    /// How many changes the draft has seen, and how many of them are durable.
    drafted: u64,
    written: u64,
    waiting: Vec<(u64, oneshot::Sender<Result<(), StoreError>>)>,
    broken: Option<StoreError>,
    closed: bool,
}

/// What a change wants: an answer, and to be waited for or not.
pub struct Change<T> {
    pub answer: T,
    pub changed: bool,
}

/// Resolves when what an answer rests on is durable; nothing when it is already.
pub type Promise = Option<oneshot::Receiver<Result<(), StoreError>>>;

impl Desk {
    pub fn new(sheet: Sheet) -> Self {
        let state = State {
            durable: sheet.clone(),
            draft: sheet,
            drafted: 0,
            written: 0,
            waiting: Vec::new(),
            broken: None,
            closed: false,
        };
        Self { state: Mutex::new(state), work: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| {
            // A change panicked half way: a bug of ours, and the draft is worth nothing.
            let mut state = poisoned.into_inner();
            let error = StoreError::Broken("a change to the store ended in a panic; see the log".to_owned());
            state.broken.get_or_insert(error);
            state.waiting.clear();
            state
        })
    }

    /// What is durable.
    pub fn durable(&self) -> Result<Sheet, StoreError> {
        let state = self.state();
        match &state.broken {
            Some(error) => Err(error.clone()),
            None => Ok(state.durable.clone()),
        }
    }

    /// Changes the draft. A change that refuses must have changed nothing.
    pub fn change<T>(
        &self,
        change: impl FnOnce(&mut Book, &mut Timekeeper) -> Result<Change<T>, StoreError>,
    ) -> Result<(T, bool, Promise), StoreError> {
        let mut state = self.state();
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        let Sheet { book, timekeeper } = &mut state.draft;
        let Change { answer, changed } = change(Arc::make_mut(book), timekeeper)?;
        if changed {
            state.drafted += 1;
            self.work.notify_one();
        }
        if state.drafted == state.written {
            return Ok((answer, changed, None));
        }
        let (tell, told) = oneshot::channel();
        let version = state.drafted;
        state.waiting.push((version, tell));
        Ok((answer, changed, Some(told)))
    }

    /// For the writer: waits for a draft that is not written yet. Nothing when
    /// the store was closed and all is written.
    pub fn next_draft(&self) -> Option<(u64, Sheet)> {
        let mut state = self.state();
        loop {
            if state.drafted > state.written && state.broken.is_none() {
                return Some((state.drafted, state.draft.clone()));
            }
            if state.closed {
                return None;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// For the writer: this draft is on the disk.
    pub fn written(&self, version: u64, sheet: Sheet) {
        let told: Vec<_> = {
            let mut state = self.state();
            state.durable = sheet;
            state.written = version;
            let (done, waiting) =
                std::mem::take(&mut state.waiting).into_iter().partition(|(at, _)| *at <= version);
            state.waiting = waiting;
            done
        };
        tell(told, &Ok(()));
    }

    /// For the writer: the draft could not be written. All that is not durable
    /// is undone, also what came after it and rests on it.
    pub fn refused(&self, error: StoreError) {
        let told = {
            let mut state = self.state();
            state.draft = state.durable.clone();
            state.drafted = state.written;
            std::mem::take(&mut state.waiting)
        };
        tell(told, &Err(error));
    }

    /// For the writer: nobody knows what is on the disk. The store stops for good.
    pub fn broke(&self, error: StoreError) {
        let told = {
            let mut state = self.state();
            state.broken = Some(error.clone());
            std::mem::take(&mut state.waiting)
        };
        tell(told, &Err(error));
    }

    /// How many changes the draft has seen.
    pub fn drafted(&self) -> u64 {
        self.state().drafted
    }

    /// How many callers wait.
    pub fn waiting(&self) -> usize {
        self.state().waiting.len()
    }

    /// No further changes will come.
    pub fn close(&self) {
        self.state().closed = true;
        self.work.notify_one();
    }
}

type Waiting = Vec<(u64, oneshot::Sender<Result<(), StoreError>>)>;

fn tell(waiting: Waiting, what: &Result<(), StoreError>) {
    for (_, teller) in waiting {
        // Whoever gave up waiting does not need the answer.
        drop(teller.send(what.clone()));
    }
}
