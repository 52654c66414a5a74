//! The routes: what everybody may read, what the operator may, and the page.

mod admin;
mod answer;
mod cors;
mod kv;
mod news;
mod page;

use std::sync::Arc;

use axum::Router;
use axum::middleware;
use http::{Method, Uri};
use windlass_app::door::Refusal;

use crate::archive::Archive;
use crate::cache::Cache;
use crate::settings::Settings;

/// What the routes work with.
pub struct Api {
    /// Where everything is kept.
    pub archive: Archive,
    /// The feed.
    pub cache: Cache,
    /// The settings.
    pub settings: Settings,
}

/// All routes.
pub fn all(api: &Arc<Api>) -> Router {
    let open =
        Router::new().merge(news::routes()).layer(middleware::from_fn_with_state(api.clone(), cors::allow));
    Router::new()
        .merge(open)
        .merge(page::routes())
        .merge(kv::routes())
        .merge(admin::routes())
        .fallback(unknown)
        .method_not_allowed_fallback(unknown)
        .with_state(api.clone())
}

/// What anybody may ask for, from wherever.
pub fn is_open(method: &Method, path: &str) -> bool {
    let reads = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    reads && !["/kv", "/admin", "/metrics"].iter().any(|place| is_below(path, place))
}

fn is_below(path: &str, place: &str) -> bool {
    path.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

async fn unknown(method: Method, uri: Uri) -> Refusal {
    let path: String = uri.path().chars().take(200).collect();
    Refusal::not_found(format!("There is no {method} {path}; the feed is at /api/bitcoin-news"))
}
