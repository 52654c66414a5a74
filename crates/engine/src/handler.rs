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
#[diagnostic::on_unimplemented(
    message = "this function cannot handle `{J}` in a worker whose state is `{S}`",
    label = "expected `async fn({J}, Context<{S}>) -> Result<<{J} as Job>::Output, Failure>`",
    note = "the first argument is the job, the second its context: `Context` alone, or `Context<App>` after `.state(app)`",
    note = "`?` turns any error into a `Failure`; end with `Ok(output)`, where the output is the job's `type Output`"
)]
pub trait AsyncHandler<J: Job, S>: Send + Sync + 'static {
    /// Runs one attempt.
    fn call(
        &self,
        job: J,
        context: Context<S>,
    ) -> impl Future<Output = Result<J::Output, Failure>> + Send + 'static;
}

impl<J, S, F, Fut> AsyncHandler<J, S> for F
where
    J: Job,
    F: Fn(J, Context<S>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<J::Output, Failure>> + Send + 'static,
{
    fn call(
        &self,
        job: J,
        context: Context<S>,
    ) -> impl Future<Output = Result<J::Output, Failure>> + Send + 'static {
        self(job, context)
    }
}

/// An async function as a handler.
pub(crate) struct AsyncFn<J, F>(pub(crate) F, pub(crate) PhantomData<fn(J)>);

#[async_trait]
impl<J, S, F> Handler<S> for AsyncFn<J, F>
where
    J: Job,
    S: Send + Sync + 'static,
    F: AsyncHandler<J, S>,
{
    async fn run(&self, context: Context<S>) -> Result<Option<Json>, Failure> {
        let job = context.payload_as()?;
        let value = self.0.call(job, context).await?;
        result(&value)
    }
}

/// A blocking function as a handler, on a thread of its own.
pub(crate) struct BlockingFn<J, F>(pub(crate) Arc<F>, pub(crate) PhantomData<fn(J)>);

#[async_trait]
impl<J, S, F> Handler<S> for BlockingFn<J, F>
where
    J: Job,
    S: Send + Sync + 'static,
    F: Fn(J, Context<S>) -> Result<J::Output, Failure> + Send + Sync + 'static,
{
    async fn run(&self, context: Context<S>) -> Result<Option<Json>, Failure> {
        let job = context.payload_as()?;
        let function = self.0.clone();
        // The thread goes on when this future is dropped, and keeps its slot so long.
        let ran = tokio::task::spawn_blocking(move || {
            let _until_it_ends = context.clone();
            function(job, context)
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

/// What is inside a layer: the next layer, or the handler.
pub struct Next<S = ()> {
    layers: Arc<[Arc<dyn Layer<S>>]>,
    at: usize,
    handler: Arc<dyn Handler<S>>,
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
