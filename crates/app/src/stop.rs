//! One word for all parts of an app: it is time to end.

use std::future::Future;
use std::io;

use tokio::sync::watch;
use windlass_engine::shutdown_on_signals;

/// Says that it is time to end, to whoever has a copy. It is said once and for all.
#[derive(Debug, Clone)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::Sender::new(false))
    }
}

impl Stop {
    /// It is asked for by SIGTERM and SIGINT. To be called within a runtime.
    pub fn on_signals() -> io::Result<Self> {
        let (stop, signals) = (Self::default(), shutdown_on_signals()?);
        stop.after(signals);
        Ok(stop)
    }

    /// It is asked for when `told` is done, too.
    pub fn after(&self, told: impl Future<Output = ()> + Send + 'static) {
        let stop = self.clone();
        tokio::spawn(async move {
            tokio::select! { () = told => stop.ask(), () = stop.wait() => {} }
        });
    }

    /// Asks everybody to end.
    pub fn ask(&self) {
        self.0.send_replace(true);
    }

    /// Whether it is time to end.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until it is time to end.
    pub fn wait(&self) -> impl Future<Output = ()> + Send + Sync + 'static + use<> {
        // The copy keeps the sender, so that only a word ends the wait.
        let stop = self.clone();
        async move {
            let mut told = stop.0.subscribe();
            let _ = told.wait_for(|asked| *asked).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn whoever_waits_hears_it_also_later() {
        let stop = Stop::default();
        let (early, copy) = (stop.wait(), stop.clone());
        assert!(!stop.is_asked());
        copy.ask();
        copy.ask();
        early.await;
        stop.wait().await;
        assert!(stop.is_asked());
        let second = Stop::default();
        second.after(async {});
        second.wait().await;
    }
}
