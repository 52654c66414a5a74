//! What is asked: the request, its body, its credentials and its limits.

use std::io;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, HOST, PROXY_AUTHORIZATION, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use url::Url;

use super::error::Refusal;
use super::origin::Origin;
use crate::secret::Secret;

/// How much time, how many bytes and how many hops a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// From the beginning of the connection to the last byte of the answer, over all hops.
    pub total: Duration,
    /// Bytes of the answer's body, after decoding.
    pub bytes_max: u64,
    /// Redirects that are followed.
    pub hops_max: u8,
}

impl Default for Limits {
    /// 10 s, 5 MB, 5 redirects.
    fn default() -> Self {
        Self { total: Duration::from_secs(10), bytes_max: 5_000_000, hops_max: 5 }
    }
}

/// Credentials and the one origin that they are for.
#[derive(Debug, Clone)]
pub struct Credentials {
    pub(super) origin: Origin,
    pub(super) header: HeaderValue,
}

impl Credentials {
    /// A bearer token for the host of `base`.
    pub fn bearer(base: &Url, token: &Secret<String>) -> Result<Self, Refusal> {
        Self::header(base, &format!("Bearer {}", token.expose()))
    }

    /// User name and password for the host of `base`.
    pub fn basic(base: &Url, user: &str, password: &Secret<String>) -> Result<Self, Refusal> {
        let pair = STANDARD.encode(format!("{user}:{}", password.expose()));
        Self::header(base, &format!("Basic {pair}"))
    }

    pub(crate) fn header(base: &Url, value: &str) -> Result<Self, Refusal> {
        let value = HeaderValue::from_str(value);
        let mut header =
            value.map_err(|_| Refusal::Header("the credentials have a line break or the like"))?;
        header.set_sensitive(true);
        Ok(Self { origin: Origin::of(base)?, header })
    }
}

/// The body of a request. Streams are sent as they come and never held whole.
pub struct Body {
    pub(super) inner: UnsyncBoxBody<Bytes, io::Error>,
    pub(super) bytes: u64,
}

impl Body {
    /// No body.
    pub fn empty() -> Self {
        Self::bytes(Bytes::new())
    }

    /// A body that is in memory already.
    pub fn bytes(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let length = bytes.len() as u64;
        Self { inner: Full::new(bytes).map_err(|never| match never {}).boxed_unsync(), bytes: length }
    }

    /// A body of exactly `bytes` bytes that come from a stream.
    pub fn stream(bytes: u64, stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Self {
        Self { inner: StreamBody::new(stream.map_ok(Frame::data)).boxed_unsync(), bytes }
    }
}

/// One request.
pub struct Request {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Body,
    pub(super) credentials: Option<Credentials>,
    pub(super) limits: Limits,
    pub(super) accepts: Accepts,
    pub(super) follows: bool,
}

/// How the body of an answer may be compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepts {
    Nothing,
    Gzip,
    All,
}

impl Accepts {
    pub(super) fn header(self) -> &'static str {
        match self {
            Self::Nothing => "identity",
            Self::Gzip => "gzip",
            Self::All => "gzip, deflate, br",
        }
    }
}

impl Request {
    /// Asks for what is at a URL. Redirects are followed, unless it is [`Request::unfollowed`].
    pub fn get(url: Url) -> Self {
        Self::new(Method::GET, url, Body::empty())
    }

    /// Sends something. Redirects are not followed.
    pub fn post(url: Url, body: Body) -> Self {
        Self::new(Method::POST, url, body)
    }

    /// A request with any method.
    pub fn new(method: Method, url: Url, body: Body) -> Self {
        let (headers, limits) = (HeaderMap::new(), Limits::default());
        Self { method, url, headers, body, credentials: None, limits, accepts: Accepts::Gzip, follows: true }
    }

    /// Adds a header. Those that carry credentials or frame the message are refused.
    pub fn header(mut self, name: HeaderName, value: &str) -> Result<Self, Refusal> {
        const OURS: [HeaderName; 7] =
            [AUTHORIZATION, PROXY_AUTHORIZATION, COOKIE, HOST, CONTENT_LENGTH, TRANSFER_ENCODING, CONNECTION];
        if OURS.contains(&name) {
            return Err(Refusal::Header("its name is not for callers"));
        }
        let value = HeaderValue::from_str(value);
        let value = value.map_err(|_| Refusal::Header("its value has a line break or the like"))?;
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Adds credentials. They go to their origin only.
    pub fn credentials(mut self, credentials: Credentials) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Sets the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Asks for the body as it is, not compressed.
    pub fn identity(mut self) -> Self {
        self.accepts = Accepts::Nothing;
        self
    }

    /// Takes the body in every compression that browsers take.
    pub fn any_encoding(mut self) -> Self {
        self.accepts = Accepts::All;
        self
    }

    /// Gives a redirect back as an answer, for those who look at where it leads before they follow.
    pub fn unfollowed(mut self) -> Self {
        self.follows = false;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fault 65: a line break cannot smuggle in a header.
    #[test]
    fn fault_65_header_values_are_checked() {
        let url = Url::parse("https://example.com/").unwrap();
        for value in ["a\r\nx-evil: 1", "a\nb", "a\0b", "\u{1b}[31m"] {
            let refused = Request::get(url.clone()).header(http::header::ACCEPT, value).err();
            assert!(matches!(refused, Some(Refusal::Header(_))), "{value:?}");
            let token = Secret::new(value.to_owned());
            assert!(Credentials::bearer(&url, &token).is_err(), "{value:?}");
        }
        for name in [AUTHORIZATION, HOST, COOKIE, CONTENT_LENGTH] {
            assert!(Request::get(url.clone()).header(name, "x").is_err());
        }
    }

    /// Fault 71: credentials are not printed.
    #[test]
    fn fault_71_credentials_are_not_printed() {
        let url = Url::parse("https://example.com/").unwrap();
        let token = Secret::new("canary-71".to_owned());
        let printed = format!("{:?}", Credentials::bearer(&url, &token).unwrap());
        assert!(!printed.contains("canary"), "{printed}");
    }
}
