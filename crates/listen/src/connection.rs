//! One connection, with the limits that hyper does not set by itself.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::io::{GuardedIo, Marks};
use crate::serve::House;

/// Serves a connection in a task of its own, if there is a seat for it.
pub(crate) fn open<A, F, B>(
    house: &House,
    answer: &A,
    stream: TcpStream,
    peer: IpAddr,
    connections: &mut JoinSet<()>,
) where
    A: Fn(Request<Incoming>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<B>> + Send + 'static,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let Some(seat) = house.seats.take(peer, &house.limits) else {
        // The buffer of a fresh connection has room for these few bytes.
        let _ = stream.try_write(house.crowded);
        return;
    };
    // Small answers go out at once.
    let _ = stream.set_nodelay(true);
    let (house, answer) = (house.clone(), answer.clone());
    connections.spawn(async move {
        let _seat = seat;
        run(house, answer, stream).await;
    });
}

async fn run<A, F, B>(house: House, answer: A, stream: TcpStream)
where
    A: Fn(Request<Incoming>) -> F + Send + Sync,
    F: Future<Output = Response<B>> + Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let limits = house.limits;
    let marks = Arc::new(Marks::default());
    let io =
        GuardedIo::new(stream, house.world.clone(), marks.clone(), limits.header_ms, limits.write_stall_ms);
    let mut stop = house.stop.subscribe();
    let service = service_fn(|request: Request<Incoming>| {
        let busy = marks.begin();
        let answered = answer(request);
        async move {
            let response = answered.await;
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
