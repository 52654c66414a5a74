//! Articles on the web: a page is fetched politely, and its readable text is taken out.
//!
//! The address came from data, so the guard sees every hop; `robots.txt` is asked before each of them. It runs
//! no scripts, fetches nothing that a page refers to, and keeps no cookies: what is behind those is not read.

mod agent;
mod error;
mod extract;
mod robots;
mod robots_cache;
mod slim;

use std::sync::Arc;
use std::time::Duration;

use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, USER_AGENT};
use url::Url;

pub use agent::Agent;
pub use error::ArticleError;
pub use extract::{HTML_BYTES_MAX, text};

use crate::charset;
use crate::safe_http::{Http, HttpError, Limits, Origin, Refusal, Request, Response, parse_url};
use robots_cache::RobotsCache;

const HTML: [&str; 2] = ["text/html", "application/xhtml+xml"];

/// How pages are fetched.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Who we say we are.
    pub agent: Agent,
    /// Whether `robots.txt` is respected.
    pub robots: bool,
    /// For the whole of it: `robots.txt`, all hops, the body.
    pub limits: Limits,
    /// How many characters of text are kept.
    pub chars_max: usize,
}

impl Settings {
    /// 10 s in all, 2 MiB, 5 redirects, 10,240 characters, with respect for `robots.txt`.
    pub fn new(agent: Agent) -> Self {
        let limits = Limits { total: Duration::from_secs(10), bytes_max: HTML_BYTES_MAX as u64, hops_max: 5 };
        Self { agent, robots: true, limits, chars_max: 10_240 }
    }
}

/// The readable text of a page.
#[derive(Clone, PartialEq, Eq)]
pub struct Article {
    /// Its text, at most [`Settings::chars_max`] characters. It is a stranger's.
    pub text: String,
    /// Where it was found, after all redirects.
    pub url: Url,
}

impl std::fmt::Debug for Article {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Article({} bytes)", self.text.len())
    }
}

/// Fetches articles. Clones share what they know about sites.
#[derive(Debug, Clone)]
pub struct Articles {
    http: Http,
    settings: Arc<Settings>,
    robots: Arc<RobotsCache>,
}

impl Articles {
    /// Fetches by a client whose guard is for URLs that came from data: `Guard::new()`, with
    /// `Guard::allow_host` for what is to be reached inside.
    pub fn new(http: Http, settings: Settings) -> Self {
        Self { http, settings: Arc::new(settings), robots: Arc::default() }
    }

    /// The text behind an address. `now_ms` (milliseconds since 1970) is for the age of what is known of the
    /// site's `robots.txt`.
    pub async fn fetch(&self, address: &str, now_ms: u64) -> Result<Article, ArticleError> {
        let url = parse_url(address).map_err(HttpError::from)?;
        let origin = Origin::of(&url).map_err(HttpError::from)?;
        let total = self.settings.limits.total;
        let late = |_| Err(HttpError::Timeout { origin, total }.into());
        let (html, url) = tokio::time::timeout(total, self.page(url, now_ms)).await.unwrap_or_else(late)?;
        let chars_max = self.settings.chars_max;
        // A page can take a good part of a second; and should the parser have a mistake, only this page pays.
        let text = tokio::task::spawn_blocking(move || text(&html, chars_max)).await;
        let text = text.map_err(|_| ArticleError::Unreadable)?;
        if text.is_empty() { Err(ArticleError::Empty) } else { Ok(Article { text, url }) }
    }

    /// The HTML of a page, and where it was found.
    async fn page(&self, mut url: Url, now_ms: u64) -> Result<(String, Url), ArticleError> {
        let Settings { robots, limits, .. } = &*self.settings;
        for _ in 0..=limits.hops_max {
            if *robots {
                self.robots.ask(&self.http, &self.settings, &url, now_ms).await?;
            }
            let answer = self.http.send(self.request(&url)?).await?;
            match redirect(&answer, &url)? {
                Some(next) => url = next,
                None => return Ok((html(answer.ok()?).await?, url)),
            }
        }
        let origin = Origin::of(&url).map_err(HttpError::from)?;
        Err(HttpError::TooManyRedirects { origin, hops_max: limits.hops_max }.into())
    }

    fn request(&self, url: &Url) -> Result<Request, HttpError> {
        let request = Request::get(url.clone()).limits(self.settings.limits).any_encoding().unfollowed();
        let request = request.header(USER_AGENT, self.settings.agent.header())?;
        Ok(request.header(ACCEPT, "text/html, application/xhtml+xml;q=0.9")?)
    }
}

/// Where an answer leads, if it leads elsewhere.
fn redirect(answer: &Response, url: &Url) -> Result<Option<Url>, HttpError> {
    if !matches!(answer.status(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let bad = || HttpError::BadRedirect { origin: answer.origin().clone(), status: answer.status() };
    let location = answer.header(LOCATION).ok_or_else(bad)?;
    let next = url.join(location).map_err(|_| bad())?;
    if next.host_str().is_none_or(str::is_empty) {
        return Err(Refusal::Scheme.into());
    }
    Ok(Some(next))
}

async fn html(answer: Response) -> Result<String, ArticleError> {
    if !answer.essence().is_some_and(|essence| HTML.contains(&essence.as_str())) {
        return Err(ArticleError::NotHtml { origin: answer.origin().clone() });
    }
    let content_type = answer.header(CONTENT_TYPE).map(str::to_owned);
    let body = answer.bytes().await?;
    Ok(charset::decode_html(&body, content_type.as_deref()).into_owned())
}
