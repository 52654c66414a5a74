//! Listening for HTTP with what hyper leaves open: slow headers, slow bodies,
//! unread answers, too many connections. A server without these can be stopped
//! by one patient client.
//!
//! It knows no route, no error text and no token: whoever listens brings one
//! function from a request to its answer.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod limits;
mod serve;

mod body;
mod connection;
mod io;
pub mod origin;
mod refusals;
mod seats;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass_engine::world::World;

pub use body::{BodyError, BodyHold, BodyLimits, BodyPool, read_body};
pub use limits::Limits;
pub use refusals::{Refusals, TooMany};
pub use seats::{Seat, Seats};
pub use serve::{House, serve};

/// A wait that owns what it needs.
fn timer(world: &Arc<dyn World>, ms: u64) -> BoxFuture<'static, ()> {
    let world = world.clone();
    async move { world.sleep_ms(ms).await }.boxed()
}
