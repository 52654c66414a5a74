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
    /// How many bytes are kept by now, counted from the first that was ever said. Only an answer of the store moves it: a
    /// write that failed, or that was dropped with the end of the handler, is made again.
    kept: u64,
}

impl Said {
    fn bytes(&self) -> u64 {
        self.log.dropped.saturating_add(self.log.text.len() as u64)
    }
}

impl RunLog {
    pub(crate) fn new(lease: LeaseRef, store: Option<Arc<dyn Store>>) -> Self {
        let said = Said { log: Log::of(lease.fence), kept: 0 };
        Self { lease, store, said: Mutex::new(said), heard: Notify::new() }
    }

    pub(crate) fn push(&self, line: &str) {
        if self.store.is_none() {
            return;
        }
        self.said().log.push(line);
        self.heard.notify_one();
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
        let (Log { fence: _, dropped, text }, bytes) = {
            let said = self.said();
            if said.bytes() == said.kept {
                return;
            }
            (said.log.clone(), said.bytes())
        };
        let write = LogWrite { request_id: new_id(world).0, lease: self.lease, dropped, text };
        match store.put_log(write).await {
            Ok(_) => self.said().kept = bytes,
            Err(error) => {
                tracing::debug!(job_id = %self.lease.job_id, code = error.code(), "the output of an attempt was not kept");
            }
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
