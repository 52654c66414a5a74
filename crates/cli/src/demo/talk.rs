//! Asks the programs of the demo over HTTP, as their users do.

use std::time::Duration;

use http::Method;
use serde_json::Value;
use url::Url;
use windlass_outside::safe_http::{Body, Guard, Http, Limits, Request};

const LIMITS: Limits = Limits { total: Duration::from_secs(5), bytes_max: 4 * 1024 * 1024, hops_max: 0 };

/// Whoever asks.
pub struct Talk {
    http: Http,
}

impl Talk {
    /// Somebody who may ask these addresses and no others.
    pub fn with(bases: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut guard = Guard::new();
        for base in bases {
            guard = guard.allow(&Url::parse(&base)?)?;
        }
        Ok(Self { http: Http::new(guard) })
    }

    /// What is there; nothing when nobody answers, or not with JSON.
    pub async fn get(&self, url: &str) -> Option<Value> {
        self.ask(Method::GET, url, None).await
    }

    /// What is answered to a wish; nothing when it was refused.
    pub async fn post(&self, url: &str, body: &Value) -> Option<Value> {
        self.ask(Method::POST, url, Some(body)).await
    }

    /// What is answered to a change; nothing when it was refused.
    pub async fn patch(&self, url: &str, body: &Value) -> Option<Value> {
        self.ask(Method::PATCH, url, Some(body)).await
    }

    /// What is there, as text.
    pub async fn text(&self, url: &str) -> Option<String> {
        let answer = self.http.send(Request::get(Url::parse(url).ok()?).limits(LIMITS)).await.ok()?;
        let bytes = answer.bytes().await.ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    async fn ask(&self, method: Method, url: &str, body: Option<&Value>) -> Option<Value> {
        let text = body.map(Value::to_string).unwrap_or_default();
        let request = Request::new(method, Url::parse(url).ok()?, Body::bytes(text)).limits(LIMITS);
        let request = request.header(http::header::CONTENT_TYPE, "application/json").ok()?;
        let answer = self.http.send(request).await.ok()?;
        if !(200..300).contains(&answer.status()) {
            tracing::debug!(url, status = answer.status(), "a program of the demo refused");
            return None;
        }
        serde_json::from_slice(&answer.bytes().await.ok()?).ok()
    }
}
