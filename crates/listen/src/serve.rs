//! Accepts connections until it is told to stop.

use std::future::Future;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_engine::world::World;

use crate::connection;
use crate::limits::Limits;
use crate::seats::Seats;

/// How long to wait when the system has no room for another connection.
const CROWDED_MS: u64 = 100;

/// What all connections share.
#[derive(Clone)]
pub struct House {
    /// Clocks and waiting.
    pub world: Arc<dyn World>,
    /// How much is too much.
    pub limits: Limits,
    /// The connections that there are.
    pub seats: Seats,
    /// Set when the house closes. Whoever answers slowly should watch it.
    pub stop: watch::Sender<bool>,
    /// The whole answer, head and body, to those for whom there is no seat.
    pub crowded: &'static [u8],
}

/// Serves until `shutdown`: then no connection is accepted any more, and
/// requests that are being worked on are given [`Limits::shutdown_ms`].
pub async fn serve<A, F, B>(
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
    house: House,
    answer: A,
) where
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => connection::open(&house, &answer, stream, peer.ip(), &mut connections),
                Err(error) => crowd(&house, &error).await,
            },
            Some(_) = connections.join_next() => {}
            () = &mut shutdown => break,
        }
    }
    drop(listener);
    house.stop.send_replace(true);
    tokio::select! {
        () = async { while connections.join_next().await.is_some() {} } => {}
        () = house.world.sleep_ms(house.limits.shutdown_ms) => {
            tracing::warn!(open = connections.len(), "connections that would not end are cut off");
        }
    }
    connections.shutdown().await;
}

async fn crowd(house: &House, error: &io::Error) {
    tracing::warn!(%error, "could not accept a connection; trying again");
    house.world.sleep_ms(CROWDED_MS).await;
}
