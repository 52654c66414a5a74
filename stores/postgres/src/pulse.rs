//! Noticing that a server has stopped to answer. A frozen host sends no reset:
//! its connections look alive, and each call on one of them would wait for its
//! whole time. So while a call is slow, the host is asked for a sign of life on
//! a connection of its own; without one, all calls on it are given up and the
//! connections dropped, and the next call looks for another host.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use windlass_core::error::StoreError;

use crate::error::late;
use crate::hosts::{Hosts, pause};
use crate::link::Lines;

/// A call that has taken this long is slow.
const SLOW: Duration = Duration::from_secs(1);
/// How often a host is asked while calls are slow.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Waits for calls, and knows whether their server is alive.
#[derive(Clone)]
pub(crate) struct Pulse(Arc<Shared>);

struct Shared {
    call_time: Duration,
    /// How many calls are slow now.
    slow: AtomicUsize,
    became_slow: Notify,
    /// How often the server was lost.
    losses: watch::Sender<u64>,
}

impl Pulse {
    /// Watches over the host of these connections, on this runtime.
    pub(crate) fn start(runtime: &Handle, hosts: Arc<Hosts>, lines: Vec<Lines>, call_time: Duration) -> Self {
        let (slow, became_slow, losses) = (AtomicUsize::new(0), Notify::new(), watch::Sender::new(0));
        let shared = Arc::new(Shared { call_time, slow, became_slow, losses });
        runtime.spawn(watch_over(Arc::clone(&shared), hosts, lines));
        Self(shared)
    }

    /// The longest that a call may take.
    pub(crate) fn call_time(&self) -> Duration {
        self.0.call_time
    }

    /// What comes when the server is lost.
    pub(crate) fn losses(&self) -> watch::Receiver<u64> {
        self.0.losses.subscribe()
    }

    /// The answer of a call, unless it takes too long or its server is lost meanwhile.
    pub(crate) async fn wait<T>(&self, call: impl Future<Output = T>) -> Result<T, StoreError> {
        let Shared { call_time, losses, .. } = &*self.0;
        let before = *losses.borrow();
        let mut call = std::pin::pin!(call);
        if let Ok(answer) = tokio::time::timeout(SLOW.min(*call_time), &mut call).await {
            return Ok(answer);
        }
        let mut lost = losses.subscribe();
        let _slow = Slow::new(&self.0);
        tokio::select! {
            answer = tokio::time::timeout(call_time.saturating_sub(SLOW), call) => answer.map_err(|_| late()),
            _ = lost.wait_for(|losses| *losses > before) => Err(StoreError::Unavailable(
                "Postgres has stopped to answer; whether the call was done is not known".to_owned(),
            )),
        }
    }
}

/// One slow call.
struct Slow<'s>(&'s Shared);

impl<'s> Slow<'s> {
    fn new(shared: &'s Shared) -> Self {
        shared.slow.fetch_add(1, Ordering::Relaxed);
        shared.became_slow.notify_one();
        Self(shared)
    }
}

impl Drop for Slow<'_> {
    fn drop(&mut self) {
        self.0.slow.fetch_sub(1, Ordering::Relaxed);
    }
}

async fn watch_over(shared: Arc<Shared>, hosts: Arc<Hosts>, lines: Vec<Lines>) {
    loop {
        shared.became_slow.notified().await;
        while shared.slow.load(Ordering::Relaxed) > 0 {
            if !hosts.is_alive().await {
                tracing::warn!("Postgres has stopped to answer; its connections are given up");
                for Lines { pool, .. } in &lines {
                    pool.retain(|_, _| false);
                }
                shared.losses.send_modify(|losses| *losses += 1);
            }
            pause(ASK_EVERY).await;
        }
    }
}
