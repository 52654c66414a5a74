//! The guard that every URL passes, on every hop.

use url::Url;

use super::address::is_public;
use super::error::Refusal;
use super::origin::Origin;

/// Whom one may talk to.
///
/// Everything public on the usual ports is allowed, everything inside is not,
/// unless the operator put its origin on the list: the stand-ins of a test, a
/// proxy of a provider within the own network.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    allowed: Vec<Origin>,
}

impl Guard {
    /// The guard for URLs that came from data: nothing inside is allowed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts the origin of a configured base on the list.
    pub fn allow(mut self, base: &Url) -> Result<Self, Refusal> {
        let origin = Origin::of(base)?;
        if !self.allowed.contains(&origin) {
            self.allowed.push(origin);
        }
        Ok(self)
    }

    /// Puts a `host:port` on the list, with TLS and without: a site of a test or of an intranet. An address of
    /// IPv6 stands in brackets.
    pub fn allow_host(self, pair: &str) -> Result<Self, Refusal> {
        let port = pair.trim().rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        let fits = port.is_some() && !pair.contains(['/', '@', '?', '#', '\\']);
        let parse = |scheme: &str| Url::parse(&format!("{scheme}://{}/", pair.trim()));
        match (parse("http"), parse("https")) {
            (Ok(plain), Ok(secure)) if fits => self.allow(&plain)?.allow(&secure),
            _ => Err(Refusal::NotAUrl),
        }
    }

    /// Whether the operator put it on the list.
    pub fn is_allowed(&self, origin: &Origin) -> bool {
        self.allowed.contains(origin)
    }

    /// Checks all that a URL says by itself, and gives its origin. The
    /// addresses behind a name are checked where the connection is made.
    pub fn check(&self, url: &Url) -> Result<Origin, Refusal> {
        let origin = Origin::of(url)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refusal::UserInfo);
        }
        if self.is_allowed(&origin) {
            return Ok(origin);
        }
        if !matches!(origin.port(), 80 | 443) {
            return Err(Refusal::Port(origin.port()));
        }
        match origin.literal() {
            Some(address) if !is_public(address) => Err(Refusal::Address(origin)),
            _ => Ok(origin),
        }
    }
}

/// Reads a URL that came from data. Its text is not in the error.
pub fn parse_url(text: &str) -> Result<Url, Refusal> {
    let url = Url::parse(text.trim()).map_err(|_| Refusal::NotAUrl)?;
    if url.host_str().is_none_or(str::is_empty) {
        return Err(if matches!(url.scheme(), "http" | "https") {
            Refusal::NotAUrl
        } else {
            Refusal::Scheme
        });
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str) -> Result<Origin, Refusal> {
        Guard::new().check(&parse_url(url)?)
    }

    /// Fault 63: every spelling of an address inside is refused.
    #[test]
    fn fault_63_every_spelling_of_an_inner_address() {
        for host in [
            "127.0.0.1",
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f.1",
            "0x7f000001",
            "0177.0.0.1",
            "017700000001",
            "0",
            "0x0",
            "127.0.0.1.",
            "①②⑦.⓪.⓪.①",
            "127。0。0。1",
            "%31%32%37.0.0.1",
            "169.254.169.254",
            "2852039166",
            "0xa9.0xfe.0xa9.0xfe",
            "10.1",
            "192.168.257",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[0:0:0:0:0:ffff:a9fe:a9fe]",
            "[fd00:ec2::254]",
            "[fe80::1]",
            "[64:ff9b::7f00:1]",
        ] {
            for scheme in ["http", "https"] {
                let found = check(&format!("{scheme}://{host}/x"));
                assert!(matches!(found, Err(Refusal::Address(_))), "{scheme}://{host}: {found:?}");
            }
        }
    }

    #[test]
    fn fault_63_schemes_ports_and_user_info() {
        for (url, expected) in [
            ("file:///etc/passwd", Refusal::Scheme),
            ("gopher://example.com/", Refusal::Scheme),
            ("data:text/html,x", Refusal::Scheme),
            ("ftp://example.com/", Refusal::Scheme),
            ("http://example.com:22/", Refusal::Port(22)),
            ("https://example.com:6379/", Refusal::Port(6379)),
            ("https://user@example.com/", Refusal::UserInfo),
            ("https://:password@example.com/", Refusal::UserInfo),
            ("https://example.com@127.0.0.1/", Refusal::UserInfo),
            ("example.com", Refusal::NotAUrl),
            ("http://", Refusal::NotAUrl),
            ("http://1.2.3.4.5/", Refusal::NotAUrl),
            ("http://[::1", Refusal::NotAUrl),
            ("http://[fe80::1%25eth0]/", Refusal::NotAUrl),
        ] {
            assert_eq!(check(url).unwrap_err(), expected, "{url}");
        }
        assert_eq!(check("https://EXAMPLE.com:443/a?b#c").unwrap().to_string(), "https://example.com");
        assert_eq!(check("http://8.8.8.8:443/").unwrap().to_string(), "http://8.8.8.8:443");
    }

    #[test]
    fn hosts_on_the_list() {
        let guard = Guard::new().allow_host("127.0.0.1:9000").unwrap().allow_host(" [::1]:80 ").unwrap();
        let check = |url: &str| guard.check(&Url::parse(url).unwrap()).is_ok();
        assert!(
            check("http://127.0.0.1:9000/a") && check("https://127.0.0.1:9000/a") && check("http://[::1]/")
        );
        assert!(!check("http://127.0.0.1:9001/a"));
        for pair in ["", "localhost", "localhost:", "localhost:99999", "a@b:80", "a:80/b", "http://a:80"] {
            assert_eq!(Guard::new().allow_host(pair).err(), Some(Refusal::NotAUrl), "{pair}");
        }
    }

    #[test]
    fn the_list_is_by_scheme_host_and_port() {
        let guard = Guard::new().allow(&Url::parse("http://127.0.0.1:9000/v1").unwrap()).unwrap();
        let check = |url: &str| guard.check(&Url::parse(url).unwrap());
        assert!(check("http://127.0.0.1:9000/other").is_ok());
        assert!(check("http://2130706433:9000/").is_ok(), "the same origin in another spelling");
        assert!(check("https://127.0.0.1:9000/").is_err());
        assert!(check("http://127.0.0.1:9001/").is_err());
        assert!(check("http://localhost:9000/").is_err(), "another name is another origin");
    }
}
