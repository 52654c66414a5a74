//! Answers that can be kept, compressed and asked for again.

use axum::body::Body as AxumBody;
use axum::response::Response;
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::cache::Body;

/// Smaller ones are not worth it.
const GZIP_BYTES_MIN: usize = 1_000;

/// A body, or that it has not changed.
pub(super) fn kept(
    asked: &HeaderMap,
    body: &Body,
    content_type: &'static str,
    cache: &'static str,
) -> Response {
    let is_same = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok()).any(|value| {
        let plain = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
        value.trim() == "*" || value.split(',').any(|tag| plain(tag) == plain(&body.etag))
    });
    let takes_gzip = body.plain.len() >= GZIP_BYTES_MIN && takes_gzip(asked);
    let (status, bytes) = match (is_same, takes_gzip) {
        (true, _) => (StatusCode::NOT_MODIFIED, Bytes::new()),
        (false, true) => (StatusCode::OK, body.gzip.clone()),
        (false, false) => (StatusCode::OK, body.plain.clone()),
    };
    let mut response = Response::new(AxumBody::from(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if !is_same {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        if takes_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache));
    headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(etag) = HeaderValue::from_str(&body.etag) {
        headers.insert(ETAG, etag);
    }
    response
}

/// Whether a reader takes gzip: `gzip;q=0` says no.
fn takes_gzip(asked: &HeaderMap) -> bool {
    let values = asked.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let refused = parts
            .any(|part| matches!(part.replace(' ', "").as_str(), "q=0" | "q=0.0" | "q=0.00" | "q=0.000"));
        (name.eq_ignore_ascii_case("gzip") || name == "*") && !refused
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_gzip() {
        for (value, expected) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("*", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("br", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(takes_gzip(&headers), expected, "{value}");
        }
    }
}
