//! The one thread that writes. It takes all calls that wait, runs each in a
//! savepoint, commits once, and only then answers. No answer comes before what
//! it says is on the disk.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use windlass_core::error::StoreError;

use crate::fail::Done;
use crate::options::Options;
use crate::run::crew::Crew;
use crate::run::tx::Tx;
use crate::run::wake::Wakers;

/// Why the store has stopped, once it has.
pub type Health = Arc<OnceLock<StoreError>>;

/// Whether a call makes the store larger: then it is refused when the disk is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// It adds jobs.
    Adds,
    /// It ends or changes what is there, or frees room.
    Changes,
}

/// The way to the thread that writes.
pub struct Writer {
    sender: Option<Sender<Box<dyn Call>>>,
    room: Arc<Semaphore>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    /// Starts the thread, which opens the file, and waits until it is open.
    pub fn start(
        path: PathBuf,
        options: Options,
        wakers: Arc<Wakers>,
        health: Health,
    ) -> Pin<Box<dyn Future<Output = Result<Self, StoreError>> + Send>> {
        Box::pin(Self::started(path, options, wakers, health))
    }

    async fn started(
        path: PathBuf,
        options: Options,
        wakers: Arc<Wakers>,
        health: Health,
    ) -> Result<Self, StoreError> {
        let room = Arc::new(Semaphore::new(options.waiting_max.max(1)));
        let (sender, calls): (_, Receiver<Box<dyn Call>>) = mpsc::channel();
        let (opened, is_open) = oneshot::channel();
        let work = move || match Crew::open(&path, &options, wakers, health) {
            Ok(mut crew) => {
                // Whoever opened it may be gone; then no call will come.
                let _ = opened.send(Ok(()));
                crew.work(&calls);
            }
            Err(fail) => drop(opened.send(Err(fail.into_store_error()))),
        };
        let thread = thread::Builder::new().name("windlass-sqlite".into()).spawn(work).map_err(|error| {
            StoreError::Unavailable(format!("no thread could be started for it ({error}); try again later"))
        })?;
        is_open.await.map_err(|_| StoreError::Unavailable("opening it was given up".into()))??;
        Ok(Self { sender: Some(sender), room, thread: Some(thread) })
    }

    /// Runs an operation. It may be run twice: the first time is then undone.
    pub async fn run<T: Send + 'static>(
        &self,
        sort: Sort,
        operation: impl Fn(&mut Tx<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let ended = || StoreError::Unavailable("its writer has ended; start the program again".into());
        let permit = Arc::clone(&self.room).acquire_owned().await.map_err(|_| ended())?;
        let (reply, answer) = oneshot::channel();
        let call = Operation { sort, operation, result: None, reply, _permit: permit };
        let sender = self.sender.as_ref().ok_or_else(ended)?;
        sender.send(Box::new(call)).map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }
}

impl Drop for Writer {
    /// Waits for the calls that were let in, so that the file is closed when the store is gone.
    fn drop(&mut self) {
        drop(self.sender.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
            && thread.join().is_err()
        {
            tracing::error!("the writer of the store has panicked");
        }
    }
}

/// A call that waits for the writer.
pub trait Call: Send {
    /// Whether it makes the store larger.
    fn sort(&self) -> Sort;
    /// Does the work inside a transaction, and keeps the result.
    fn run(&mut self, tx: &mut Tx<'_>) -> Done<()>;
    /// It did not work: keeps that as the result.
    fn fail(&mut self, error: StoreError);
    /// Answers the caller with the result.
    fn answer(self: Box<Self>);
}

struct Operation<F, T> {
    sort: Sort,
    operation: F,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
    /// Lets the next caller in when this one is answered.
    _permit: OwnedSemaphorePermit,
}

impl<T: Send, F: Fn(&mut Tx<'_>) -> Done<T> + Send> Call for Operation<F, T> {
    fn sort(&self) -> Sort {
        self.sort
    }

    fn run(&mut self, tx: &mut Tx<'_>) -> Done<()> {
        self.result = Some(Ok((self.operation)(tx)?));
        Ok(())
    }

    fn fail(&mut self, error: StoreError) {
        self.result = Some(Err(error));
    }

    fn answer(self: Box<Self>) {
        if let Some(result) = self.result {
            // A caller that does not wait any more loses nothing but the answer.
            let _ = self.reply.send(result);
        }
    }
}
