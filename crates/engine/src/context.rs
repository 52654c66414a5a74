//! What a handler gets: its job, its steps, and a line to the outside.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::{JoinError, JoinSet};
use tracing::Instrument;
use windlass_core::error::StoreError;
use windlass_core::holding::May;
use windlass_core::id::{BudgetName, JobId, StepName};
use windlass_core::job::Job;
use windlass_core::json::{Json, PROGRESS_BYTES_MAX, STEP_BYTES_MAX};
use windlass_core::store::{LeaseRef, ProgressWrite, Source, Spent, StepWrite, Store, Written};
use windlass_core::trace::TraceParent;

use crate::failure::Failure;
use crate::run_log::RunLog;
use crate::signal::{Attempt, Brake, Signal, Stop, look_ms};
use crate::slots::Slot;
use crate::world::{World, half_jittered};

/// The context of one attempt; `S` is the state that the worker shares with its
/// handlers. Cheap to clone; the attempt keeps its slot until the last clone is
/// gone.
///
/// # Whether to stop
///
/// A handler is told to stop by a cancel, a shutdown, a timeout or a lost lease.
/// Steps, [`Context::spend`] and [`Context::sleep`] ask by themselves; a handler
/// of those needs nothing else. Others ask in one of three ways:
///
/// | where | ask | gives |
/// |---|---|---|
/// | in a loop, and before what cannot be taken back | [`ctx.go_on().await?`](Context::go_on) | the failure to end with; waits while the store is away |
/// | beside something that waits, in `select!` | [`ctx.stopping().await`](Context::stopping), or [`canceled`](Context::canceled) for a cancel alone | [`Stop`], as soon as it is said |
/// | in code that cannot wait | [`ctx.stop()`](Context::stop) | `Option<Stop>`, at once |
///
/// A blocking handler asks by `ctx.wait(ctx.go_on())?`.
pub struct Context<S = ()> {
    inner: Arc<Inner>,
    state: Arc<S>,
}

struct Inner {
    job: Job,
    source: Arc<dyn Source>,
    world: Arc<dyn World>,
    attempt: Arc<Attempt>,
    steps: Mutex<HashMap<StepName, Json>>,
    grace_ms: u64,
    log: RunLog,
    _slot: Slot,
}

/// Where an attempt comes from, and goes back to.
pub(crate) struct Home {
    pub(crate) source: Arc<dyn Source>,
    /// The same, when it is a store: it keeps what the attempt says.
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) world: Arc<dyn World>,
}

impl Context {
    pub(crate) fn new(mut job: Job, home: Home, attempt: Arc<Attempt>, grace_ms: u64, slot: Slot) -> Self {
        let Home { source, store, world } = home;
        let log = RunLog::new(attempt.lease, store);
        let steps = std::mem::take(&mut job.steps);
        let steps = steps.into_iter().map(|step| (step.name, step.output)).collect();
        let steps = Mutex::new(steps);
        let inner = Inner { job, source, world, attempt, steps, grace_ms, log, _slot: slot };
        Self { inner: Arc::new(inner), state: Arc::new(()) }
    }

    pub(crate) fn with_state<S>(self, state: Arc<S>) -> Context<S> {
        Context { inner: self.inner, state }
    }
}

impl<S> Context<S> {
    /// What the worker shares with its handlers, as [`Worker::state`](crate::Worker::state) was given it.
    pub fn state(&self) -> &S {
        &self.state
    }

    pub(crate) fn shared_state(&self) -> Arc<S> {
        self.state.clone()
    }

    /// The same attempt, for what needs no state.
    pub fn without_state(&self) -> Context {
        Context { inner: self.inner.clone(), state: Arc::new(()) }
    }

    /// The job, as it was when it was claimed.
    pub fn job(&self) -> &Job {
        &self.inner.job
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.inner.job.id
    }

    /// The fence of this attempt: give it to whatever you write to that can
    /// refuse a smaller one after a larger.
    pub fn fence(&self) -> u64 {
        self.inner.job.fence
    }

    /// The span in which the job was enqueued, as the header `traceparent` of W3C Trace Context says it.
    pub fn traceparent(&self) -> Option<TraceParent> {
        TraceParent::of(self.inner.job.spec.meta.as_ref())
    }

    /// The lease of this attempt, for whatever is written under it.
    pub fn lease(&self) -> LeaseRef {
        self.inner.attempt.lease
    }

    /// Which attempt this is, counted from 1.
    pub fn attempt(&self) -> u32 {
        self.inner.job.attempt
    }

    /// The payload.
    pub fn payload(&self) -> &Json {
        &self.inner.job.spec.payload
    }

