//! What an attempt says, kept in memory until it is written: now and then while it goes on, and at its end.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use windlass_core::log::{Log, LogWrite};
use windlass_core::store::{LeaseRef, Store};

use crate::world::{World, new_id};

/// How soon the first line is written.
const FIRST_MS: u64 = 500;
/// How long a program that goes on talking is listened to between two writes: doubled up to this.
const PAUSE_MS_MAX: u64 = 8_000;

/// The output of one attempt.
pub(crate) struct RunLog {
    lease: LeaseRef,
    /// Where it is kept; nowhere for a source that keeps nothing but jobs.
    store: Option<Arc<dyn Store>>,
    said: Mutex<Said>,
    heard: Notify,
}

struct Said {
    log: Log,
    /// Whether there is more than was written.
    is_new: bool,
}

impl RunLog {
    pub(crate) fn new(lease: LeaseRef, store: Option<Arc<dyn Store>>) -> Self {
        let said = Said { log: Log::of(lease.fence), is_new: false };
        Self { lease, store, said: Mutex::new(said), heard: Notify::new() }
    }

    pub(crate) fn push(&self, line: &str) {
        if self.store.is_none() {
            return;
        }
        let mut said = self.said();
        said.log.push(line);
        let was_new = std::mem::replace(&mut said.is_new, true);
        drop(said);
        if !was_new {
            self.heard.notify_one();
        }
    }

    /// Writes it as it grows, without an end.
    pub(crate) async fn write_as_it_grows(&self, world: &dyn World) -> Infallible {
        let mut pause_ms = FIRST_MS;
        loop {
            self.heard.notified().await;
            world.sleep_ms(pause_ms).await;
            self.write(world).await;
            pause_ms = (pause_ms * 2).min(PAUSE_MS_MAX);
        }
    }

    /// Writes what is new. Output is for people: when it cannot be kept the attempt goes on all the same.
    pub(crate) async fn write(&self, world: &dyn World) {
        let Some(store) = &self.store else { return };
        let Log { fence: _, dropped, text } = {
            let mut said = self.said();
            if !std::mem::replace(&mut said.is_new, false) {
                return;
            }
            said.log.clone()
        };
        let write = LogWrite { request_id: new_id(world).0, lease: self.lease, dropped, text };
        if let Err(error) = store.put_log(write).await {
            tracing::debug!(job_id = %self.lease.job_id, code = error.code(), "the output of an attempt was not kept");
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
