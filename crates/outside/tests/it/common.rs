//! What the tests share.

use std::time::Duration;

use url::Url;
use windlass_outside::safe_http::{Guard, Http, HttpError, Limits, Request, Response};
use windlass_standins::Server;

/// A client that may talk to these bases.
pub fn http(bases: &[String]) -> Http {
    let guard = bases.iter().fold(Guard::new(), |guard, base| guard.allow(&url(base)).unwrap());
    Http::new(guard)
}

pub fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

/// Limits that a local server easily keeps, unless it is told to be slow.
pub fn limits() -> Limits {
    Limits { total: Duration::from_secs(20), ..Limits::default() }
}

/// Limits that a server which is told to be slow cannot keep.
pub fn hasty() -> Limits {
    Limits { total: Duration::from_millis(700), ..Limits::default() }
}

pub async fn get(server: &Server, limits: Limits) -> Result<Response, HttpError> {
    let http = http(&[server.url()]);
    http.send(Request::get(url(&server.url())).limits(limits)).await
}

/// The whole exchange.
pub async fn fetch(server: &Server, limits: Limits) -> Result<Vec<u8>, HttpError> {
    Ok(get(server, limits).await?.ok()?.bytes().await?.to_vec())
}
