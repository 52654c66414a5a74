//! The one HTTP client for everything that goes out.
//!
//! Each call has a deadline for the whole exchange, a limit of decoded bytes
//! and a limit of redirects, which are followed by hand so that the guard sees
//! every hop. Credentials are given for one origin and reach no other. A proxy
//! is used when the caller gives one, and then for addresses that the operator
//! chose: see [`Proxies`].
//!
//! It does not retry, keeps no cookies, caches nothing and speaks HTTP/1.1 only.

mod address;
mod connect;
mod decode;
mod error;
mod exchange;
mod guard;
mod origin;
mod proxy;
mod request;
mod response;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, LOCATION, PROXY_AUTHORIZATION,
    USER_AGENT,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;
use url::Url;

pub use address::is_public;
pub use connect::{Resolve, SystemResolver};
pub use error::{HttpError, Refusal};
pub use guard::{Guard, parse_url};
pub use origin::Origin;
pub use proxy::{BadProxy, Proxies, origins};
pub use request::{Body, Credentials, Limits, Request};
pub use response::Response;

pub(crate) use error::status_is_transient;
pub(crate) use origin::Base;

use connect::Connector;
use decode::{Decoder, Encoding};
use request::Accepts;
use response::Deadline;
use tls::Tls;

/// Who we say we are, unless the caller says otherwise.
const AGENT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));
/// No call takes longer, whatever its limits say.
const TOTAL_MAX: Duration = Duration::from_secs(3600);
/// How long a connection that is not used is kept.
const IDLE: Duration = Duration::from_secs(30);
const IDLE_PER_HOST_MAX: usize = 64;
const HEAD_BYTES_MAX: usize = 64 * 1024;
const PROXY_AUTHENTICATION_REQUIRED: StatusCode = StatusCode::PROXY_AUTHENTICATION_REQUIRED;

/// The client. Clones share their connections.
#[derive(Clone)]
pub struct Http {
    client: Client<Connector, UnsyncBoxBody<Bytes, std::io::Error>>,
    guard: Arc<Guard>,
    proxies: Arc<Proxies>,
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { client: _, guard, proxies } = self;
        f.debug_struct("Http").field("guard", guard).field("proxies", proxies).finish_non_exhaustive()
    }
}

impl Http {
    /// A client behind a guard.
    pub fn new(guard: Guard) -> Self {
        Self::through(guard, Proxies::default())
    }

    /// A client behind a guard that reaches providers through proxies.
    pub fn through(guard: Guard, proxies: Proxies) -> Self {
        Self::build(guard, proxies, Arc::new(SystemResolver), Vec::new())
    }

    /// A client with a resolver and root certificates (DER) of its own, beside the machine's.
    pub fn build(
        guard: Guard,
        proxies: Proxies,
        resolver: Arc<dyn Resolve>,
        extra_roots: Vec<Vec<u8>>,
    ) -> Self {
        let (guard, proxies) = (Arc::new(guard), Arc::new(proxies));
        let tls = Tls::new(extra_roots);
        let connector = Connector { guard: guard.clone(), proxies: proxies.clone(), resolver, tls };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(connector);
        Self { client, guard, proxies }
    }

