//! Where a request comes from. A page of any site can make a browser send
//! requests to this machine; the names and origins tell them apart.

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use windlass_listen::origin::{is_from_elsewhere, is_own_host};

use crate::answer::Refusal;
use crate::settings::Settings;

/// The names under which the server answers.
pub(crate) struct Hosts {
    /// An open server answers only to names of this machine.
    strict: bool,
    allowed: Vec<String>,
}

impl Hosts {
    pub(crate) fn new(settings: &Settings) -> Self {
        let allowed: Vec<String> =
            settings.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        Self { strict: settings.is_open() || !allowed.is_empty(), allowed }
    }

    pub(super) fn check(&self, host: Option<&HeaderValue>, port: u16) -> Result<(), Refusal> {
        if !self.strict {
            return Ok(());
        }
        let host = host.and_then(|host| host.to_str().ok()).unwrap_or("").to_ascii_lowercase();
        if is_own_host(&host, port) || self.allowed.contains(&host) {
            return Ok(());
        }
        let message = "this host name is not one of the server's; ask it by localhost and its port, \
                       or add the name to its allowed hosts";
        Err(Refusal::new(StatusCode::FORBIDDEN, "host_refused", message))
    }
}

/// Refuses what another site made a browser send. Following a link to a page
/// is no harm: it changes nothing, and the page cannot be framed.
pub(super) fn check(method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
    if is_from_elsewhere(method, headers) {
        let message = "the request comes from another site; only pages of this server may send it";
        return Err(Refusal::new(StatusCode::FORBIDDEN, "cross_site", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use http::header::HeaderName;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    /// Fault 68: a name that only points at this machine is not its own.
    #[test]
    fn fault_68_hosts() {
        let open = Hosts::new(&Settings::default());
        for (host, allowed) in [
            ("localhost:7717", true),
            ("LOCALHOST:7717", true),
            ("127.0.0.1:7717", true),
            ("[::1]:7717", true),
            ("localhost", false),
            ("localhost:80", false),
            ("evil.example:7717", false),
            ("127.0.0.1.evil.example:7717", false),
            ("", false),
        ] {
            let host = HeaderValue::from_static(host);
            assert_eq!(open.check(Some(&host), 7717).is_ok(), allowed, "{host:?}");
        }
        assert!(open.check(None, 7717).is_err());
        let settings = Settings { allowed_hosts: vec!["jobs.example".into()], ..Settings::default() };
        let named = Hosts::new(&settings);
        assert!(named.check(Some(&HeaderValue::from_static("jobs.example")), 7717).is_ok());
        assert!(named.check(Some(&HeaderValue::from_static("other.example")), 7717).is_err());
    }

    /// Fault 68: what another site sends is refused; what a program sends is not.
    #[test]
    fn fault_68_origins() {
        let host = ("host", "localhost:7717");
        for (method, pairs, allowed) in [
            (Method::POST, vec![host], true),
            (Method::POST, vec![host, ("origin", "http://localhost:7717")], true),
            (Method::POST, vec![host, ("origin", "http://evil.example")], false),
            (Method::POST, vec![host, ("origin", "null")], false),
            (Method::POST, vec![host, ("origin", "null"), ("sec-fetch-site", "same-origin")], true),
            (Method::POST, vec![host, ("origin", "null"), ("sec-fetch-site", "cross-site")], false),
            (
                Method::POST,
                vec![host, ("origin", "http://evil.example"), ("sec-fetch-site", "same-origin")],
                false,
            ),
            (Method::GET, vec![host, ("origin", "http://localhost:8080")], false),
            (Method::GET, vec![host, ("sec-fetch-site", "same-origin")], true),
            (Method::GET, vec![host, ("sec-fetch-site", "none")], true),
            (Method::GET, vec![host, ("sec-fetch-site", "cross-site")], false),
            (Method::GET, vec![host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")], true),
            (
                Method::POST,
                vec![host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")],
                false,
            ),
            (Method::GET, vec![host, ("sec-fetch-site", "same-site")], false),
        ] {
            assert_eq!(check(&method, &headers(&pairs)).is_ok(), allowed, "{method} {pairs:?}");
        }
    }
}
