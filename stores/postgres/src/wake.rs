//! Telling workers that there may be new work.
//!
//! A NOTIFY inside the transaction of an enqueue would make all commits wait
//! for each other, so it is sent after the commit, by one task, at most every
//! [`NOTIFY_EVERY`], however many calls there were. It may get lost: workers
//! also ask from time to time.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_postgres::AsyncMessage;
use tokio_postgres::types::Type;
use windlass_core::id::QueueName;
use windlass_core::store::{WakeFn, WakeFns};
use windlass_core::wake::{Registration, Work};

use crate::error::Fault;
use crate::hosts::{Hosts, SIGN_OF_LIFE, pause};
use crate::link::{Lines, Link};
use crate::news;

const NOTIFY_EVERY: Duration = Duration::from_millis(2);
/// What a note has at most; Postgres takes 8,000. With more queues than fit it names none.
const NOTE_BYTES_MAX: usize = 4_000;
/// The longest that telling may take. What is not told is found by asking.
const TELL_MAX: Duration = Duration::from_secs(3);
/// How often a silent connection is asked whether it is alive.
const ASK_EVERY: Duration = Duration::from_secs(4);
const RECONNECT_MIN: Duration = Duration::from_millis(100);
const RECONNECT_MAX: Duration = Duration::from_secs(5);

/// Who is to be told, and the tasks that tell and listen.
pub(crate) struct Wake {
    callbacks: Arc<Callbacks>,
    /// Whether others are heard at this moment.
    hearing: Arc<Hearing>,
    untold: Arc<Untold>,
    tasks: Vec<AbortHandle>,
}

/// Whether others are heard, and since when it is so.
pub(crate) struct Hearing(Mutex<(bool, Instant)>);

impl Default for Hearing {
    fn default() -> Self {
        Self(Mutex::new((false, Instant::now())))
    }
}

impl Hearing {
    /// Notes how it is from now on; answers how it was.
    pub(crate) fn set(&self, hears: bool) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known.0;
        if before != hears {
            *known = (hears, Instant::now());
        }
        before
    }

    pub(crate) fn is(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn silent_for(&self) -> Option<Duration> {
        let (hears, since) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!hears).then(|| since.elapsed())
    }
}

/// How to reach the server that tells, and on which channel.
pub(crate) struct Listen {
    pub(crate) hosts: Arc<Hosts>,
    /// Says when the server was lost.
    pub(crate) losses: watch::Receiver<u64>,
    /// The statement that says on which channel.
    pub(crate) listen: String,
}

#[derive(Default)]
pub(crate) struct Callbacks(WakeFns);

impl Callbacks {
    pub(crate) fn call(&self, work: &Work) {
        for callback in self.0.all() {
            callback(work);
        }
    }
}

/// What others have still to be told.
#[derive(Default)]
struct Untold {
    work: Mutex<Option<Work>>,
    came: Notify,
}

impl Untold {
    fn add(&self, work: Work) {
        let mut untold = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *untold {
            Some(before) => before.add(work),
            None => *untold = Some(work),
        }
        drop(untold);
        self.came.notify_one();
    }

    fn take(&self) -> Option<Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What is sent: who says it, then the queues that have work, each on a line of its own. No queue means any.
pub(crate) fn note_of(instance: &str, work: &Work) -> String {
    let mut note = instance.to_owned();
    if let Work::In(queues) = work {
        // Names hold no control characters, so these part them.
        let bytes: usize = queues.iter().map(|queue| queue.as_str().len() + 1).sum();
        if note.len() + bytes <= NOTE_BYTES_MAX {
            queues.iter().for_each(|queue| note.extend(["\n", queue.as_str()]));
        }
    }
    note
}

/// What was heard; nothing when it was said by this program itself. One that listens to somebody else's channel
/// has no name, and reads nothing into what is said there.
fn heard(instance: &str, note: &str) -> Option<Work> {
    let mut lines = note.split('\n');
    let from_us = lines.next() == Some(instance);
    if instance.is_empty() {
        return Some(Work::Anywhere);
    }
    if from_us {
        return None;
    }
    let queues: Result<BTreeSet<_>, _> = lines.map(QueueName::new).collect();
    let queues = queues.ok().filter(|queues| !queues.is_empty());
    Some(queues.map_or(Work::Anywhere, Work::In))
}

impl Wake {
    /// Starts to tell others, and to listen to them; where there is no way to, it is read whether they told something.
    pub(crate) fn start(instance: String, lines: Lines, listen: Option<Listen>) -> Self {
        let callbacks = Arc::new(Callbacks::default());
        let hearing = Arc::new(Hearing::default());
        let untold = Arc::new(Untold::default());
        let telling = tokio::spawn(tell(instance.clone(), lines.clone(), Arc::clone(&untold)));
        let (called, heard) = (Arc::clone(&callbacks), Arc::clone(&hearing));
        let listening = match listen {
            Some(listen) => tokio::spawn(hear(instance, listen, called, heard)),
            None => tokio::spawn(async move { news::watch(lines, &called, &heard).await }),
        };
        Self { callbacks, hearing, untold, tasks: vec![telling.abort_handle(), listening.abort_handle()] }
    }

