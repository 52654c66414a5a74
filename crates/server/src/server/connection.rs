//! One connection, with the limits that hyper does not set by itself.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::router;
use crate::api::Api;
use crate::http_limits::{GuardedIo, Marks};

/// Said to those for whom there is no seat, without reading what they want.
const CROWDED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
    content-type: application/json\r\ncontent-length: 89\r\n\r\n\
    {\"error\":{\"code\":\"busy\",\"message\":\"too many connections at once; ask again in a second\"}}";

/// Serves a connection in a task of its own, if there is a seat for it.
pub(super) fn open(
    api: &Arc<Api>,
    router: &Router,
    stream: TcpStream,
    peer: IpAddr,
    port: u16,
    connections: &mut JoinSet<()>,
) {
    let Some(seat) = api.seats.take(peer, &api.settings.limits) else {
        // The buffer of a fresh connection has room for these few bytes.
        let _ = stream.try_write(CROWDED);
        return;
    };
    // Small answers go out at once.
    let _ = stream.set_nodelay(true);
    let (api, router) = (api.clone(), router.clone());
    connections.spawn(async move {
        let _seat = seat;
        run(api, router, stream, port).await;
    });
}

async fn run(api: Arc<Api>, router: Router, stream: TcpStream, port: u16) {
    let limits = api.settings.limits;
    let marks = Arc::new(Marks::default());
    let io =
        GuardedIo::new(stream, api.world.clone(), marks.clone(), limits.header_ms, limits.write_stall_ms);
    let mut stop = api.stop.subscribe();
    let service = service_fn(|request: Request<Incoming>| {
        let busy = marks.begin();
        let (api, router) = (api.clone(), router.clone());
        async move {
            let response = router::enter(&api, router, port, request.map(Body::new)).await;
            drop(busy);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_millis(limits.idle_ms))
        .max_buf_size(limits.header_bytes_max)
        .max_header_size(limits.header_bytes_max)
        .serve_connection(TokioIo::new(io), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = async { drop(stop.wait_for(|stop| *stop).await) } => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
