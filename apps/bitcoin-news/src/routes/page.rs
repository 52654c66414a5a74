//! The page: one document, one sheet of style, one program. Everything that is shown comes by the feed.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::Api;
use super::answer::kept;
use crate::cache::Body;

/// Nothing but what we serve ourselves runs; pictures come from the papers.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' https: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static PAGE: LazyLock<Body> = LazyLock::new(|| Body::new(include_str!("../page/index.html").to_owned()));
static STYLE: LazyLock<Body> = LazyLock::new(|| Body::new(include_str!("../page/style.css").to_owned()));
static SCRIPT: LazyLock<Body> = LazyLock::new(|| Body::new(include_str!("../page/page.js").to_owned()));
static ICON: LazyLock<Body> = LazyLock::new(|| Body::new(include_str!("../page/icon.svg").to_owned()));

pub(super) fn routes() -> Router<Arc<Api>> {
    Router::new()
        .route("/", get(|headers| serve(headers, &PAGE, "text/html; charset=utf-8")))
        .route("/style.css", get(|headers| serve(headers, &STYLE, "text/css; charset=utf-8")))
        .route("/page.js", get(|headers| serve(headers, &SCRIPT, "text/javascript; charset=utf-8")))
        .route("/icon.svg", get(|headers| serve(headers, &ICON, "image/svg+xml")))
}

async fn serve(headers: HeaderMap, body: &'static LazyLock<Body>, content_type: &'static str) -> Response {
    let mut response = kept(&headers, body, content_type, "no-cache");
    let answered = response.headers_mut();
    answered.insert("content-security-policy", HeaderValue::from_static(POLICY));
    answered.insert(HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer"));
    response
}
