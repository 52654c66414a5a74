//! What hyper leaves open: slow headers, slow bodies, unread answers, too many
//! connections. A server without these can be stopped by one patient client.

mod body;
mod io;
mod seats;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use windlass::world::World;

pub(crate) use body::read_body;
pub(crate) use io::{GuardedIo, Marks};
pub(crate) use seats::Seats;

/// A wait that owns what it needs.
pub(crate) fn timer(world: &Arc<dyn World>, ms: u64) -> BoxFuture<'static, ()> {
    let world = world.clone();
    async move { world.sleep_ms(ms).await }.boxed()
}
