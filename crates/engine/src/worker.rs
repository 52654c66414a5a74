//! The worker as a user builds it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use windlass_core::error::{Invalid, StoreError};
use windlass_core::id::{Kind, QueueName, WorkerName};
use windlass_core::policy::queue::LEASE_MS_RANGE;
use windlass_core::store::{Source, Store};

use crate::admission::Admission;
use crate::handler::{
    AsyncFn, AsyncHandler, BlockingFn, BlockingHandler, Handler, HandlerResult, Layer, Layered, Stateless,
    StatelessLayer, WithState,
};
use crate::job::Job;
use crate::process::{Command, CommandHandler};
use crate::runtime::{
    BreakerPolicy, Engine, OnEvent, Parts, Pool, Settings, Shutdown, Summary, Until, WorkerEvent,
    shutdown_on_signals,
};
use crate::world::{RealWorld, World};

/// How long a handler that was told to stop is waited for, unless said otherwise.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(10);
/// How long an attempt is held still while the store is away.
pub const STILL_DEFAULT: Duration = Duration::from_secs(600);
/// How many jobs a worker runs at once, unless said otherwise.
pub const SLOTS_DEFAULT: usize = 10;
/// The longest that an idle worker goes without asking for work.
pub const POLL_DEFAULT: Duration = Duration::from_secs(1);

/// Claims jobs and runs them; `S` is the state that it shares with its handlers.
///
/// ```no_run
/// # use windlass_engine::{Client, Worker, Context, Failure, Job};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct SendMail { to: String }
/// # impl Job for SendMail { const KIND: &'static str = "send-mail"; type Output = (); }
/// # struct App { sender: String }
/// async fn send_mail(job: SendMail, ctx: Context<App>) -> Result<(), Failure> {
///     println!("from {} to {}", ctx.state().sender, job.to);
///     Ok(())
/// }
///
/// # async fn doc(store: std::sync::Arc<dyn windlass_engine::Store>) -> Result<(), Box<dyn std::error::Error>> {
/// let app = App { sender: "shop@example.com".into() };
/// Worker::new(store).state(app).handle(send_mail).run_until_signal().await?;
/// # Ok(())
/// # }
/// ```
///
/// The order in which things are said does not matter, with one exception that
/// the compiler sees: the state comes before the handlers and layers that use it.
pub struct Worker<S = ()> {
    source: Arc<dyn Source>,
    store: Option<Arc<dyn Store>>,
    world: Arc<dyn World>,
    name: Option<String>,
    state: Arc<S>,
    queues: BTreeSet<String>,
    pools: BTreeMap<String, usize>,
    handlers: HashMap<String, Arc<dyn Handler<S>>>,
    layers: Vec<Arc<dyn Layer<S>>>,
    listeners: Vec<OnEvent>,
    slots: usize,
    claim_max: usize,
    lease: Option<Duration>,
    grace: Duration,
    still: Duration,
    poll: Duration,
    housekeeping: bool,
    jobs_max: Option<u64>,
    due_only: bool,
    breaker: Option<BreakerPolicy>,
    admission: Option<Arc<dyn Admission>>,
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
            state: Arc::new(()),
            queues: BTreeSet::new(),
            pools: BTreeMap::new(),
            handlers: HashMap::new(),
            layers: Vec::new(),
            listeners: Vec::new(),
            slots: SLOTS_DEFAULT,
            claim_max: 1_000,
            lease: None,
            grace: GRACE_DEFAULT,
            still: STILL_DEFAULT,
            poll: POLL_DEFAULT,
            housekeeping: true,
            jobs_max: None,
            due_only: false,
            breaker: None,
            admission: None,
        }
    }

    /// What the worker shares with the handlers that are said after it: a pool
    /// of connections, clients, settings. They get it by [`Context::state`](crate::Context::state).
    pub fn state<S: Send + Sync + 'static>(self, state: S) -> Worker<S> {
        let Self { source, store, world, name, state: _, queues, pools, handlers, layers, .. } = self;
        let handlers = handlers.into_iter().map(|(kind, handler)| {
            let handler: Arc<dyn Handler<S>> = Arc::new(Stateless(handler));
            (kind, handler)
        });
        let layers = layers.into_iter().map(|layer| {
            let layer: Arc<dyn Layer<S>> = Arc::new(StatelessLayer(layer));
            layer
        });
        Worker {
            source,
            store,
            world,
            name,
            state: Arc::new(state),
            queues,
            pools,
            handlers: handlers.collect(),
            layers: layers.collect(),
            listeners: self.listeners,
            slots: self.slots,
            claim_max: self.claim_max,
            lease: self.lease,
            grace: self.grace,
            still: self.still,
            poll: self.poll,
            housekeeping: self.housekeeping,
            jobs_max: self.jobs_max,
            due_only: self.due_only,
            breaker: self.breaker,
            admission: self.admission,
        }
    }
}