    /// Tells nobody: others are told by somebody else, such as a trigger, where they can be listened to. `watch` looks by itself,
    /// and calls.
    pub(crate) fn of_others<W: Future<Output = ()> + Send + 'static>(
        runtime: &Handle,
        listen: Option<Listen>,
        watch: impl FnOnce(Arc<Callbacks>, Arc<Hearing>) -> W,
    ) -> Self {
        let callbacks = Arc::new(Callbacks::default());
        let hearing = Arc::new(Hearing::default());
        let mut tasks =
            vec![runtime.spawn(watch(Arc::clone(&callbacks), Arc::clone(&hearing))).abort_handle()];
        if let Some(listen) = listen {
            let hearing = hear(String::new(), listen, Arc::clone(&callbacks), Arc::clone(&hearing));
            tasks.push(runtime.spawn(hearing).abort_handle());
        }
        Self { callbacks, hearing, untold: Arc::default(), tasks }
    }

    /// Whether others are heard at this moment.
    pub(crate) fn listens(&self) -> bool {
        self.hearing.is()
    }

    /// For how long they have not been; nothing while they are.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        self.hearing.silent_for()
    }

    pub(crate) fn register(&self, wake: WakeFn) -> Registration {
        self.callbacks.0.add(wake)
    }

    /// There may be new work: those in this program are told at once, the others soon.
    pub(crate) fn work(&self, work: Work) {
        self.callbacks.call(&work);
        self.untold.add(work);
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn tell(instance: String, lines: Lines, untold: Arc<Untold>) {
    let mut pace = tokio::time::interval(NOTIFY_EVERY);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        untold.came.notified().await;
        pace.tick().await;
        let Some(work) = untold.take() else { continue };
        let told = tokio::time::timeout(TELL_MAX, tell_once(&note_of(&instance, &work), &lines)).await;
        if !matches!(told, Ok(Ok(()))) {
            tracing::debug!(?told, "other workers were not told of new work; they will find it by asking");
        }
    }
}

async fn tell_once(note: &str, lines: &Lines) -> Result<(), Fault> {
    let link = Link::of(lines).await?;
    link.rows(sql!("event", "notify"), &[(&note, Type::TEXT)]).await?;
    Ok(())
}

async fn hear(instance: String, listen: Listen, callbacks: Arc<Callbacks>, hearing: Arc<Hearing>) {
    let mut wait = RECONNECT_MIN;
    loop {
        let ended = hear_once(&instance, &listen, &callbacks, &hearing, &mut wait).await;
        hearing.set(false);
        // Whoever relied on being called asks for itself from here on.
        callbacks.call(&Work::Anywhere);
        match ended {
            Ok(()) => tracing::warn!("the connection that listens for new work ended; connecting again"),
            Err(error) => tracing::warn!(%error, "cannot listen for new work; trying again"),
        }
        pause(wait).await;
        wait = (wait * 2).min(RECONNECT_MAX);
    }
}

/// Listens until the connection ends, or does not answer any more.
async fn hear_once(
    instance: &str,
    listen: &Listen,
    callbacks: &Callbacks,
    hearing: &Hearing,
    wait: &mut Duration,
) -> Result<(), tokio_postgres::Error> {
    let mut losses = listen.losses.clone();
    losses.mark_unchanged();
    let (client, mut connection) = listen.hosts.connect().await?;
    let talk = async {
        match tokio::time::timeout(SIGN_OF_LIFE, client.batch_execute(&listen.listen)).await {
            Ok(answer) => answer?,
            Err(_) => return Ok(()),
        }
        *wait = RECONNECT_MIN;
        hearing.set(true);
        // Whatever was said while nobody listened is made up for.
        callbacks.call(&Work::Anywhere);
        loop {
            pause(ASK_EVERY).await;
            // The server begins no transaction for it; it only answers.
            match tokio::time::timeout(SIGN_OF_LIFE, client.check_connection()).await {
                Ok(answer) => answer?,
                Err(_) => return Ok(()),
            }
        }
    };
    let mut talk = std::pin::pin!(talk);
    loop {
        tokio::select! {
            message = poll_fn(|context| connection.poll_message(context)) => match message {
                Some(Ok(AsyncMessage::Notification(note))) => {
                    if let Some(work) = heard(instance, note.payload()) {
                        callbacks.call(&work);
                    }
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error),
                None => return Ok(()),
            },
            ended = &mut talk => return ended,
            _ = losses.changed() => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_who_and_where() {
        let queues = |names: &[&str]| -> Vec<QueueName> {
            names.iter().map(|name| QueueName::new(*name).expect("a name")).collect()
        };
        let some = Work::in_queues(&queues(&["a b", "c"]));
        let many: Vec<String> = (0..100).map(|at| format!("{at:0>100}")).collect();
        let many = Work::in_queues(&queues(&many.iter().map(String::as_str).collect::<Vec<_>>()));
        for (work, told) in [(&some, &some), (&many, &Work::Anywhere), (&Work::Anywhere, &Work::Anywhere)] {
            let note = note_of("us", work);
            assert!(note.len() <= NOTE_BYTES_MAX);
            assert_eq!(heard("them", &note).as_ref(), Some(told));
            assert_eq!(heard("us", &note), None);
            assert_eq!(heard("", &note), Some(Work::Anywhere));
        }
        // A program of before, a plain NOTIFY, and what is no name.
        for note in ["older", "", "\n", "x\n\u{7}"] {
            assert_eq!(heard("us", note), Some(Work::Anywhere), "{note:?}");
        }
    }
}
