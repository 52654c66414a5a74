//! Google News as a feed of search results.

mod feed;
mod query;

use http::header::{CONTENT_TYPE, USER_AGENT};
use url::Url;

pub use feed::{Item, NotAFeed, parse};
pub use query::{Cells, DAYS_DEFAULT, Query};

use crate::safe_http::{Base, Http, HttpError, Limits, Request};

/// Where Google's feed is.
pub const URL: &str = "https://news.google.com/rss/search";

/// Where Google sends those who ask there, for consent and the like.
pub const REDIRECTS: [&str; 3] =
    ["https://news.google.com", "https://www.google.com", "https://consent.google.com"];

/// In which language and for which country news are searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locale {
    /// The language, `en-US`.
    pub hl: String,
    /// The country, `US`.
    pub gl: String,
    /// Both, `US:en`.
    pub ceid: String,
}

impl Default for Locale {
    fn default() -> Self {
        Self { hl: "en-US".to_owned(), gl: "US".to_owned(), ceid: "US:en".to_owned() }
    }
}

/// Why a search gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The call failed.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// An answer came, but no feed.
    #[error(transparent)]
    NotAFeed(#[from] NotAFeed),
}

impl SearchError {
    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Http(error) => error.code(),
            Self::NotAFeed(_) => "not_a_feed",
        }
    }

    /// Whether the same search may succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Http(error) => error.is_transient(),
            // A page for people instead of a feed is what one gets who asked too often.
            Self::NotAFeed(_) => true,
        }
    }

    /// Whether Google wants to be left alone for a while.
    pub fn is_rate_limit(&self) -> bool {
        matches!(self, Self::Http(error) if matches!(error.status(), Some(429 | 503)))
    }
}

/// The search.
#[derive(Debug, Clone)]
pub struct GoogleRss {
    http: Http,
    base: Base,
    locale: Locale,
    limits: Limits,
    agent: String,
}

impl GoogleRss {
    /// A search at `base`, which is [`URL`] unless a test has its own.
    pub fn new(http: Http, base: Url, locale: Locale, limits: Limits, agent: impl Into<String>) -> Self {
        Self { http, base: Base(base), locale, limits, agent: agent.into() }
    }

    /// The address of a search. Programs use it as the name of the search, so
    /// its spelling never changes.
    pub fn url(&self, query: &str) -> Url {
        let Locale { hl, gl, ceid } = &self.locale;
        let mut url = self.base.0.clone();
        url.query_pairs_mut().clear().extend_pairs([("q", query), ("hl", hl), ("gl", gl), ("ceid", ceid)]);
        url
    }

    /// Searches.
    pub async fn search(&self, query: &str) -> Result<Vec<Item>, SearchError> {
        let request = Request::get(self.url(query)).limits(self.limits);
        let request = request.header(USER_AGENT, &self.agent).map_err(HttpError::from)?;
        let answer = self.http.send(request).await?.ok()?;
        let content_type = answer.header(CONTENT_TYPE).map(str::to_owned);
        Ok(parse(&answer.bytes().await?, content_type.as_deref())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::safe_http::Guard;

    #[test]
    fn the_spelling_of_the_address() {
        let base = Url::parse(URL).unwrap();
        let rss =
            GoogleRss::new(Http::new(Guard::new()), base, Locale::default(), Limits::default(), "test/1.0");
        let url = rss.url("fire (\"burn injury\" OR 'x') when:180d");
        let expected = "https://news.google.com/rss/search?q=fire+%28%22burn+injury%22+OR+%27x%27%29+when%3A180d\
                        &hl=en-US&gl=US&ceid=US%3Aen";
        assert_eq!(url.as_str(), expected);
    }
}
