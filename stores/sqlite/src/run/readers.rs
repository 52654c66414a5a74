//! Reads: a few connections of their own, each for one short question at a time.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;
use windlass_core::error::StoreError;
use windlass_core::time::{Clock, Time};

use crate::disk::file;
use crate::fail::Done;
use crate::options::Options;
use crate::rows::head::Head;

/// What a read sees: one moment of the store.
pub struct View<'a> {
    /// The connection, inside a read transaction.
    pub conn: &'a Connection,
    /// The counters.
    pub head: Head,
    /// The store's time.
    pub now: Time,
    /// The longest that this program lets an epoch hold back anything.
    pub pause_ms_max: Option<u32>,
}

/// The connections that read.
pub struct Readers {
    shared: Arc<Shared>,
    free: Arc<Semaphore>,
}

struct Shared {
    path: PathBuf,
    busy_ms: u32,
    clock: Arc<dyn Clock>,
    pause_ms_max: Option<u32>,
    /// Nothing when the store is closed.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl Drop for Readers {
    /// Closes the connections, also those that are in use, when they come back.
    fn drop(&mut self) {
        self.shared.idle().take();
    }
}

impl Readers {
    /// Connections are opened when they are first needed.
    pub fn new(path: &Path, options: &Options) -> Self {
        let shared = Shared {
            path: path.to_owned(),
            busy_ms: options.busy_ms,
            clock: Arc::clone(&options.clock),
            pause_ms_max: options.pause_ms_max,
            idle: Mutex::new(Some(Vec::new())),
        };
        Self { shared: Arc::new(shared), free: Arc::new(Semaphore::new(options.readers.max(1))) }
    }

    /// Answers one question.
    pub async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&View<'_>) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let ended = |what: &str| StoreError::Unavailable(format!("{what}; the program is shutting down"));
        let permit = Arc::clone(&self.free).acquire_owned().await.map_err(|_| ended("reads are closed"))?;
        let shared = Arc::clone(&self.shared);
        let answer = tokio::task::spawn_blocking(move || {
            let answer = shared.answer(question);
            drop(permit);
            answer
        });
        answer.await.map_err(|_| ended("the read was given up"))?
    }
}

impl Shared {
    fn answer<T>(&self, question: impl FnOnce(&View<'_>) -> Done<T>) -> Result<T, StoreError> {
        let idle = self.idle().as_mut().and_then(Vec::pop);
        let conn = match idle {
            Some(conn) => conn,
            None => file::open_reader(&self.path, self.busy_ms).map_err(|fail| fail.into_store_error())?,
        };
        let answer = self.look(&conn, question);
        if conn.is_autocommit()
            && let Some(idle) = self.idle().as_mut()
        {
            idle.push(conn);
        }
        answer.map_err(|fail| fail.into_store_error())
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Connection>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All statements of one question see the same moment.
    fn look<T>(&self, conn: &Connection, question: impl FnOnce(&View<'_>) -> Done<T>) -> Done<T> {
        conn.prepare_cached("BEGIN")?.execute([])?;
        let answer = Head::load(conn, &*self.clock).and_then(|head| {
            let now = head.timekeeper.now(&*self.clock);
            question(&View { conn, head, now, pause_ms_max: self.pause_ms_max })
        });
        conn.prepare_cached("COMMIT")?.execute([])?;
        answer
    }
}