    /// The payload as a type. What cannot be read now will not be readable later: permanent.
    pub fn payload_as<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        self.payload()
            .read()
            .map_err(|error| Failure::permanent(format!("the payload does not fit: {error}")))
    }

    /// Runs a step, or gives what it gave when it was stored before.
    ///
    /// When this returns a value, the value is durable: a later attempt gets it
    /// and does not run the step again.
    pub async fn step<T, F, Fut>(&self, name: &str, work: F) -> Result<T, Failure>
    where
        T: Serialize + DeserializeOwned,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, Failure>>,
    {
        let name = StepName::new(name)?;
        if let Some(output) = self.stored(&name) {
            return Ok(output.read()?);
        }
        self.go_on().await?;
        let span = tracing::info_span!("step", step = %name);
        let value = work().instrument(span).await?;
        let output = Json::from_value("the step's output", &value, STEP_BYTES_MAX)?;
        self.store_step(name, output).await?;
        Ok(value)
    }

    /// What a step gave, when it was stored.
    pub fn stored(&self, name: &StepName) -> Option<Json> {
        self.steps().get(name).cloned()
    }

    /// All stored steps.
    pub fn stored_steps(&self) -> HashMap<StepName, Json> {
        self.steps().clone()
    }

    /// Stores the output of a step.
    pub async fn store_step(&self, name: StepName, output: Json) -> Result<(), Failure> {
        let write = StepWrite { lease: self.lease(), name: name.clone(), output: output.clone() };
        let written = self.persist(|source| {
            let write = write.clone();
            async move { source.store_steps(vec![write]).await }
        });
        self.taken(written.await?)?;
        self.steps().insert(name, output);
        Ok(())
    }

    /// Says how far the handler is; shown to people. Anything that can be written as JSON.
    pub async fn progress<T: Serialize + ?Sized>(&self, progress: &T) -> Result<(), Failure> {
        let progress = Json::from_value("progress", progress, PROGRESS_BYTES_MAX)?;
        let write = ProgressWrite { lease: self.lease(), progress };
        let written = self.persist(|source| {
            let write = write.clone();
            async move { source.progress(vec![write]).await }
        });
        self.taken(written.await?)
    }

    /// Keeps a line for people who look at the job: the last 64 KiB of each of its newest attempts are kept, for a
    /// week, where the store keeps records. It returns at once; lines of the last eight seconds may be lost in a crash.
    pub fn log(&self, line: impl std::fmt::Display) {
        self.inner.log.push(&line.to_string());
    }

    pub(crate) fn run_log(&self) -> &RunLog {
        &self.inner.log
    }

    /// Spends `amount` of a budget, waiting until it allows that.
    pub async fn spend(&self, budget: &str, amount: u32) -> Result<(), Failure> {
        let budget = BudgetName::new(budget)?;
        loop {
            self.go_on().await?;
            let spent = self.persist(|source| {
                let budget = budget.clone();
                async move { source.spend(budget, amount).await }
            });
            match spent.await? {
                Spent::Granted => return Ok(()),
                Spent::Never => {
                    return Err(Failure::permanent(format!("budget {budget} never allows {amount} at once")));
                }
                Spent::Wait { in_ms } => self.sleep(Duration::from_millis(in_ms)).await?,
            }
        }
    }

    /// Lets a budget cool down (an upstream's Retry-After): no job that names
    /// it starts until then, on no machine.
    pub async fn cool_down(&self, budget: &str, for_: Duration) -> Result<(), Failure> {
        let budget = BudgetName::new(budget)?;
        // A provider that says "at once" speaks for one call, and ends no cool-down of others.
        let for_ms = u64::try_from(for_.as_millis()).unwrap_or(u64::MAX).max(1);
        self.persist(|source| {
            let budget = budget.clone();
            async move { source.cool_down(budget, for_ms).await }
        })
        .await
    }

    /// Waits until the job is asked to cancel.
    pub async fn canceled(&self) {
        self.stopped_by(|stop| stop == Stop::Cancel).await;
    }

    /// Why the handler should stop now, if it should: cancel, shutdown, timeout or a lost lease; also a lease that
    /// may be lost soon, since the store does not answer. (An async handler is held still then and does not see
    /// it; a blocking one is told so. It may wait by [`Context::go_on`] until the store has answered.)
    pub fn stop(&self) -> Option<Stop> {
        // Asked of the clock and not only of the lease keeper: a process that
        // stood still and wakes must not go on before the keeper has looked.
        if self.inner.attempt.warns(self.inner.world.boot_ms()) {
            return Some(Stop::LeaseLost);
        }
        self.told()
    }

    /// Fails with what the handler should end with, when it should: for loops, and before something that cannot be
    /// taken back. Waits until something new may be begun: while the store does not answer, and two thirds of the
    /// lease are over, nothing is. Steps and spending ask it themselves.
    ///
    /// ```
    /// # use windlass_engine::{Context, Failure};
    /// # async fn send(_: &str) {}
    /// async fn send_all(letters: Vec<String>, ctx: Context) -> Result<(), Failure> {
    ///     for letter in letters {
    ///         ctx.go_on().await?;
    ///         send(&letter).await;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub async fn go_on(&self) -> Result<(), Failure> {
        let Inner { attempt, world, .. } = &*self.inner;
        loop {
            if let Some(stop) = self.told() {
                return Err(self.failure(stop));
            }
            if attempt.may(world.boot_ms()) == May::Begin {
                return Ok(());
            }
            world.sleep_ms(look_ms(attempt.lease_ms)).await;
        }
    }

    fn told(&self) -> Option<Stop> {
        match self.inner.attempt.signal() {
            Signal::Go => None,
            Signal::Told(stop) | Signal::Halt(stop) => Some(stop),
        }
    }

    /// Waits until the handler should stop, and says why: for `select!`.
    pub async fn stopping(&self) -> Stop {
        self.stopped_by(|_| true).await
    }

    /// As [`Context::go_on`], at once: a lease that may be lost soon counts as lost.
    pub(crate) fn goes_on(&self) -> Result<(), Failure> {
        self.stop().map_or(Ok(()), |stop| Err(self.failure(stop)))
    }

    fn failure(&self, stop: Stop) -> Failure {
        match stop {
            Stop::Cancel => Failure::Canceled,
            Stop::Shutdown => Failure::Released,
            Stop::Timeout => Failure::retry(timed_out(self.inner.job.spec.timeout_ms)),
            Stop::LeaseLost => Failure::LeaseLost,
        }
    }

    /// Waits, unless the handler should stop.
    pub async fn sleep(&self, time: Duration) -> Result<(), Failure> {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        tokio::select! {
            biased;
            _ = self.stopping() => self.goes_on(),
            () = self.inner.world.sleep_ms(ms) => Ok(()),
        }
    }

    /// Waits for a future from a blocking handler.
    pub fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::runtime::Handle::current().block_on(future)
    }

    pub(crate) fn world(&self) -> &dyn World {
        &*self.inner.world
    }

    /// What to do with the program of this attempt when it is held still.
    pub(crate) fn set_brake(&self, brake: Option<Brake>) {
        self.inner.attempt.set_brake(brake);
    }

    pub(crate) fn chance(&self) -> u64 {
        self.inner.world.chance()
    }

    /// How long a handler that was told to stop is waited for.
    pub(crate) fn grace_ms(&self) -> u64 {
        self.inner.grace_ms
    }

    async fn stopped_by(&self, fits: impl Fn(Stop) -> bool) -> Stop {
        let told = self.inner.attempt.until(|signal| match signal {
            Signal::Go => false,
            Signal::Told(stop) | Signal::Halt(stop) => fits(stop),
        });
        told.await;
        match self.inner.attempt.signal() {
            Signal::Told(stop) | Signal::Halt(stop) => stop,
            // A signal only climbs.
            Signal::Go => Stop::LeaseLost,
        }
    }

    /// Asks the source until it answers.
    async fn persist<T, F, Fut>(&self, ask: F) -> Result<T, Failure>
    where
        F: Fn(Arc<dyn Source>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>> + Send + 'static,
        T: Send + 'static,
    {
        let answer = self.ask(|| ask(self.inner.source.clone())).await;
        Ok(answer.ok_or(Failure::LeaseLost)??)
    }

    /// Asks a store until it answers: as long as the lease is ours, a store
    /// that is away for a moment is no reason to fail the attempt. Nothing when the lease is lost.
    ///
    /// Each call is a task of its own: a handler that is held still is not polled, and a call that was not polled either
    /// would keep its connection, which may be the one that the renewal waits for that lets the handler go on.
    pub(crate) async fn ask<T, F, Fut>(&self, ask: F) -> Option<Result<T, StoreError>>
    where
        F: Fn() -> Fut,
        Fut: Future<Output = Result<T, StoreError>> + Send + 'static,
        T: Send + 'static,
    {
        let mut wait_ms = 50;
        while !self.inner.attempt.is_halted() {
            let mut call = JoinSet::new();
            call.spawn(ask().in_current_span());
            match call.join_next().await?.unwrap_or_else(|ended| Err(unanswered(ended))) {
                // One that is full is not away: whoever wrote has to hear of it.
                Err(error) if error.is_transient() && !matches!(error, StoreError::Full(_)) => {
                    tracing::warn!(job_id = %self.id(), code = error.code(), "the store did not take a write; trying again");
                }
                answer => return Some(answer),
            }
            self.inner.world.sleep_ms(half_jittered(&*self.inner.world, wait_ms)).await;
            wait_ms = (wait_ms * 2).min(2_000);
        }
        None
    }

    fn taken(&self, written: Vec<Written>) -> Result<(), Failure> {
        match written.first() {
            Some(Written::Done) => Ok(()),
            Some(Written::TooManySteps) => {
                Err(Failure::permanent("the job has stored as many steps as a job may"))
            }
            Some(Written::Lost) | None => Err(Failure::LeaseLost),
        }
    }

    fn steps(&self) -> std::sync::MutexGuard<'_, HashMap<StepName, Json>> {
        self.inner.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S> Clone for Context<S> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), state: self.state.clone() }
    }
}

/// A call that has panicked is a defect of the store, and one whose runtime has ended is not answered any more.
fn unanswered(ended: JoinError) -> StoreError {
    match ended.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(_) => StoreError::Unavailable("the program ends".to_owned()),
    }
}

/// The error text of an attempt that took too long.
pub(crate) fn timed_out(timeout_ms: Option<u64>) -> String {
    format!("timed out after {} ms", timeout_ms.unwrap_or_default())
}
