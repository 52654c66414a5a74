//! Workers KV: values by key, over Cloudflare's REST API.
//!
//! It is eventually consistent: what was written may be read as it was before for a minute and more, and of
//! two writes the last one wins. So it is a place to publish to, and never the place where something is decided.

mod batch;

use bytes::Bytes;
use http::Method;
use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use url::Url;

pub use crate::cloudflare::{CloudflareError, URL};
pub use batch::{
    BULK_BYTES_MAX, BULK_PAIRS_MAX, Batch, KEY_BYTES_MAX, Pair, TTL_SECONDS_MIN, Unfit, VALUE_BYTES_MAX,
};

use crate::cloudflare::{Account, with_json};
use crate::safe_http::{Body, Http, HttpError, Limits, Refusal, Request};
use crate::secret::Secret;
use crate::text::cut;

/// Cloudflare's code for a key that is not there.
const NO_SUCH_KEY: u64 = 10_009;
/// How many keys a page of a list has.
const LIST_KEYS: u32 = 1000;

/// One namespace of an account.
#[derive(Debug, Clone)]
pub struct WorkersKv {
    account: Account,
    namespace: String,
}

/// What became of a bulk write or delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bulk {
    /// How many keys were done.
    pub done: u64,
    /// The keys that were not. Nothing is known about why; ask again for these.
    pub failed: Vec<String>,
}

/// A page of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The keys, with the moment at which each goes away, in seconds since 1970.
    pub keys: Vec<(String, Option<u64>)>,
    /// Where the next page is, if there is one.
    pub next: Option<String>,
}

impl WorkersKv {
    /// A namespace at `base`, which is [`URL`] unless it is set otherwise. Without an account the base is that
    /// of a local server which plays one, and has its namespaces right below.
    pub fn new(
        http: Http,
        base: Url,
        account: Option<String>,
        namespace: impl Into<String>,
        token: &Secret<String>,
        limits: Limits,
    ) -> Result<Self, Refusal> {
        let account = Account::new(http, base, account, token, limits)?;
        Ok(Self { account, namespace: namespace.into() })
    }

    fn place(&self, parts: &[&str]) -> Result<Url, CloudflareError> {
        let mut path = vec!["storage", "kv", "namespaces", &self.namespace];
        path.extend(parts);
        self.account.place(&path)
    }

    /// The value of a key; `None` when there is none. Only that is `None`: any trouble is an error.
    pub async fn get(&self, key: &str) -> Result<Option<Bytes>, CloudflareError> {
        let request = Request::get(self.place(&["values", key])?);
        match self.account.send(request).await {
            Ok(answer) => Ok(Some(answer.bytes().await?)),
            Err(CloudflareError::NotFound { code: NO_SUCH_KEY, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes one pair. A bulk write of many costs the same number of writes in fewer calls.
    pub async fn put(&self, pair: &Pair) -> Result<(), CloudflareError> {
        let mut url = self.place(&["values", pair.key()])?;
        if let Some(seconds) = pair.ttl_seconds() {
            url.query_pairs_mut().append_pair("expiration_ttl", &seconds.to_string());
        }
        let request = Request::new(Method::PUT, url, Body::bytes(pair.value().to_owned()));
        let request = request.header(CONTENT_TYPE, "text/plain; charset=utf-8").map_err(HttpError::from)?;
        self.account.call(request).await.map(drop)
    }

    /// Writes all pairs of a batch in one call.
    pub async fn put_all(&self, batch: &Batch) -> Result<Bulk, CloudflareError> {
        let request = with_json(Method::PUT, self.place(&["bulk"])?, batch.body().to_owned())?;
        let (result, _) = self.account.call(request).await?;
        Ok(bulk(&result, batch.pairs()))
    }

    /// Deletes a key. One that is not there is deleted already.
    pub async fn delete(&self, key: &str) -> Result<(), CloudflareError> {
        let request = Request::new(Method::DELETE, self.place(&["values", key])?, Body::empty());
        match self.account.call(request).await {
            Ok(_) | Err(CloudflareError::NotFound { code: NO_SUCH_KEY, .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Deletes at most [`BULK_PAIRS_MAX`] keys in one call; what is over is not looked at and counts as failed.
    pub async fn delete_all(&self, keys: &[String]) -> Result<Bulk, CloudflareError> {
        let (now, over) = keys.split_at(keys.len().min(BULK_PAIRS_MAX));
        let request = with_json(Method::POST, self.place(&["bulk", "delete"])?, json!(now).to_string())?;
        let (result, _) = self.account.call(request).await?;
        let mut done = bulk(&result, now.len() as u64);
        done.failed.extend_from_slice(over);
        Ok(done)
    }

    /// A page of the keys that begin with `prefix`.
    pub async fn keys(&self, prefix: &str, cursor: Option<&str>) -> Result<Keys, CloudflareError> {
        let mut url = self.place(&["keys"])?;
        url.query_pairs_mut().append_pair("prefix", prefix).append_pair("limit", &LIST_KEYS.to_string());
        if let Some(cursor) = cursor {
            url.query_pairs_mut().append_pair("cursor", cursor);
        }
        let (result, info) = self.account.call(Request::get(url)).await?;
        let list = result.as_array().ok_or(CloudflareError::Malformed("it has no list of keys"))?;
        let key = |one: &Value| Some((one["name"].as_str()?.to_owned(), one["expiration"].as_u64()));
        let next =
            info["cursor"].as_str().filter(|cursor| !cursor.is_empty() && cut(cursor, 8192) == *cursor);
        Ok(Keys { keys: list.iter().filter_map(key).collect(), next: next.map(str::to_owned) })
    }
}

/// What a bulk call says became of it. A server that says nothing has done all.
fn bulk(result: &Value, asked: u64) -> Bulk {
    let failed = result["unsuccessful_keys"].as_array().into_iter().flatten();
    let failed: Vec<String> =
        failed.filter_map(Value::as_str).take(BULK_PAIRS_MAX).map(str::to_owned).collect();
    let left = asked.saturating_sub(failed.len() as u64);
    Bulk { done: result["successful_key_count"].as_u64().unwrap_or(left).min(asked), failed }
}
