//! Handlers: what runs a job. An async function, a blocking function, a child
//! process; one behaviour.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use serde::Serialize;
use windlass_core::json::{Json, RESULT_BYTES_MAX};

use crate::context::Context;
use crate::failure::Failure;
use crate::payload::Payload;

/// Runs the jobs of a kind.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Runs one attempt. Dropping the future must stop the work.
    async fn run(&self, context: Context) -> Result<Option<Json>, Failure>;
}

/// An async function of payload and context.
pub(crate) struct AsyncFn<P, F>(pub(crate) F, pub(crate) PhantomData<fn(P)>);

#[async_trait]
impl<P, F, Fut, T> Handler for AsyncFn<P, F>
where
    P: Payload,
    F: Fn(P, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    T: Serialize + Send + 'static,
{
    async fn run(&self, context: Context) -> Result<Option<Json>, Failure> {
        let payload = context.payload_as()?;
        let value = (self.0)(payload, context).await?;
        result(&value)
    }
}

/// A blocking function of payload and context, on a thread of its own.
pub(crate) struct BlockingFn<P, F>(pub(crate) Arc<F>, pub(crate) PhantomData<fn(P)>);

#[async_trait]
impl<P, F, T> Handler for BlockingFn<P, F>
where
    P: Payload,
    F: Fn(P, Context) -> Result<T, Failure> + Send + Sync + 'static,
    T: Serialize + Send + 'static,
{
    async fn run(&self, context: Context) -> Result<Option<Json>, Failure> {
        let payload = context.payload_as()?;
        let function = self.0.clone();
        // The thread goes on when this future is dropped, and keeps its slot so long.
        let ran = tokio::task::spawn_blocking(move || {
            let _until_it_ends = context.clone();
            function(payload, context)
        })
        .await;
        match ran {
            Ok(value) => result(&value?),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(Failure::Released),
        }
    }
}

/// What a handler returned, as it is stored: nothing for `()`.
fn result<T: Serialize>(value: &T) -> Result<Option<Json>, Failure> {
    let json = Json::from_value("the result", value, RESULT_BYTES_MAX)?;
    Ok(Some(json).filter(|json| json.as_str() != "null"))
}
