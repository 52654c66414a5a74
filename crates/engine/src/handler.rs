//! Handlers: what runs a job. An async function, a blocking function, a child
//! process; one behaviour. Layers stand around them.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use windlass_core::json::{Json, RESULT_BYTES_MAX};

use crate::context::Context;
use crate::failure::Failure;
use crate::job::Job;

/// Runs the jobs of a kind; `S` is the state that the worker shares with its handlers.
#[async_trait]
pub trait Handler<S = ()>: Send + Sync + 'static {
    /// Runs one attempt. Dropping the future must stop the work.
    async fn run(&self, context: Context<S>) -> Result<Option<Json>, Failure>;
}

/// An async function of job and context.
///
/// ```
/// # use windlass_engine::{Context, Failure, Job};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = usize; }
/// async fn greet(job: Greet, _: Context) -> Result<usize, Failure> {
///     Ok(job.name.len())
/// }
/// ```
///
/// A closure is one, too, even while it is yet to be written:
///
/// ```
/// # use windlass_engine::{Context, Job, Worker};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = usize; }
/// # fn doc(worker: Worker) -> Worker {
/// worker.handle(async |_: Greet, _: Context| todo!())
/// # }
/// ```
///
/// `M` is found by the compiler; nobody writes it.
#[diagnostic::on_unimplemented(
    message = "this cannot handle jobs: a handler is `async fn(job, Context<{S}>) -> Result<output, Failure>`",
    label = "expected an `async fn` of a job and a `Context<{S}>`",
    note = "the first argument is the job, the second its context, and there is no third",
    note = "a handler of `Context<App>` comes after `.state(app)`, one of `Context` alone before it",
    note = "a function that is not `async` goes to `handle_blocking`"
)]
pub trait AsyncHandler<J, S, M> {
    /// One attempt.
    type Future: Future;

    /// Runs one attempt.
    fn call(&self, job: J, context: Context<S>) -> Self::Future;
}

impl<J, S, F, Fut> AsyncHandler<J, S, ByFunction> for F
where
    F: Fn(J, Context<S>) -> Fut,
    Fut: Future,
{
    type Future = Fut;

    fn call(&self, job: J, context: Context<S>) -> Fut {
        self(job, context)
    }
}

// With one impl alone the compiler takes it for meant, and speaks of what that impl lacks (`expected function that
// takes 2 arguments`). With two it says that the trait is not there, in the words above.
impl<J, S, F: Impossible> AsyncHandler<J, S, ByNothing> for F {
    type Future = std::future::Pending<()>;

    fn call(&self, _: J, _: Context<S>) -> Self::Future {
        std::future::pending()
    }
}

/// A blocking function of job and context.
///
/// `M` is found by the compiler; nobody writes it.
#[diagnostic::on_unimplemented(
    message = "this cannot handle jobs: a blocking handler is `fn(job, Context<{S}>) -> Result<output, Failure>`",
    label = "expected a `fn` of a job and a `Context<{S}>`",
    note = "the first argument is the job, the second its context, and there is no third",
    note = "a handler of `Context<App>` comes after `.state(app)`, one of `Context` alone before it"
)]
pub trait BlockingHandler<J, S, M> {
    /// What it returns.
    type Returned;

    /// Runs one attempt.
    fn call(&self, job: J, context: Context<S>) -> Self::Returned;
}

impl<J, S, F, R> BlockingHandler<J, S, ByFunction> for F
where
    F: Fn(J, Context<S>) -> R,
{
    type Returned = R;

    fn call(&self, job: J, context: Context<S>) -> R {
        self(job, context)
    }
}

// As of `AsyncHandler`.
impl<J, S, F: Impossible> BlockingHandler<J, S, ByNothing> for F {
    type Returned = ();

    fn call(&self, _: J, _: Context<S>) {}
}

/// How the compiler knows a handler by its form.
pub struct ByFunction;
/// The way that no handler goes.
pub struct ByNothing;
/// What nothing implements.
pub trait Impossible {}

/// What a handler returns for a job whose output is `O`: a `Result<O, Failure>`.
#[diagnostic::on_unimplemented(
    message = "this handler returns `{Self}`, and should return `Result<{O}, Failure>`",
    label = "expected a handler that returns `Result<{O}, Failure>`",
    note = "an `async fn` goes to `handle`, any other to `handle_blocking`",
    note = "`{O}` is what the job says it gives: `type Output` of its `impl Job`",
    note = "any error becomes a `Failure` by `?`: return `Result<{O}, Failure>`, and end with `Ok(…)`"
)]
pub trait HandlerResult<O> {
    /// As what it is.
    fn into_result(self) -> Result<O, Failure>;
}

impl<O> HandlerResult<O> for Result<O, Failure> {
    fn into_result(self) -> Self {
        self
    }
}

// A function that never returns (`todo!()`, a loop) can be any handler. Its type has no name of its own yet.
impl<O> HandlerResult<O> for <fn() -> ! as Returning>::Returned {
    fn into_result(self) -> Result<O, Failure> {
        self
    }
}

/// What a function returns, as a type.
pub trait Returning {
    /// That type.
    type Returned;
}

impl<R> Returning for fn() -> R {
    type Returned = R;
}

/// An async function as a handler.
pub(crate) struct AsyncFn<J, M, F>(pub(crate) F, pub(crate) PhantomData<fn(J, M)>);

