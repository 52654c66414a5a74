//! Where a request comes from. A page of any site can make a browser send
//! requests to this machine; the names and origins tell them apart.

use http::header::{HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Method};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Whether a `Host` in lower case is one of this machine's own names: another
/// name that only points at it (DNS rebinding) is not.
pub fn is_own_host(host: &str, port: u16) -> bool {
    ["localhost", "127.0.0.1", "[::1]"]
        .iter()
        .any(|name| host == format!("{name}:{port}") || (port == 80 && host == *name))
}

/// Whether another site made a browser send this. Following a link to a page
/// is no harm: it changes nothing, and the page cannot be framed.
pub fn is_from_elsewhere(method: &Method, headers: &HeaderMap) -> bool {
    let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let link = *method == Method::GET && text(&SEC_FETCH_MODE) == Some("navigate");
    let foreign_site = text(&SEC_FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"));
    // A form of our own page has the origin `null`, since we send no referrer;
    // that it is ours says a header that no page can set.
    let own_form = text(&SEC_FETCH_SITE) == Some("same-origin") && text(&ORIGIN) == Some("null");
    let foreign_origin = !own_form && text(&ORIGIN).is_some_and(|origin| !same(origin, text(&HOST)));
    (foreign_site && !link) || foreign_origin
}

fn same(origin: &str, host: Option<&str>) -> bool {
    let origin = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    matches!((origin, host), (Some(origin), Some(host)) if origin.eq_ignore_ascii_case(host))
}
