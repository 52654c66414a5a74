//! A cache of what sites ask of us, bounded in number and age.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::USER_AGENT;
use tokio::sync::OnceCell;
use url::Url;

use super::Settings;
use super::error::ArticleError;
use super::robots::{ROBOTS_BYTES_MAX, Robots};
use crate::safe_http::{Http, HttpError, Limits, Origin, Request, Response};

/// How many sites are remembered.
const SITES_MAX: usize = 1000;
/// For how long (RFC 9309 allows a day).
const AGE_MS_MAX: u64 = 24 * 3600 * 1000;

/// What is known of a site: looked up once, however many ask at the same time.
type Known = Arc<OnceCell<Robots>>;

#[derive(Default)]
pub(super) struct RobotsCache(Mutex<HashMap<Origin, (u64, Known)>>);

impl std::fmt::Debug for RobotsCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RobotsCache({} sites)", self.0.lock().unwrap_or_else(PoisonError::into_inner).len())
    }
}

impl RobotsCache {
    /// Whether a page may be asked for.
    pub(super) async fn ask(
        &self,
        http: &Http,
        settings: &Settings,
        url: &Url,
        now_ms: u64,
    ) -> Result<(), ArticleError> {
        let origin = Origin::of(url).map_err(HttpError::from)?;
        let known = self.known(&origin, now_ms);
        let robots = known.get_or_try_init(|| look(http, settings, url)).await?;
        let path = match url.query() {
            Some(query) => format!("{}?{query}", url.path()),
            None => url.path().to_owned(),
        };
        if robots.allows(&path) { Ok(()) } else { Err(ArticleError::Robots { origin }) }
    }

    fn known(&self, origin: &Origin, now_ms: u64) -> Known {
        let mut sites = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |at: u64| now_ms.saturating_sub(at) < AGE_MS_MAX;
        if let Some((_, known)) = sites.get(origin).filter(|(at, _)| is_fresh(*at)) {
            return known.clone();
        }
        if sites.len() >= SITES_MAX && !sites.contains_key(origin) {
            let oldest = sites.iter().min_by_key(|(_, (at, _))| *at).map(|(origin, _)| origin.clone());
            oldest.and_then(|oldest| sites.remove(&oldest));
        }
        let known = Known::default();
        sites.insert(origin.clone(), (now_ms, known.clone()));
        known
    }
}

/// Looks at a site's file. What is not there allows everything; what cannot be had now allows nothing for now,
/// and is not remembered.
async fn look(http: &Http, settings: &Settings, url: &Url) -> Result<Robots, ArticleError> {
    let mut url = url.clone();
    url.set_path("/robots.txt");
    url.set_query(None);
    // The file is read up to a length and no further, so its own length is no reason to refuse it.
    let limits = Limits { bytes_max: u64::MAX, hops_max: 5, ..settings.limits };
    let request = Request::get(url).limits(limits).any_encoding();
    let request = request.header(USER_AGENT, settings.agent.header()).map_err(HttpError::from)?;
    let answer = match http.send(request).await {
        // The page itself would be refused for the same reason.
        Err(error @ HttpError::Refused(_)) => return Err(error.into()),
        // It leads nowhere, which says no more than that there is none.
        Err(HttpError::TooManyRedirects { .. } | HttpError::BadRedirect { .. }) => {
            return Ok(Robots::default());
        }
        answer => answer.map_err(ArticleError::RobotsUnknown)?,
    };
    match answer.status() {
        200..300 => {
            let text = beginning(answer).await.map_err(ArticleError::RobotsUnknown)?;
            Ok(Robots::parse(&text, settings.agent.product()))
        }
        429 | 500.. => Err(ArticleError::RobotsUnknown(answer.status_error())),
        _ => Ok(Robots::default()),
    }
}

async fn beginning(mut answer: Response) -> Result<Vec<u8>, HttpError> {
    let mut all = Vec::new();
    while let Some(piece) = answer.chunk().await? {
        all.extend_from_slice(&piece);
        if all.len() >= ROBOTS_BYTES_MAX {
            break;
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_are_bounded_and_grow_old() {
        let cache = RobotsCache::default();
        let origin =
            |number: usize| Origin::of(&Url::parse(&format!("https://s{number}.example")).unwrap()).unwrap();
        for number in 0..SITES_MAX + 10 {
            cache.known(&origin(number), number as u64);
        }
        assert_eq!(cache.0.lock().unwrap().len(), SITES_MAX);
        let (last, now) = (origin(SITES_MAX), SITES_MAX as u64);
        let first = cache.known(&last, now);
        assert!(Arc::ptr_eq(&first, &cache.known(&last, now + AGE_MS_MAX - 1)));
        assert!(!Arc::ptr_eq(&first, &cache.known(&last, now + AGE_MS_MAX)));
        assert_eq!(cache.0.lock().unwrap().len(), SITES_MAX);
    }
}
