//! APITube: its news of the crypto industry, with a sentiment.

use async_trait::async_trait;
use http::HeaderName;
use serde_json::Value;
use url::{Url, form_urlencoded};

use super::article::{NewsArticle, Sentiment};
use super::cursor::Cursor;
use super::error::{NewsError, Said};
use super::field::{self, DESCRIPTION_BYTES_MAX, TITLE_BYTES_MAX};
use super::{NewsPage, NewsProvider, PAGE_ARTICLES_MAX};
use crate::beginning::beginning;
use crate::retry_after::RetryAfter;
use crate::safe_http::{Base, Credentials, Http, HttpError, Limits, Refusal, Request};
use crate::secret::Secret;
use crate::text::identifier;

/// Where the API is.
pub const URL: &str = "https://api.apitube.io/v1";

pub(super) const NAME: &str = "apitube";
/// What is asked for: news in English about the crypto industry.
const ASKED: [(&str, &str); 2] = [("language.code", "en"), ("topic.id", "industry.crypto_news")];
/// How far a score is from zero when it means something.
const SCORE_MIN: f64 = 0.1;

/// The client.
#[derive(Debug, Clone)]
pub struct Apitube {
    http: Http,
    base: Base,
    credentials: Credentials,
    limits: Limits,
}

impl Apitube {
    /// A client for the API at `base`, which is [`URL`] unless it is set otherwise.
    pub fn new(http: Http, base: Url, key: &Secret<String>, limits: Limits) -> Result<Self, Refusal> {
        let credentials = Credentials::bearer(&base, key)?;
        Ok(Self { http, base: Base(base), credentials, limits })
    }

    fn request(&self, cursor: Option<&Cursor>) -> Result<Request, HttpError> {
        let mut url = self.base.0.clone();
        url.path_segments_mut().map_err(|()| Refusal::NotAUrl)?.pop_if_empty().extend(["news", "everything"]);
        match cursor.map(Cursor::as_str) {
            // A cursor that was an address is its query, which has everything that was asked for.
            Some(cursor) if cursor.starts_with('?') => url.set_query(Some(&cursor[1..])),
            Some(page) => drop(url.query_pairs_mut().extend_pairs(ASKED).append_pair("page", page)),
            None => drop(url.query_pairs_mut().extend_pairs(ASKED)),
        }
        Ok(Request::get(url).limits(self.limits).credentials(self.credentials.clone()))
    }
}

