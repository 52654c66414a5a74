//! What a stand-in was asked, and what it answers.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

/// How much of a body is kept in the log.
pub(crate) const BODY_KEPT_MAX: usize = 1_000_000;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The method.
    pub method: Method,
    /// The path, as it was sent.
    pub path: String,
    /// The query, without its question mark.
    pub query: String,
    /// All headers.
    pub headers: HeaderMap,
    /// The body. In the log only its first million bytes are kept.
    pub body: Bytes,
    /// The length of the whole body.
    pub body_bytes: usize,
}

impl Ask {
    /// A header as text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whether credentials came with it, by any of the usual ways.
    pub fn has_credentials(&self) -> bool {
        ["authorization", "proxy-authorization", "cookie"].iter().any(|name| self.headers.contains_key(*name))
    }

    /// A value of the query.
    pub fn param(&self, name: &str) -> Option<String> {
        let mut pairs = url::form_urlencoded::parse(self.query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    pub(crate) fn for_log(&self) -> Self {
        let mut kept = self.clone();
        kept.body = Bytes::copy_from_slice(&self.body[..self.body.len().min(BODY_KEPT_MAX)]);
        kept
    }
}

/// An answer before any fault is applied to it.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Answer {
    /// An answer with a content type.
    pub fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        let answer = Self { status, headers: HeaderMap::new(), body: body.into() };
        answer.with("content-type", content_type)
    }

    /// An answer in JSON.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        Self::new(status, "application/json", body.to_string())
    }

    /// A redirect.
    pub fn redirect(status: u16, to: &str) -> Self {
        Self::new(status, "text/plain", "elsewhere").with("location", to)
    }

    /// Adds a header, or changes it.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a stand-in's header name is valid");
        self.headers.insert(name, HeaderValue::from_str(value).expect("a stand-in's header value is valid"));
        self
    }
}
