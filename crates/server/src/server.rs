//! The server: accepts connections, lets requests in, answers them, and ends
//! without leaving anybody in the middle of a sentence.

mod connection;
mod router;

use std::future::Future;
use std::io;
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use windlass::Housekeeper;
use windlass::core::store::Store;
use windlass::world::{RealWorld, World};

use crate::api::Api;
use crate::feed;
use crate::settings::Settings;

/// How long to wait when the system has no room for another connection.
const CROWDED_MS: u64 = 100;

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
}

/// Serves until `shutdown`: then no connection is accepted any more, long
/// polls and streams end, and requests that are being worked on are given
/// [`Limits::shutdown_ms`](crate::Limits::shutdown_ms).
pub async fn serve(
    listener: TcpListener,
    shutdown: impl Future<Output = ()> + Send,
    server: Server,
) -> io::Result<()> {
    let addr = listener.local_addr()?;
    let Server { api, router } = server;
    api.settings.check(addr).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut tasks = JoinSet::new();
    tasks.spawn(feed::run(api.clone()));
    if !api.settings.no_housekeeping {
        let housekeeper = Housekeeper::new(api.store.clone()).in_world(api.world.clone());
        tasks.spawn(async move { housekeeper.run().await });
    }
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => connection::open(&api, &router, stream, peer.ip(), addr.port(), &mut connections),
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection; trying again");
                    api.world.sleep_ms(CROWDED_MS).await;
                }
            },
            Some(_) = connections.join_next() => {}
            () = &mut shutdown => break,
        }
    }
    drop(listener);
    api.stop.send_replace(true);
    tokio::select! {
        () = async { while connections.join_next().await.is_some() {} } => {}
        () = api.world.sleep_ms(api.settings.limits.shutdown_ms) => {
            tracing::warn!(open = connections.len(), "connections that would not end are cut off");
        }
    }
    connections.shutdown().await;
    tasks.shutdown().await;
    Ok(())
}
