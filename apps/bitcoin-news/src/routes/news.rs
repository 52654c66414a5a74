//! The feed: a page of it, one article, and the forms for feed readers.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use http::header::HOST;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use url::form_urlencoded;
use windlass_app::door::{Answered, Refusal};

use super::Api;
use super::answer::kept;
use crate::cache::{Body, Ready};
use crate::feed::{LIMIT_MAX, Place, Wanted, Wish};
use crate::syndication;
use crate::time::iso;

const JSON: &str = "application/json; charset=utf-8";
/// A minute, as it always was.
const MINUTE: &str = "public, max-age=60";
/// How long a search may be.
const QUERY_CHARS_MAX: usize = 200;

pub(super) fn routes() -> Router<Arc<Api>> {
    // The question before a question of another site is answered around all of these.
    let read = |route: MethodRouter<Arc<Api>>| route.options(|| async {});
    Router::new()
        .route("/api/bitcoin-news", read(get(page)))
        .route("/api/bitcoin-news/{id}", read(get(one)))
        .route("/feed.xml", read(get(rss)))
        .route("/feed.json", read(get(json_feed)))
}

async fn page(State(api): State<Arc<Api>>, RawQuery(query): RawQuery, headers: HeaderMap) -> Answered {
    let wish = wish(query.as_deref().unwrap_or_default())?;
    let ready = ready(&api).await?;
    if wish == Wish::default() {
        return Ok(of_seed(&api, &ready, kept(&headers, &ready.first, JSON, MINUTE)));
    }
    let body = Body::new(ready.feed.json(&wish));
    Ok(of_seed(&api, &ready, kept(&headers, &body, JSON, MINUTE)))
}

async fn one(State(api): State<Arc<Api>>, Path(id): Path<String>, headers: HeaderMap) -> Answered {
    let ready = ready(&api).await?;
    let item = ready.feed.find(&id);
    let item = item.ok_or_else(|| Refusal::not_found("There is no such article in the feed"))?;
    let body = Body::new(item.json().to_owned());
    Ok(of_seed(&api, &ready, kept(&headers, &body, JSON, MINUTE)))
}

async fn rss(State(api): State<Arc<Api>>, headers: HeaderMap) -> Answered {
    let ready = ready(&api).await?;
    let body = Body::new(syndication::rss(&ready.feed, &home(&headers)));
    Ok(kept(&headers, &body, "application/rss+xml; charset=utf-8", MINUTE))
}

async fn json_feed(State(api): State<Arc<Api>>, headers: HeaderMap) -> Answered {
    let ready = ready(&api).await?;
    let body = Body::new(syndication::json_feed(&ready.feed, &home(&headers)).to_string());
    Ok(kept(&headers, &body, "application/feed+json; charset=utf-8", MINUTE))
}

async fn ready(api: &Api) -> Result<Arc<Ready>, Refusal> {
    api.cache.ready().await.map_err(|error| {
        let message = "The news cannot be read at the moment; try again in a minute";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", message).caused_by(error)
    })
}

/// Where the reader thinks that we are. Whoever lies about it reads it alone: it is part of what caches go by.
fn home(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b':' | b'-' | b'[' | b']');
    let host = if host.bytes().all(fits) { host } else { "localhost" };
    let secure = headers.get("x-forwarded-proto").is_some_and(|proto| proto.as_bytes() == b"https");
    format!("{}://{host}/", if secure { "https" } else { "http" })
}

/// The headers that the feed always had.
fn of_seed(api: &Api, ready: &Ready, mut response: Response) -> Response {
    let source = api.settings.news.as_ref().map(|news| news.provider);
    let source = match source {
        Some(crate::settings::Provider::Apitube) => "APITube",
        _ => "NewsData.io",
    };
    let headers = response.headers_mut();
    let mut put = |name: &'static str, value: HeaderValue| {
        headers.insert(HeaderName::from_static(name), value);
    };
    put("x-cache-status", HeaderValue::from_static("KV"));
    put("x-data-source", HeaderValue::from_static(source));
    put("x-cache-ttl", HeaderValue::from_static("60"));
    if let Some(changed) = ready.feed.changed_ms.and_then(|ms| HeaderValue::from_str(&iso(ms)).ok()) {
        put("x-last-updated", changed);
    }
    response
}

fn wish(query: &str) -> Result<Wish, Refusal> {
    let mut wish = Wish::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "limit" => {
                let limit = value.parse().ok().filter(|limit| (1..=LIMIT_MAX).contains(limit));
                wish.limit =
                    limit.ok_or_else(|| wrong(format!("limit must be a number from 1 to {LIMIT_MAX}")))?;
            }
            "cursor" if value.is_empty() => {}
            "cursor" => {
                let place = Place::parse(&value);
                wish.after =
                    Some(place.ok_or_else(|| wrong("cursor must be a nextCursor of an earlier answer"))?);
            }
            "sentiment" if matches!(&*value, "" | "all") => {}
            "sentiment" => {
                let wanted = Wanted::parse(&value);
                let what = "sentiment must be positive, negative, neutral or unknown";
                wish.sentiment = Some(wanted.ok_or_else(|| wrong(what))?);
            }
            "q" => {
                let text: String = value.chars().take(QUERY_CHARS_MAX).collect();
                wish.words = text.to_lowercase().split_whitespace().map(str::to_owned).collect();
            }
            _ => {}
        }
    }
    Ok(wish)
}

fn wrong(message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, "bad_request", message)
}
