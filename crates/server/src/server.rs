//! The server: accepts connections, lets requests in, answers them, and ends
//! without leaving anybody in the middle of a sentence.

mod router;

use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use futures::future::BoxFuture;
use http::Request;
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use windlass_engine::Housekeeper;
use windlass_engine::core::store::Store;
use windlass_engine::world::{RealWorld, World};
use windlass_listen::House;

use crate::api::{Api, actions};
use crate::feed;
use crate::sample::Sample;
use crate::settings::Settings;

/// Said to those for whom there is no seat, without reading what they want.
const CROWDED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 89\r\n\r\n\
    {\"error\":{\"code\":\"busy\",\"message\":\"too many connections at once; ask again in a second\"}}";

/// A server that can be served. It asks its store about everything and keeps
/// nothing of its own that matters.
pub struct Server {
    api: Arc<Api>,
    router: Router,
}

impl Server {
    /// A server of `store`.
    pub fn new(store: Arc<dyn Store>, settings: Settings) -> Self {
        Self::in_world(store, settings, Arc::new(RealWorld::new()))
    }

    /// A server in a world of its own, for tests.
    pub fn in_world(store: Arc<dyn Store>, settings: Settings, world: Arc<dyn World>) -> Self {
        let api = Arc::new(Api::new(store, settings, world));
        let router = router::build(&api);
        Self { api, router }
    }

    /// Offers a sample to whoever finds the store empty. Only the first counts.
    pub fn sample(self, sample: Sample) -> Self {
        // A second one is dropped.
        let _ = self.api.sample.set(sample);
        self
    }
}

/// Serves until `shutdown`: then no connection is accepted any more, long
/// polls and streams end, and requests that are being worked on are given
/// [`Limits::shutdown_ms`](crate::Limits::shutdown_ms).
pub fn serve<'s>(
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send + 's,
    server: Server,
) -> BoxFuture<'s, io::Result<()>> {
    served(listener, Box::pin(shutdown), server)
}

/// Not generic, so that all of the server is compiled here and not by whoever serves it.
fn served(
    listener: TcpListener,
    shutdown: BoxFuture<'_, ()>,
    server: Server,
) -> BoxFuture<'_, io::Result<()>> {
    Box::pin(serve_until(listener, shutdown, server))
}

async fn serve_until(listener: TcpListener, shutdown: BoxFuture<'_, ()>, server: Server) -> io::Result<()> {
    let addr = listener.local_addr()?;
    let Server { api, router } = server;
    api.settings.check(addr).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut tasks = JoinSet::new();
    tasks.spawn(feed::run(api.clone()));
    tasks.spawn(feed::keep(api.clone()));
    tasks.spawn(actions::write_down(api.clone()));
    let ending = api.clone();
    let opened = Arc::new(Notify::new());
    if !api.settings.no_housekeeping {
        let housekeeper = Housekeeper::new(api.store.clone()).in_world(api.world.clone());
        let opened = opened.clone();
        tasks.spawn(async move {
            // Nothing is taken back before remote workers can come in and renew.
            opened.notified().await;
            housekeeper.run().await;
        });
    }
    let house = House {
        world: api.world.clone(),
        limits: api.settings.limits.of_connections(),
        seats: api.seats.clone(),
        stop: api.stop.clone(),
        crowded: CROWDED,
    };
    let port = addr.port();
    let answer = move |request: Request<Incoming>| {
        let (api, router) = (api.clone(), router.clone());
        async move { router::enter(&api, router, port, request.map(Body::new)).await }
    };
    opened.notify_one();
    windlass_listen::serve(listener, shutdown, house, answer).await;
    tasks.shutdown().await;
    actions::write_rest(&ending).await;
    feed::keep_rest(&ending).await;
    Ok(())
}
