//! The page: how all listeners do, live. It is a page without data: what it shows it asks for itself, by the calls
//! that programs use.

use axum::response::Response;
use http::header::{CONTENT_SECURITY_POLICY, LOCATION};
use http::{HeaderValue, StatusCode};
use windlass_app::door::{Answered, text};

/// These are answered to everybody, token or not.
pub(super) const OPEN_PATHS: [&str; 5] =
    ["/", "/listener", "/listener/page.js", "/listener/page.css", "/healthz"];

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'";

fn guarded(mut response: Response) -> Response {
    response.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

pub(super) async fn home() -> Answered {
    let mut response = text(StatusCode::SEE_OTHER, "text/plain", "/listener\n");
    response.headers_mut().insert(LOCATION, HeaderValue::from_static("/listener"));
    Ok(response)
}

pub(super) async fn page() -> Answered {
    Ok(guarded(text(StatusCode::OK, "text/html; charset=utf-8", include_str!("../../assets/page.html"))))
}

pub(super) async fn script() -> Answered {
    Ok(guarded(text(StatusCode::OK, "text/javascript; charset=utf-8", include_str!("../../assets/page.js"))))
}

pub(super) async fn style() -> Answered {
    Ok(guarded(text(StatusCode::OK, "text/css; charset=utf-8", include_str!("../../assets/page.css"))))
}
