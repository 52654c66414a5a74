//! The worker as a user builds it.

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use windlass_core::error::{Invalid, StoreError};
use windlass_core::id::{Kind, QueueName, WorkerName};
use windlass_core::policy::queue::LEASE_MS_RANGE;
use windlass_core::store::{Source, Store};

use crate::context::Context;
use crate::failure::Failure;
use crate::handler::{AsyncFn, BlockingFn, Handler};
use crate::payload::Payload;
use crate::process::{Command, CommandHandler};
use crate::runtime::{BreakerPolicy, Engine, Settings, Shutdown, Summary, shutdown_on_signals};
use crate::world::{RealWorld, World};

/// How long a handler that was told to stop is waited for, unless said otherwise.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// How many jobs a worker runs at once, unless said otherwise.
pub const SLOTS_DEFAULT: usize = 10;
/// The longest that an idle worker goes without asking for work.
pub const POLL_DEFAULT: Duration = Duration::from_secs(1);

/// Claims jobs and runs them.
///
/// ```no_run
/// # use windlass::{Worker, Context, Failure, Payload};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Greet { name: String }
/// # impl Payload for Greet { const KIND: &'static str = "greet"; }
/// # async fn doc(store: std::sync::Arc<dyn windlass::core::store::Store>) -> Result<(), Box<dyn std::error::Error>> {
/// Worker::new(store)
///     .slots(4)
///     .handle(async |job: Greet, _ctx: Context| {
///         println!("Hello, {}!", job.name);
///         Ok::<(), Failure>(())
///     })
///     .run_until_signal()
///     .await?;
/// # Ok(())
/// # }
/// ```
pub struct Worker {
    source: Arc<dyn Source>,
    store: Option<Arc<dyn Store>>,
    world: Arc<dyn World>,
    name: Option<String>,
    queues: BTreeSet<String>,
    handlers: HashMap<String, Arc<dyn Handler>>,
    slots: usize,
    claim_max: usize,
    lease: Option<Duration>,
    grace: Duration,
    poll: Duration,
    housekeeping: bool,
    breaker: Option<BreakerPolicy>,
}

/// Why a worker could not start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// A setting makes no sense.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// The store has stopped for good.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The machine refused a thread or a signal.
    #[error("the worker could not start: {0}")]
    Machine(#[from] std::io::Error),
}