    /// Makes a call. The answer's head is there when this returns; its body is
    /// read within the same deadline. A status that is no success is an answer
    /// too: see [`Response::ok`].
    ///
    /// Boxed here, so that hyper, TLS and all that is compiled once and not again in every crate that calls somebody.
    pub fn send(&self, request: Request) -> BoxFuture<'_, Result<Response, HttpError>> {
        Box::pin(self.answered(request))
    }

    async fn answered(&self, request: Request) -> Result<Response, HttpError> {
        let origin = self.guard.check(&request.url)?;
        let total = request.limits.total.min(TOTAL_MAX);
        let deadline = Deadline { at: Instant::now() + total, total };
        let answer = deadline.within(&origin, self.follow(request, deadline)).await;
        match &answer {
            Ok(answer) => tracing::debug!(origin = %answer.origin, status = answer.status, "call answered"),
            Err(error) => tracing::debug!(%origin, code = error.code(), "call failed"),
        }
        answer
    }

    async fn follow(&self, request: Request, deadline: Deadline) -> Result<Response, HttpError> {
        let Request { method, mut url, headers, body, mut credentials, limits, accepts, follows: wanted } =
            request;
        let follows = method == Method::GET || method == Method::HEAD;
        let private = credentials.is_some();
        let mut body = Some(body);
        let mut hops = 0;
        loop {
            let origin = self.guard.check(&url)?;
            let mut head = http::Request::builder().method(method.clone()).uri(uri(&url)?);
            let fields = head.headers_mut().ok_or(Refusal::NotAUrl)?;
            *fields = self.fields(&headers, &origin, credentials.as_ref(), accepts)?;
            // Without TLS the proxy reads the request, and what it wants to know is part of it.
            let proxy = self.proxies.on_the_way(&origin, &self.guard).filter(|_| !origin.is_https());
            if let Some(credentials) = proxy.and_then(|proxy| proxy.credentials.clone()) {
                fields.insert(PROXY_AUTHORIZATION, credentials);
            }
            let content = body.take().unwrap_or_else(Body::empty);
            if content.bytes > 0 || !follows {
                fields.insert(CONTENT_LENGTH, HeaderValue::from(content.bytes));
            }
            let request = head.body(content.inner).map_err(|_| Refusal::NotAUrl)?;
            let answer = self.client.request(request).await;
            let answer = answer.map_err(|error| exchange::failure(&origin, &error))?;
            if let Some(proxy) = proxy.filter(|_| answer.status() == PROXY_AUTHENTICATION_REQUIRED) {
                return Err(proxy.refused(&origin, answer.status().as_u16()));
            }
            if !wanted || !is_redirect(answer.status().as_u16()) {
                return open(origin, answer, deadline, limits, (method != Method::HEAD).then_some(accepts));
            }
            let next = target(&origin, &url, &answer, follows)?;
            if hops == limits.hops_max {
                return Err(HttpError::TooManyRedirects { origin, hops_max: limits.hops_max });
            }
            hops += 1;
            let to = self.guard.check(&next)?;
            if to != origin {
                // For good: a way back to where they belong would be chosen by a stranger.
                credentials = None;
            }
            if private && origin.is_https() && !to.is_https() {
                return Err(Refusal::Plain(to).into());
            }
            url = next;
        }
    }

    fn fields(
        &self,
        headers: &HeaderMap,
        origin: &Origin,
        credentials: Option<&Credentials>,
        accepts: Accepts,
    ) -> Result<HeaderMap, Refusal> {
        let mut fields = headers.clone();
        fields.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
        fields.insert(ACCEPT_ENCODING, HeaderValue::from_static(accepts.header()));
        if let Some(Credentials { origin: meant, header }) = credentials {
            if meant != origin {
                return Err(Refusal::Credentials { meant: meant.clone(), asked: origin.clone() });
            }
            if !origin.is_https() && !self.guard.is_allowed(origin) {
                return Err(Refusal::Plain(origin.clone()));
            }
            fields.insert(AUTHORIZATION, header.clone());
        }
        Ok(fields)
    }
}

fn uri(url: &Url) -> Result<http::Uri, Refusal> {
    let mut url = url.clone();
    url.set_fragment(None);
    url.as_str().parse().map_err(|_| Refusal::NotAUrl)
}

fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

fn target(
    origin: &Origin,
    url: &Url,
    answer: &http::Response<Incoming>,
    follows: bool,
) -> Result<Url, HttpError> {
    let bad = || HttpError::BadRedirect { origin: origin.clone(), status: answer.status().as_u16() };
    if !follows {
        return Err(bad());
    }
    let location = answer.headers().get(LOCATION).and_then(|value| value.to_str().ok()).ok_or_else(bad)?;
    url.join(location).map_err(|_| bad())
}

/// Opens an answer; without `accepts` it has no body, whatever its head says.
fn open(
    origin: Origin,
    answer: http::Response<Incoming>,
    deadline: Deadline,
    limits: Limits,
    accepts: Option<Accepts>,
) -> Result<Response, HttpError> {
    let (head, body) = answer.into_parts();
    let said = head.headers.get(CONTENT_ENCODING).map_or(&b""[..], HeaderValue::as_bytes);
    let encoding = match accepts {
        None => Some(Encoding::Identity),
        Some(accepts) => Encoding::named(said).filter(|encoding| encoding.is_within(accepts)),
    };
    let Some(encoding) = encoding else {
        let why = "its body is encoded in a way that was not asked for";
        return Err(HttpError::Garbled { origin, why });
    };
    let bytes_max = limits.bytes_max;
    let response = Response {
        origin,
        status: head.status.as_u16(),
        headers: head.headers,
        body,
        decoder: Decoder::new(encoding, bytes_max),
        deadline,
        bytes_max,
        ended: false,
    };
    // What says that it is too large is not read at all.
    let is_plain = encoding == Encoding::Identity && accepts.is_some();
    if is_plain && response.declared_bytes().is_some_and(|bytes| bytes > bytes_max) {
        return Err(HttpError::TooLarge { origin: response.origin, bytes_max });
    }
    Ok(response)
}
