//! Telling workers that there may be new work.
//!
//! A NOTIFY inside the transaction of an enqueue would make all commits wait
//! for each other, so it is sent after the commit, by one task, at most every
//! [`NOTIFY_EVERY`], however many calls there were. It may get lost: workers
//! also ask from time to time.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Config};
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass_core::store::WakeFn;

use crate::error::Fault;
use crate::link::{Lines, Link};

const NOTIFY_EVERY: Duration = Duration::from_millis(2);
const RECONNECT_MIN: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

/// Who is to be told, and the tasks that tell and listen.
pub(crate) struct Wake {
    callbacks: Arc<Callbacks>,
    told: Arc<Notify>,
    tasks: Vec<AbortHandle>,
}

/// How to reach the server that tells, and on which channel.
pub(crate) struct Listen {
    pub(crate) config: Config,
    pub(crate) tls: MakeRustlsConnect,
    /// The statement that says on which channel.
    pub(crate) listen: String,
}

#[derive(Default)]
struct Callbacks(Mutex<Vec<WakeFn>>);

impl Callbacks {
    fn call(&self) {
        let callbacks = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for callback in callbacks {
            callback();
        }
    }
}

impl Wake {
    /// Starts to tell others, and to listen to them when there is a way to.
    pub(crate) fn start(instance: String, lines: Lines, listen: Option<Listen>) -> Self {
        let callbacks = Arc::new(Callbacks::default());
        let told = Arc::new(Notify::new());
        let mut tasks = vec![tokio::spawn(tell(instance.clone(), lines, Arc::clone(&told))).abort_handle()];
        if let Some(listen) = listen {
            tasks.push(tokio::spawn(hear(instance, listen, Arc::clone(&callbacks))).abort_handle());
        }
        Self { callbacks, told, tasks }
    }

    /// Only listens: others are told by somebody else, such as a trigger.
    pub(crate) fn listening(runtime: &Handle, listen: Listen) -> Self {
        let callbacks = Arc::new(Callbacks::default());
        let hearing = runtime.spawn(hear(String::new(), listen, Arc::clone(&callbacks)));
        Self { callbacks, told: Arc::default(), tasks: vec![hearing.abort_handle()] }
    }

    pub(crate) fn register(&self, wake: WakeFn) {
        self.callbacks.0.lock().unwrap_or_else(PoisonError::into_inner).push(wake);
    }

    /// There may be new work: those in this program are told at once, the others soon.
    pub(crate) fn work(&self) {
        self.callbacks.call();
        self.told.notify_one();
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn tell(instance: String, lines: Lines, told: Arc<Notify>) {
    let mut pace = tokio::time::interval(NOTIFY_EVERY);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        told.notified().await;
        pace.tick().await;
        if let Err(fault) = tell_once(&instance, &lines).await {
            tracing::debug!(?fault, "other workers were not told of new work; they will find it by asking");
        }
    }
}

async fn tell_once(instance: &str, lines: &Lines) -> Result<(), Fault> {
    let link = Link::of(lines).await?;
    link.rows(include_str!("../sql/notify.sql"), &[(&instance, Type::TEXT)]).await?;
    Ok(())
}

async fn hear(instance: String, listen: Listen, callbacks: Arc<Callbacks>) {
    let mut wait = RECONNECT_MIN;
    loop {
        match hear_once(&instance, &listen, &callbacks, &mut wait).await {
            Ok(()) => tracing::warn!("the connection that listens for new work ended; connecting again"),
            Err(error) => tracing::warn!(%error, "cannot listen for new work; trying again"),
        }
        pause(wait).await;
        wait = (wait * 2).min(RECONNECT_MAX);
    }
}

async fn hear_once(
    instance: &str,
    listen: &Listen,
    callbacks: &Callbacks,
    wait: &mut Duration,
) -> Result<(), tokio_postgres::Error> {
    let (client, mut connection) = listen.config.connect(listen.tls.clone()).await?;
    let listening = client.batch_execute(&listen.listen);
    tokio::pin!(listening);
    let mut is_listening = false;
    loop {
        tokio::select! {
            message = poll_fn(|context| connection.poll_message(context)) => match message {
                Some(Ok(AsyncMessage::Notification(note))) if instance.is_empty() || note.payload() != instance => {
                    callbacks.call();
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            done = &mut listening, if !is_listening => {
                done?;
                is_listening = true;
                *wait = RECONNECT_MIN;
                // Whatever was said while nobody listened is made up for.
                callbacks.call();
            }
        }
    }
}

/// Waits before connecting again. No decision of the store hangs on this time.
async fn pause(time: Duration) {
    let _ = tokio::time::timeout(time, std::future::pending::<()>()).await;
}
