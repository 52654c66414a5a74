//! One call: a question in JSON, an answer in JSON, within a time and a size.

use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_rustls::rustls::crypto::ring::default_provider;
use url::Url;
use windlass_core::error::{Invalid, StoreError};

use crate::refusal::Refused;

/// No answer of a server is larger: a claim of many jobs with large payloads.
const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;
/// How long a connection that nobody uses is kept.
const IDLE: Duration = Duration::from_secs(20);

/// The way to one server.
pub(crate) struct Caller {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
    authorization: Option<HeaderValue>,
    agent: HeaderValue,
    call_time: Duration,
}

impl Caller {
    pub(crate) fn new(url: &str, token: Option<&str>, call_time: Duration) -> Result<Self, StoreError> {
        let url = Url::parse(url).map_err(|_| not_a_url())?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || url.query().is_some() {
            return Err(not_a_url().into());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Invalid::new("url", "has a user in it; the token goes into WINDLASS_TOKEN").into());
        }
        if token.is_some() && url.scheme() == "http" && !is_loopback(&url) {
            tracing::warn!("the token goes to the server unencrypted; use https beyond a private network");
        }
        let authorization = token.map(bearer).transpose()?;
        let base = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { client: client()?, base, authorization, agent: agent(), call_time })
    }

    /// A call whose answer is an object, or a refusal that the caller looks at.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<Result<T, Refused>, StoreError> {
        let call = async {
            let response = self.send(method, path, body).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
            let body = body.map_err(|_| cut())?.to_bytes();
            if !status.is_success() {
                return Ok(Err(Refused::read(status, &body)));
            }
            // 204 has no body; JSON has a word for that.
            let text: &[u8] = if body.is_empty() { b"null" } else { &body };
            serde_json::from_slice(text).map(Ok).map_err(|error| unreadable(&error))
        };
        let late = || StoreError::Unavailable("the server did not answer in time".to_owned());
        tokio::time::timeout(self.call_time, call).await.map_err(|_| late())?
    }

    /// A call whose refusal is an error.
    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, StoreError> {
        Ok(self.ask(Method::GET, path, NOTHING).await??)
    }

    /// A call whose refusal is an error.
    pub(crate) async fn send_json<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<T, StoreError> {
        Ok(self.ask(method, path, Some(body)).await??)
    }

    /// A stream that does not end by itself.
    pub(crate) async fn stream(&self, path: &str) -> Result<Incoming, StoreError> {
        let opening = self.send(Method::GET, path, NOTHING);
        let response = tokio::time::timeout(self.call_time, opening).await.map_err(|_| cut())??;
        match response.status().is_success() {
            true => Ok(response.into_body()),
            false => Err(Refused::read(response.status(), &[]).into()),
        }
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&(impl Serialize + Sync)>,
    ) -> Result<Response<Incoming>, StoreError> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.base));
        request = request.header(USER_AGENT, &self.agent);
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let text = body.map(serde_json::to_vec).transpose().map_err(|error| unreadable(&error))?;
        if text.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::from(text.unwrap_or_default())).map_err(|_| not_a_url())?;
        self.client.request(request).await.map_err(|error| unreachable(&self.base, &error))
    }
}

/// A call without a body.
pub(crate) const NOTHING: Option<&()> = None;

/// A name as a part of a path.
pub(crate) fn part(name: &str) -> impl std::fmt::Display {
    utf8_percent_encode(name, NON_ALPHANUMERIC)
}

fn client() -> Result<Client<HttpsConnector<HttpConnector>, Full<Bytes>>, StoreError> {
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(default_provider())
        .map_err(|error| StoreError::Unavailable(format!("no root certificates on this machine: {error}")))?
        .https_or_http()
        .enable_http1()
        .build();
    Ok(Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE).build(connector))
}

fn bearer(token: &str) -> Result<HeaderValue, Invalid> {
    let value = HeaderValue::try_from(format!("Bearer {token}"));
    let mut value = value.map_err(|_| Invalid::new("token", "holds characters that no header may hold"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The server shows with what a worker works, and on which machine.
fn agent() -> HeaderValue {
    const PRODUCT: &str = concat!("windlass/", env!("CARGO_PKG_VERSION"));
    let uname = rustix::system::uname();
    let fits = |c: &char| c.is_ascii_alphanumeric() || "._:-".contains(*c);
    let host: String = uname.nodename().to_string_lossy().chars().filter(fits).collect();
    HeaderValue::try_from(format!("{PRODUCT} ({host})")).unwrap_or(HeaderValue::from_static(PRODUCT))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

fn not_a_url() -> Invalid {
    Invalid::new("url", "is not the address of a server, such as http://127.0.0.1:7717")
}

fn unreachable(base: &str, error: &hyper_util::client::legacy::Error) -> StoreError {
    match error.is_connect() {
        true => StoreError::Unreachable(format!("no server answers at {base}; `windlass serve` starts one")),
        false => StoreError::Unavailable(format!("the connection to {base} broke")),
    }
}

fn cut() -> StoreError {
    StoreError::Unavailable("the answer of the server was cut off".to_owned())
}

/// The words of the JSON parser name a place, never a value.
fn unreadable(error: &serde_json::Error) -> StoreError {
    StoreError::Unavailable(format!(
        "the server's answer cannot be read ({error}); is it of another version?"
    ))
}