impl Worker {
    /// A worker on a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self::build(store.clone(), Some(store))
    }

    /// A worker on a source that is not a store, such as an adopted table.
    pub fn from_source(source: Arc<dyn Source>) -> Self {
        Self::build(source, None)
    }

    fn build(source: Arc<dyn Source>, store: Option<Arc<dyn Store>>) -> Self {
        Self {
            source,
            store,
            world: Arc::new(RealWorld::new()),
            name: None,
            queues: BTreeSet::new(),
            handlers: HashMap::new(),
            slots: SLOTS_DEFAULT,
            claim_max: 1_000,
            lease: None,
            grace: GRACE_DEFAULT,
            poll: POLL_DEFAULT,
            housekeeping: true,
            breaker: None,
        }
    }

    /// Runs the jobs that carry `P` with an async function. The worker also
    /// claims from the queue of `P`.
    pub fn handle<P, F, Fut, T>(mut self, function: F) -> Self
    where
        P: Payload,
        F: Fn(P, Context) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
        T: Serialize + Send + 'static,
    {
        self.queues.insert(P::QUEUE.to_owned());
        self.handle_kind(P::KIND, AsyncFn(function, PhantomData))
    }

    /// Runs the jobs that carry `P` with a blocking function, on a thread of its own.
    pub fn handle_blocking<P, F, T>(mut self, function: F) -> Self
    where
        P: Payload,
        F: Fn(P, Context) -> Result<T, Failure> + Send + Sync + 'static,
        T: Serialize + Send + 'static,
    {
        self.queues.insert(P::QUEUE.to_owned());
        self.handle_kind(P::KIND, BlockingFn(Arc::new(function), PhantomData))
    }

    /// Runs the jobs of a kind with a program, each in a process of its own.
    pub fn handle_command(self, kind: &str, command: Command) -> Self {
        let grace = self.grace;
        self.handle_kind(kind, CommandHandler::new(command, grace))
    }

    /// Runs the jobs of a kind with a handler. A kind has one handler; the last one stays.
    pub fn handle_kind(mut self, kind: &str, handler: impl Handler) -> Self {
        self.handlers.insert(kind.to_owned(), Arc::new(handler));
        self
    }

    /// Claims from these queues, too. With no queue said, `default` is taken.
    pub fn queues<'a>(mut self, queues: impl IntoIterator<Item = &'a str>) -> Self {
        self.queues.extend(queues.into_iter().map(str::to_owned));
        self
    }

    /// The worker's name; made up from host and process when nothing is said.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// How many jobs run at once.
    pub fn slots(mut self, slots: usize) -> Self {
        self.slots = slots;
        self
    }

    /// How many jobs are claimed at once at most.
    pub fn claim_max(mut self, claim_max: usize) -> Self {
        self.claim_max = claim_max;
        self
    }

    /// How long a lease lasts, instead of what the queue says.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// How long a handler that was told to stop is waited for.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// The longest that an idle worker goes without asking for work.
    pub fn poll(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// Whether this worker also takes back lost leases, fires schedules and
    /// prunes. Some worker of the fleet must.
    pub fn housekeeping(mut self, housekeeping: bool) -> Self {
        self.housekeeping = housekeeping;
        self
    }

    /// Leaves a kind alone for a while when all its attempts fail.
    pub fn breaker(mut self, policy: BreakerPolicy) -> Self {
        self.breaker = Some(policy);
        self
    }

    /// Another world, for tests.
    pub fn in_world(mut self, world: Arc<dyn World>) -> Self {
        self.world = world;
        self
    }

    /// Runs until SIGTERM or SIGINT.
    pub async fn run_until_signal(self) -> Result<Summary, WorkerError> {
        let shutdown = shutdown_on_signals()?;
        self.start(shutdown, false).await
    }

    /// Runs until `shutdown` is done.
    pub async fn run_until(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Summary, WorkerError> {
        self.start(Box::pin(shutdown), false).await
    }

    /// Runs until there is nothing to do: no job that could run, none running,
    /// none that becomes due by time alone.
    pub async fn run_until_idle(self) -> Result<Summary, WorkerError> {
        self.start(Box::pin(std::future::pending()), true).await
    }

    async fn start(self, shutdown: Shutdown, until_idle: bool) -> Result<Summary, WorkerError> {
        let slots = self.slots;
        if slots == 0 {
            return Err(Invalid::new("slots", "are 0; a worker needs at least one").into());
        }
        let settings = self.settings(until_idle)?;
        let handlers: Result<HashMap<Kind, Arc<dyn Handler>>, Invalid> =
            self.handlers.into_iter().map(|(kind, handler)| Ok((Kind::new(kind)?, handler))).collect();
        let ambient = tokio::runtime::Handle::current();
        let (engine, settled) = Engine::new(
            self.source,
            self.store,
            self.world,
            settings,
            handlers?,
            self.breaker,
            slots,
            ambient,
        );
        let (done, summary) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("windlass-engine".into()).spawn(move || {
            let summary = runtime.block_on(engine.run(settled, shutdown));
            // Whoever started the worker may have gone.
            let _ = done.send(summary);
        })?;
        let summary = summary.await;
        Ok(summary.map_err(|_| std::io::Error::other("the engine's thread ended without a word"))??)
    }

    fn settings(&self, until_idle: bool) -> Result<Settings, Invalid> {
        let kinds: Result<Vec<Kind>, Invalid> = self.handlers.keys().map(Kind::new).collect();
        let mut kinds = kinds?;
        kinds.sort_unstable();
        if kinds.is_empty() {
            return Err(Invalid::new("handlers", "are missing: the worker knows no kind of job"));
        }
        let queues: Result<BTreeSet<QueueName>, Invalid> = self.queues.iter().map(QueueName::new).collect();
        let mut queues: Vec<QueueName> = queues?.into_iter().collect();
        if queues.is_empty() {
            queues.push(QueueName::default());
        }
        let lease_ms = self.lease.map(|lease| u32::try_from(lease.as_millis()).unwrap_or(u32::MAX));
        if lease_ms.is_some_and(|ms| !LEASE_MS_RANGE.contains(&ms)) {
            return Err(Invalid::new("lease", "lies outside 100 ms to 1 day"));
        }
        Ok(Settings {
            name: WorkerName::new(self.name.clone().unwrap_or_else(|| made_up_name(&*self.world)))?,
            queues,
            kinds,
            claim_max: self.claim_max.max(1),
            lease_ms,
            grace_ms: u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX / 4),
            poll_ms_max: u64::try_from(self.poll.as_millis()).unwrap_or(u64::MAX / 4).max(1),
            housekeeping: self.housekeeping,
            until_idle,
        })
    }
}

/// Host, process and chance: no two workers have the same name.
fn made_up_name(world: &dyn World) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}-{}-{:08x}", std::process::id(), world.chance() as u32)
}