#[async_trait]
impl NewsProvider for Apitube {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn page(&self, cursor: Option<&Cursor>) -> Result<NewsPage, NewsError> {
        let answer = self.http.send(self.request(cursor)?).await?;
        let status = answer.status();
        let calls_left = answer.header(HeaderName::from_static("x-ratelimit-remaining"));
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

/// Errors are `{status: "not_ok", errors: [{status, code, message}]}`.
fn refused(status: u16, retry_after: Option<RetryAfter>, with_cursor: bool, body: &[u8]) -> NewsError {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let error = &body["errors"][0];
    let code = error["code"].as_str().and_then(identifier).map(str::to_owned);
    let text = error["message"].as_str().unwrap_or_default().to_ascii_lowercase();
    let is_quota = ["credit", "quota", "plan limit", "points"].iter().any(|word| text.contains(word));
    Said { provider: NAME, status, code, is_quota, retry_after, with_cursor }.into()
}

fn page(body: &Value, calls_left: Option<u64>) -> Result<NewsPage, NewsError> {
    if body["status"] == "not_ok" {
        return Err(malformed("it says that it is an error, with the status of a success"));
    }
    // The API answers with `results`; older descriptions of it have the other two.
    let Value::Array(results) = field::first(body, &["results", "data", "articles"]) else {
        return Err(malformed("it has no list of results"));
    };
    let articles: Vec<_> = results.iter().take(PAGE_ARTICLES_MAX).filter_map(article).collect();
    let skipped = results.len() - articles.len();
    // A page of nothing is the last one, whatever it says: following it would only spend calls.
    let next = if results.is_empty() { None } else { next(body)? };
    Ok(NewsPage { articles, next, skipped, calls_left })
}

fn next(body: &Value) -> Result<Option<Cursor>, NewsError> {
    if body["has_next_pages"] == false {
        return Ok(None);
    }
    let links = &body["links"];
    let next = match field::first(links, &["next_page", "next"]) {
        Value::Null => field::first(body, &["next_page"]),
        next => next,
    };
    let cursor = match next {
        Value::Null => return Ok(None),
        Value::String(text) if text.trim().is_empty() => return Ok(None),
        Value::String(text) if text.starts_with("http") => query(text),
        next => field::word(next).and_then(Cursor::new),
    };
    cursor.map(Some).ok_or_else(|| malformed("its cursor is none"))
}

/// What the next page's address asks for, without a key that it may repeat. The host and the path are ours.
fn query(address: &str) -> Option<Cursor> {
    let url = Url::parse(address).ok()?;
    let is_key =
        |name: &str| matches!(name.to_ascii_lowercase().as_str(), "api_key" | "apikey" | "key" | "token");
    let pairs = url.query_pairs().filter(|(name, _)| !is_key(name));
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    if query.is_empty() { None } else { Cursor::new(format!("?{query}")) }
}

fn article(item: &Value) -> Option<NewsArticle> {
    let (published, published_ms) = field::time(field::first(item, &["published_at", "pubDate", "date"]));
    let link = field::first(item, &["href", "url", "link"]);
    let source = &item["source"];
    let of_source = |names: &[&str], flat: &str| match field::first(source, names) {
        Value::Null => item[flat].clone(),
        found => found.clone(),
    };
    let categories = field::words(field::first(item, &["categories", "category"]));
    Some(NewsArticle {
        id: field::id(NAME, &[&item["id"], &item["article_id"], link])?,
        title: field::text(&item["title"], TITLE_BYTES_MAX)?,
        description: field::text(&item["description"], DESCRIPTION_BYTES_MAX),
        link: field::url(link),
        published,
        published_ms,
        source_id: field::word(&of_source(&["id"], "source_id")),
        source_name: field::word(&of_source(&["name"], "source_name")),
        source_url: field::url(&of_source(&["home_page_url", "uri", "url"], "source_url")),
        source_icon: field::url(&of_source(&["favicon", "icon"], "source_icon")),
        image_url: field::url(field::first(item, &["image", "image_url"])),
        language: field::word(&item["language"]).or_else(|| Some("en".to_owned())),
        country: field::words(&item["country"]),
        category: if categories.is_empty() { vec!["crypto".to_owned()] } else { categories },
        sentiment: sentiment(&item["sentiment"]),
    })
}

/// What the provider thinks of it: an object, a word or a number. What says nothing is unknown.
fn sentiment(value: &Value) -> Option<Sentiment> {
    let overall = if value["overall"].is_object() { &value["overall"] } else { value };
    match overall {
        Value::Object(overall) => overall
            .get("polarity")
            .and_then(worded)
            .or_else(|| overall.get("score").and_then(Value::as_f64).map(scored)),
        Value::Number(number) => number.as_f64().map(scored),
        value => worded(value),
    }
}

pub(super) fn worded(value: &Value) -> Option<Sentiment> {
    let text = value.as_str()?.to_ascii_lowercase();
    let of = |sentiment: Sentiment| text.contains(&sentiment.as_str()[..3]).then_some(sentiment);
    of(Sentiment::Positive).or_else(|| of(Sentiment::Negative)).or_else(|| of(Sentiment::Neutral))
}

fn scored(score: f64) -> Sentiment {
    match score {
        score if score > SCORE_MIN => Sentiment::Positive,
        score if score < -SCORE_MIN => Sentiment::Negative,
        _ => Sentiment::Neutral,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sentiments_of_every_form() {
        use Sentiment::{Negative, Neutral, Positive};
        for (value, expected) in [
            (json!(null), None),
            (json!({"overall": {"polarity": "Positive", "score": -0.9}}), Some(Positive)),
            (json!({"overall": {"score": -0.2}}), Some(Negative)),
            (json!({"overall": {"score": 0.1}}), Some(Neutral)),
            (json!({"overall": {"polarity": "neutral"}}), Some(Neutral)),
            (json!({"overall": {"polarity": "mixed"}}), None),
            (json!("neg"), Some(Negative)),
            (json!(0.11), Some(Positive)),
            (json!([1]), None),
        ] {
            assert_eq!(sentiment(&value), expected, "{value}");
        }
    }

    /// The next page's address names a host, and perhaps a key. Only what it asks for is kept.
    #[test]
    fn a_cursor_is_never_an_address() {
        let at = |next: Value| super::next(&json!({"next_page": next})).map(|next| next.map(String::from));
        let address = "https://evil.example/v9?api_key=SECRET&page=2&language.code=en";
        assert_eq!(at(json!(address)), Ok(Some("?page=2&language.code=en".to_owned())));
        assert_eq!(at(json!(3)), Ok(Some("3".to_owned())));
        assert_eq!(at(json!("")), Ok(None));
        assert!(at(json!("https://evil.example/")).is_err());
        assert!(at(json!({})).is_err());
        assert_eq!(super::next(&json!({"next_page": "x", "has_next_pages": false})), Ok(None));
    }
}