impl<S: Send + Sync + 'static> Worker<S> {
    /// Runs the jobs of a type with an async function. The worker also claims
    /// from the queue of that type.
    pub fn handle<J, M, H>(mut self, function: H) -> Self
    where
        J: Job,
        M: 'static,
        H: AsyncHandler<J, S, M> + Send + Sync + 'static,
        H::Future: Future<Output: HandlerResult<J::Output>> + Send + 'static,
    {
        self.queues.insert(J::QUEUE.to_owned());
        self.handle_kind(J::KIND, AsyncFn(function, PhantomData))
    }

    /// Runs the jobs of a type with a blocking function, on a thread of its own.
    pub fn handle_blocking<J, M, H>(mut self, function: H) -> Self
    where
        J: Job,
        M: 'static,
        H: BlockingHandler<J, S, M> + Send + Sync + 'static,
        H::Returned: HandlerResult<J::Output>,
    {
        self.queues.insert(J::QUEUE.to_owned());
        self.handle_kind(J::KIND, BlockingFn(Arc::new(function), PhantomData))
    }

    /// Runs the jobs of a kind with a program, each in a process of its own.
    pub fn handle_command(self, kind: &str, command: Command) -> Self {
        self.handle_kind(kind, Stateless(Arc::new(CommandHandler::new(command))))
    }

    /// Runs the jobs of a kind with a handler. A kind has one handler; the last one stays.
    pub fn handle_kind(mut self, kind: &str, handler: impl Handler<S>) -> Self {
        self.handlers.insert(kind.to_owned(), Arc::new(handler));
        self
    }

    /// Stands around every attempt of this worker's handlers, whether they are
    /// said before it or after; the first layer that is said is the outermost.
    /// One of `Context` alone comes before [`Worker::state`], one of
    /// `Context<App>` after it, as handlers do.
    ///
    /// ```
    /// # use windlass_engine::{Context, Next, Worker};
    /// # fn doc(worker: Worker) -> Worker {
    /// worker.layer(async |ctx: Context, next: Next| {
    ///     let ended = next.run(ctx.clone()).await;
    ///     println!("{} has ended: {}", ctx.id(), ended.is_ok());
    ///     ended
    /// })
    /// # }
    /// ```
    pub fn layer(mut self, layer: impl Layer<S>) -> Self {
        self.layers.push(Arc::new(layer));
        self
    }

    /// Hears what the worker does: attempts that begin and end, leases that are
    /// lost. It is called from the worker's own threads and must return at once.
    pub fn on_event(mut self, hear: impl Fn(&WorkerEvent<'_>) + Send + Sync + 'static) -> Self {
        self.listeners.push(Arc::new(hear));
        self
    }

    /// Claims from a queue with slots of its own: at most so many of its jobs
    /// run here at once, beside those of all other queues.
    pub fn queue(mut self, queue: &str, slots: usize) -> Self {
        self.pools.insert(queue.to_owned(), slots);
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

    /// How long an attempt is held still while the store is away; then it is ended, and given back if the job is
    /// ours still. 10 minutes, unless it is said.
    pub fn still(mut self, still: Duration) -> Self {
        self.still = still;
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

    /// At most so many jobs, of all queues together: when they have ended, the
    /// worker ends. One that is tried again here counts again.
    pub fn jobs_max(mut self, jobs_max: u64) -> Self {
        self.jobs_max = Some(jobs_max);
        self
    }

    /// Ends when nothing may run any more, instead of waiting for work: what
    /// becomes due later, or is held back by a budget, is left for the next worker. For programs that a timer
    /// starts; [`Worker::run_until_idle`] waits for the ladder as well.
    pub fn due_only(mut self) -> Self {
        self.due_only = true;
        self
    }

    /// Leaves a kind alone for a while when all its attempts fail.
    pub fn breaker(mut self, policy: BreakerPolicy) -> Self {
        self.breaker = Some(policy);
        self
    }

    /// Asks before each claim whether there may be one: for what concerns all of the work, such as a provider that everything needs.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # use std::time::Duration;
    /// # use windlass_engine::{Admission, Admit, Worker, async_trait};
    /// struct Switch(AtomicBool);
    ///
    /// #[async_trait]
    /// impl Admission for Switch {
    ///     async fn admit(&self) -> Admit {
    ///         match self.0.load(Ordering::Relaxed) {
    ///             true => Admit::All,
    ///             false => Admit::Nothing { again_in: Duration::from_secs(1) },
    ///         }
    ///     }
    /// }
    /// # fn doc(worker: Worker, switch: Arc<Switch>) -> Worker {
    /// worker.admission(switch)
    /// # }
    /// ```
    pub fn admission(mut self, admission: Arc<dyn Admission>) -> Self {
        self.admission = Some(admission);
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
        self.start(shutdown, Until::Shutdown).await
    }

    /// Runs until `shutdown` is done.
    pub async fn run_until(
        self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Summary, WorkerError> {
        self.start(Box::pin(shutdown), Until::Shutdown).await
    }

    /// Runs until there is nothing to do: no job that could run, none running,
    /// none that becomes due by time alone.
    pub async fn run_until_idle(self) -> Result<Summary, WorkerError> {
        self.start(Box::pin(std::future::pending()), Until::Idle).await
    }

    async fn start(self, shutdown: Shutdown, until: Until) -> Result<Summary, WorkerError> {
        let settings = self.settings(if self.due_only { Until::NothingDue } else { until })?;
        let pools = self.pools()?;
        let handlers = self.layered_handlers()?;
        let Self { source, store, world, listeners, breaker, admission, .. } = self;
        let ambient = tokio::runtime::Handle::current();
        let parts =
            Parts { source, store, world, settings, handlers, listeners, breaker, admission, pools, ambient };
        run(parts, shutdown).await
    }

    /// The handlers as the engine knows them, with state and layers.
    fn layered_handlers(&self) -> Result<HashMap<Kind, Arc<dyn Handler>>, Invalid> {
        let layers: Arc<[Arc<dyn Layer<S>>]> = self.layers.clone().into();
        let handlers = self.handlers.iter().map(|(kind, handler)| {
            let handler = match layers.is_empty() {
                true => handler.clone(),
                false => Arc::new(Layered { layers: layers.clone(), handler: handler.clone() }),
            };
            let handler: Arc<dyn Handler> = Arc::new(WithState { state: self.state.clone(), handler });
            Ok((Kind::new(kind)?, handler))
        });
        handlers.collect()
    }

    /// Which queues share which slots: those with slots of their own, and all others.
    fn pools(&self) -> Result<Vec<Pool>, Invalid> {
        let mut pools = Vec::new();
        for (queue, slots) in &self.pools {
            pools.push(Pool::new(vec![QueueName::new(queue)?], *slots));
        }
        let shared = self.queues.iter().filter(|queue| !self.pools.contains_key(*queue));
        let mut shared: Vec<QueueName> = shared.map(QueueName::new).collect::<Result<_, _>>()?;
        if shared.is_empty() && pools.is_empty() {
            shared.push(QueueName::default());
        }
        if !shared.is_empty() {
            pools.push(Pool::new(shared, self.slots));
        }
        match pools.iter().any(|pool| pool.slots.total() == 0) {
            true => Err(Invalid::new("slots", "are 0; a worker needs at least one")),
            false => Ok(pools),
        }
    }

    fn settings(&self, until: Until) -> Result<Settings, Invalid> {
        let kinds: Result<Vec<Kind>, Invalid> = self.handlers.keys().map(Kind::new).collect();
        let mut kinds = kinds?;
        kinds.sort_unstable();
        if kinds.is_empty() {
            return Err(Invalid::new("handlers", "are missing: the worker knows no kind of job"));
        }
        if self.jobs_max == Some(0) {
            return Err(Invalid::new(
                "jobs_max",
                "is 0; a worker that ends before its first job needs no start",
            ));
        }
        let lease_ms = self.lease.map(|lease| u32::try_from(lease.as_millis()).unwrap_or(u32::MAX));
        if lease_ms.is_some_and(|ms| !LEASE_MS_RANGE.contains(&ms)) {
            return Err(Invalid::new("lease", "lies outside 100 ms to 1 day"));
        }
        Ok(Settings {
            name: WorkerName::new(self.name.clone().unwrap_or_else(|| made_up_name(&*self.world)))?,
            kinds,
            claim_max: self.claim_max.max(1),
            lease_ms,
            grace_ms: u64::try_from(self.grace.as_millis()).unwrap_or(u64::MAX / 4),
            still_ms_max: u64::try_from(self.still.as_millis()).unwrap_or(u64::MAX / 4),
            poll_ms_max: u64::try_from(self.poll.as_millis()).unwrap_or(u64::MAX / 4).max(1),
            housekeeping: self.housekeeping,
            until,
            jobs_max: self.jobs_max,
        })
    }
}

/// Runs the engine on a thread of its own. Boxed by a plain function, so that it is compiled here, once, and not again
/// in every crate that has a worker: the body of an `async fn` is compiled by whoever awaits it.
fn run(parts: Parts, shutdown: Shutdown) -> BoxFuture<'static, Result<Summary, WorkerError>> {
    Box::pin(async move {
        let in_place = parts.world.runs_in_place();
        let (engine, settled) = Engine::new(parts);
        if in_place {
            return Ok(engine.run(settled, shutdown).await?);
        }
        let (done, summary) = tokio::sync::oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("windlass-engine".into()).spawn(move || {
            let summary = runtime.block_on(engine.run(settled, shutdown));
            // Whoever started the worker may have gone.
            let _ = done.send(summary);
        })?;
        let summary = summary.await;
        Ok(summary.map_err(|_| std::io::Error::other("the engine's thread ended without a word"))??)
    })
}

/// Host, process and chance: no two workers have the same name.
fn made_up_name(world: &dyn World) -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}-{}-{:08x}", std::process::id(), world.chance() as u32)
}