#[async_trait]
impl<J, S, M, F> Handler<S> for AsyncFn<J, M, F>
where
    J: Job,
    S: Send + Sync + 'static,
    M: 'static,
    F: AsyncHandler<J, S, M> + Send + Sync + 'static,
    F::Future: Future<Output: HandlerResult<J::Output>> + Send + 'static,
{
    async fn run(&self, context: Context<S>) -> Result<Option<Json>, Failure> {
        let job = context.payload_as()?;
        let value = self.0.call(job, context).await.into_result()?;
        result(&value)
    }
}

/// A blocking function as a handler, on a thread of its own.
pub(crate) struct BlockingFn<J, M, F>(pub(crate) Arc<F>, pub(crate) PhantomData<fn(J, M)>);

#[async_trait]
impl<J, S, M, F> Handler<S> for BlockingFn<J, M, F>
where
    J: Job,
    S: Send + Sync + 'static,
    M: 'static,
    F: BlockingHandler<J, S, M, Returned: HandlerResult<J::Output>> + Send + Sync + 'static,
{
    async fn run(&self, context: Context<S>) -> Result<Option<Json>, Failure> {
        let job = context.payload_as()?;
        let function = self.0.clone();
        // The thread goes on when this future is dropped, and keeps its slot so long.
        let ran = tokio::task::spawn_blocking(move || {
            let _until_it_ends = context.clone();
            function.call(job, context).into_result()
        })
        .await;
        match ran {
            Ok(value) => result(&value?),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(Failure::Released),
        }
    }
}

/// A handler that needs no state, in a worker that has one.
pub(crate) struct Stateless(pub(crate) Arc<dyn Handler>);

#[async_trait]
impl<S: Send + Sync + 'static> Handler<S> for Stateless {
    async fn run(&self, context: Context<S>) -> Result<Option<Json>, Failure> {
        self.0.run(context.without_state()).await
    }
}

/// What stands around attempts: it may look at the context, run what is inside,
/// and look at how that ended. A function of context and [`Next`] is one.
#[async_trait]
pub trait Layer<S = ()>: Send + Sync + 'static {
    /// Runs one attempt, by [`Next::run`], or ends it here.
    async fn around(&self, context: Context<S>, next: Next<S>) -> Result<Option<Json>, Failure>;
}

#[async_trait]
impl<S, F, Fut> Layer<S> for F
where
    S: Send + Sync + 'static,
    F: Fn(Context<S>, Next<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Option<Json>, Failure>> + Send + 'static,
{
    async fn around(&self, context: Context<S>, next: Next<S>) -> Result<Option<Json>, Failure> {
        self(context, next).await
    }
}

/// A layer that needs no state, in a worker that has one.
pub(crate) struct StatelessLayer(pub(crate) Arc<dyn Layer>);

#[async_trait]
impl<S: Send + Sync + 'static> Layer<S> for StatelessLayer {
    async fn around(&self, context: Context<S>, next: Next<S>) -> Result<Option<Json>, Failure> {
        let without = context.without_state();
        let rest = Arc::new(Rest { state: context.shared_state(), next });
        self.0.around(without, Next { layers: Arc::new([]), at: 0, handler: rest }).await
    }
}

/// What is inside such a layer: the rest, with the state again.
struct Rest<S> {
    state: Arc<S>,
    next: Next<S>,
}

#[async_trait]
impl<S: Send + Sync + 'static> Handler for Rest<S> {
    async fn run(&self, context: Context) -> Result<Option<Json>, Failure> {
        self.next.clone().run(context.with_state(self.state.clone())).await
    }
}

/// What is inside a layer: the next layer, or the handler.
pub struct Next<S = ()> {
    layers: Arc<[Arc<dyn Layer<S>>]>,
    at: usize,
    handler: Arc<dyn Handler<S>>,
}

impl<S> Clone for Next<S> {
    fn clone(&self) -> Self {
        let Self { layers, at, handler } = self;
        Self { layers: layers.clone(), at: *at, handler: handler.clone() }
    }
}

impl<S: Send + Sync + 'static> Next<S> {
    /// Runs it.
    pub async fn run(self, context: Context<S>) -> Result<Option<Json>, Failure> {
        let Self { layers, at, handler } = self;
        match layers.get(at).cloned() {
            Some(layer) => layer.around(context, Self { layers, at: at + 1, handler }).await,
            None => handler.run(context).await,
        }
    }
}

/// A handler with layers around it.
pub(crate) struct Layered<S> {
    pub(crate) layers: Arc<[Arc<dyn Layer<S>>]>,
    pub(crate) handler: Arc<dyn Handler<S>>,
}

#[async_trait]
impl<S: Send + Sync + 'static> Handler<S> for Layered<S> {
    async fn run(&self, context: Context<S>) -> Result<Option<Json>, Failure> {
        Next { layers: self.layers.clone(), at: 0, handler: self.handler.clone() }.run(context).await
    }
}

/// A handler that is given the worker's state, so that the engine need not know it.
pub(crate) struct WithState<S> {
    pub(crate) state: Arc<S>,
    pub(crate) handler: Arc<dyn Handler<S>>,
}

#[async_trait]
impl<S: Send + Sync + 'static> Handler for WithState<S> {
    async fn run(&self, context: Context) -> Result<Option<Json>, Failure> {
        self.handler.run(context.with_state(self.state.clone())).await
    }
}

/// What a handler returned, as it is stored: nothing for `()`.
fn result<T: Serialize>(value: &T) -> Result<Option<Json>, Failure> {
    let json = Json::from_value("the result", value, RESULT_BYTES_MAX)?;
    Ok(Some(json).filter(|json| json.as_str() != "null"))
}
