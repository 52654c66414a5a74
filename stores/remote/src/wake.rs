//! Telling workers that there may be new work, by the server's stream of events.
//!
//! A token that may work but not read gets no events: then workers find work
//! by asking, as they do anyway.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::task::AbortHandle;
use windlass_core::error::StoreError;
use windlass_core::store::{WakeFn, WakeFns};
use windlass_core::wake::{Registration, Work};

use crate::http_call::Caller;
use crate::store::RemoteStore;

const COME_BACK_MIN: Duration = Duration::from_millis(200);
const COME_BACK_MAX: Duration = Duration::from_secs(10);
/// The server gives a sign of life every 15 s.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Those who want to be told, and the task that tells them.
#[derive(Default)]
pub(crate) struct Listener {
    wakes: WakeFns,
    task: Mutex<Option<AbortHandle>>,
}

impl Drop for Listener {
    fn drop(&mut self) {
        let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl RemoteStore {
    pub(crate) fn listen(&self, wake: WakeFn) -> Registration {
        let registration = self.listener.wakes.add(wake);
        let mut task = self.listener.task.lock().unwrap_or_else(PoisonError::into_inner);
        if task.is_none() {
            let (caller, wakes) = (self.caller.clone(), self.listener.wakes.clone());
            *task = Some(tokio::spawn(listen(caller, wakes)).abort_handle());
        }
        registration
    }
}

async fn listen(caller: Arc<Caller>, wakes: WakeFns) {
    let mut pause = COME_BACK_MIN;
    loop {
        match listen_once(&caller, &wakes, &mut pause).await {
            Ok(()) => tracing::debug!("the server's stream of events ended; listening again"),
            Err(error @ StoreError::Invalid(_)) => {
                tracing::debug!(%error, "no events with this token; work is found by asking");
                return;
            }
            Err(error) => tracing::debug!(%error, "cannot listen for new work; trying again"),
        }
        // No decision hangs on this time: whoever waits for work also asks.
        let _ = tokio::time::timeout(pause, std::future::pending::<()>()).await;
        pause = (pause * 2).min(COME_BACK_MAX);
    }
}

async fn listen_once(caller: &Caller, wakes: &WakeFns, pause: &mut Duration) -> Result<(), StoreError> {
    let mut stream = caller.stream("/v1/events").await?;
    *pause = COME_BACK_MIN;
    while let Ok(Some(Ok(frame))) = tokio::time::timeout(SILENCE_MAX, stream.frame()).await {
        // Whatever it says: something has happened, and a claim tells the rest.
        if frame.data_ref().is_some_and(|data| data.windows(6).any(|text| text == b"data: ")) {
            for wake in wakes.all() {
                wake(&Work::Anywhere);
            }
        }
    }
    Ok(())
}
