//! A small HTTP server with limits, for the webhook and for metrics.
//!
//! One request a connection, everything bounded: connections, header time,
//! body size, total time. It knows no routes; that is its service's business.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

const CONNECTIONS_MAX: usize = 256;
const HEADER_TIME: Duration = Duration::from_secs(5);
const REQUEST_TIME: Duration = Duration::from_secs(14);
const END_TIME: Duration = Duration::from_secs(5);
const HEADER_BYTES_MAX: usize = 16 * 1024;
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;

/// A request, read whole.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: &'static str,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn new(status: StatusCode, content_type: &'static str, body: impl Into<String>) -> Self {
        Self { status, content_type, body: body.into() }
    }

    pub(crate) fn text(status: StatusCode, body: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", format!("{body}\n"))
    }

    fn into_response(self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(Bytes::from(self.body)));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        response
    }
}

/// Who answers.
#[async_trait]
pub(crate) trait Service: Send + Sync + 'static {
    async fn answer(&self, asked: Asked) -> Answer;
}

/// Serves until `shutdown` is done, and then ends what it has begun.
pub(crate) async fn serve<S: Service>(
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
    service: Arc<S>,
) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    tokio::pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => break,
            accepted = listener.accept() => {
                // Without a seat the caller is hung up on at once; it asks again.
                if let (Ok((tcp, _)), Ok(seat)) = (accepted, seats.clone().try_acquire_owned()) {
                    let service = service.clone();
                    connections.spawn(async move {
                        connection(tcp, service).await;
                        drop(seat);
                    });
                }
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    let rest = async { while connections.join_next().await.is_some() {} };
    // What has not ended by then is ended.
    let _ = timeout(END_TIME, rest).await;
}

async fn connection<S: Service>(tcp: TcpStream, service: Arc<S>) {
    let answer = service_fn(|request| respond(request, service.clone()));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(HEADER_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(tcp), answer);
    if let Ok(Err(error)) = timeout(REQUEST_TIME + HEADER_TIME, connection).await {
        tracing::debug!(%error, "a connection ended early");
    }
}

async fn respond<S: Service>(
    request: http::Request<Incoming>,
    service: Arc<S>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let read = timeout(REQUEST_TIME, Limited::new(body, BODY_BYTES_MAX).collect()).await;
    let answer = match read {
        Ok(Ok(body)) => {
            let asked =
                Asked { method: head.method, uri: head.uri, headers: head.headers, body: body.to_bytes() };
            service.answer(asked).await
        }
        Ok(Err(_)) => Answer::text(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large, or broke off"),
        Err(_) => Answer::text(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
    };
    Ok(answer.into_response())
}
