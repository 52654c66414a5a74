//! A page without data: what it shows it asks for itself, by the calls that programs use.

use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::header::{CONTENT_SECURITY_POLICY, LOCATION};
use http::{HeaderValue, StatusCode};

use super::answer::text;

/// Nothing but what the door serves itself runs, or is asked.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'";

/// A page: its document, its program and its style, and where each is.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// Where the page is. Whoever comes to `/` is sent there.
    pub path: &'static str,
    /// The document.
    pub html: &'static str,
    /// Where its program is, and the program.
    pub script: (&'static str, &'static str),
    /// Where its style is, and the style.
    pub style: (&'static str, &'static str),
}

impl Page {
    /// What is answered to everybody, token or not.
    pub(super) fn paths(&self) -> [&'static str; 4] {
        ["/", self.path, self.script.0, self.style.0]
    }

    pub(super) fn routes(self) -> Router {
        let Self { path, html, script, style } = self;
        Router::new()
            .route("/", get(async move || moved(path)))
            .route(path, get(async move || guarded("text/html; charset=utf-8", html)))
            .route(script.0, get(async move || guarded("text/javascript; charset=utf-8", script.1)))
            .route(style.0, get(async move || guarded("text/css; charset=utf-8", style.1)))
    }
}

fn moved(path: &'static str) -> Response {
    let mut response = text(StatusCode::SEE_OTHER, "text/plain", format!("{path}\n"));
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(path));
    response
}

fn guarded(content_type: &'static str, body: &'static str) -> Response {
    let mut response = text(StatusCode::OK, content_type, body);
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}
