//! NewsData.io: its crypto news about Bitcoin.

use async_trait::async_trait;
use http::HeaderName;
use serde_json::Value;
use url::Url;

use super::article::NewsArticle;
use super::cursor::Cursor;
use super::error::{NewsError, Said};
use super::field::{self, DESCRIPTION_BYTES_MAX, TITLE_BYTES_MAX};
use super::{NewsPage, NewsProvider, PAGE_ARTICLES_MAX};
use crate::beginning::beginning;
use crate::safe_http::{Base, Http, HttpError, Limits, Refusal, Request};
use crate::secret::Secret;
use crate::text::identifier;

/// Where the API is.
pub const URL: &str = "https://newsdata.io/api/1";

pub(super) const NAME: &str = "newsdata";

/// The client.
#[derive(Debug, Clone)]
pub struct Newsdata {
    http: Http,
    base: Base,
    key: Secret<String>,
    limits: Limits,
}

impl Newsdata {
    /// A client for the API at `base`, which is [`URL`] unless it is set otherwise.
    pub fn new(http: Http, base: Url, key: Secret<String>, limits: Limits) -> Self {
        // The key is part of the address, and an address that it is sent on to would be a stranger's choice.
        let limits = Limits { hops_max: 0, ..limits };
        Self { http, base: Base(base), key, limits }
    }

    fn request(&self, cursor: Option<&Cursor>) -> Result<Request, HttpError> {
        let mut url = self.base.0.clone();
        url.path_segments_mut().map_err(|()| Refusal::NotAUrl)?.pop_if_empty().push("crypto");
        let mut pairs = url.query_pairs_mut();
        let (coin, language, once) = (("coin", "btc"), ("language", "en"), ("removeduplicate", "1"));
        pairs.append_pair("apikey", self.key.expose()).extend_pairs([coin, language, once]);
        if let Some(cursor) = cursor {
            pairs.append_pair("page", cursor.as_str());
        }
        drop(pairs);
        Ok(Request::get(url).limits(self.limits))
    }
}

#[async_trait]
impl NewsProvider for Newsdata {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn page(&self, cursor: Option<&Cursor>) -> Result<NewsPage, NewsError> {
        let answer = self.http.send(self.request(cursor)?).await?;
        let status = answer.status();
        let calls_left = answer.header(HeaderName::from_static("x_rate_limit_remaining"));
        let calls_left =
            calls_left.or_else(|| answer.header(HeaderName::from_static("x-ratelimit-remaining")));
        let calls_left = calls_left.and_then(|value| value.trim().parse().ok());
        if !(200..300).contains(&status) {
            let retry_after = answer.status_error().retry_after();
            return Err(refused(status, retry_after, cursor.is_some(), &beginning(answer).await));
        }
        let body = answer.bytes().await?;
        let body: Value = serde_json::from_slice(&body).map_err(|_| malformed("it is not JSON"))?;
        page(&body, calls_left)
    }
}

fn malformed(why: &'static str) -> NewsError {
    NewsError::Malformed { provider: NAME, why }
}

/// Errors are `{status: "error", results: {message, code}}`, or with the message beside the status.
fn refused(
    status: u16,
    retry_after: Option<crate::retry_after::RetryAfter>,
    with_cursor: bool,
    body: &[u8],
) -> NewsError {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let said = |name: &str| body["results"][name].as_str().or_else(|| body[name].as_str()).map(str::to_owned);
    let code = said("code").and_then(|code| identifier(&code).map(str::to_owned));
    let text = format!("{} {}", code.as_deref().unwrap_or_default(), said("message").unwrap_or_default());
    let text = text.to_ascii_lowercase();
    let is_quota = ["credit", "quota", "apilimitexceeded", "daily"].iter().any(|word| text.contains(word));
    Said { provider: NAME, status, code, is_quota, retry_after, with_cursor }.into()
}

fn page(body: &Value, calls_left: Option<u64>) -> Result<NewsPage, NewsError> {
    if body["status"] == "error" {
        return Err(malformed("it says that it is an error, with the status of a success"));
    }
    let results = match &body["results"] {
        Value::Array(results) => &results[..],
        Value::Null if body.is_object() => &[],
        _ => return Err(malformed("it has no list of results")),
    };
    let next = match &body["nextPage"] {
        Value::Null => None,
        Value::String(next) if next.is_empty() => None,
        next => Some(field::word(next).and_then(Cursor::new).ok_or_else(|| malformed("its cursor is none"))?),
    };
    let articles: Vec<_> = results.iter().take(PAGE_ARTICLES_MAX).filter_map(article).collect();
    let skipped = results.len() - articles.len();
    Ok(NewsPage { articles, next, skipped, calls_left })
}

pub(super) fn article(item: &Value) -> Option<NewsArticle> {
    let (published, published_ms) = field::time(&item["pubDate"]);
    Some(NewsArticle {
        id: field::id(NAME, &[&item["article_id"], &item["id"], &item["link"]])?,
        title: field::text(&item["title"], TITLE_BYTES_MAX)?,
        description: field::text(&item["description"], DESCRIPTION_BYTES_MAX),
        link: field::url(&item["link"]),
        published,
        published_ms,
        source_id: field::word(&item["source_id"]),
        source_name: field::word(&item["source_name"]),
        source_url: field::url(&item["source_url"]),
        source_icon: field::url(&item["source_icon"]),
        image_url: field::url(&item["image_url"]),
        language: field::word(&item["language"]),
        country: field::words(&item["country"]),
        category: field::words(&item["category"]),
        // Its own sentiment is for paying plans only, and a sentence about that for all others.
        sentiment: None,
    })
}
