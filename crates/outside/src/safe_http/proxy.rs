//! Proxies of a network that lets nobody out directly.
//!
//! Who goes through a proxy is looked up there by the proxy, so the guard can
//! not see where a name leads. Hence only addresses that the operator chose go
//! that way: bases from settings, and where their providers redirect to. What
//! came from data goes out directly, past the guard, unless the operator says
//! that the proxy is to be the guard.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::{Host, Url};

use super::error::{HttpError, Refusal};
use super::guard::Guard;
use super::origin::Origin;

/// The longest head of a proxy's answer.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// One proxy.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) origin: Origin,
    /// What goes into `Proxy-Authorization`.
    pub(super) credentials: Option<HeaderValue>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.origin)
    }
}

/// Which proxies there are, and for whom. The default is none.
#[derive(Debug, Clone, Default)]
pub struct Proxies {
    http: Option<Arc<Proxy>>,
    https: Option<Arc<Proxy>>,
    except: Vec<Exception>,
    providers: Vec<Origin>,
    for_data: bool,
}

/// Why the proxies cannot be used. The text has nothing of their addresses,
/// which carry credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{name} must be {wanted}")]
pub struct BadProxy {
    name: &'static str,
    wanted: &'static str,
}

impl BadProxy {
    fn address(name: &'static str) -> Self {
        let wanted =
            "the address of a proxy, http://HOST:PORT, with USER:PASSWORD@ before the host if it wants them";
        Self { name, wanted }
    }
}

impl Proxies {
    /// Reads `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, of which the spelling
    /// in small letters goes first, and `FETCH_VIA_PROXY`.
    pub fn read<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Result<Self, BadProxy> {
        let either = |name: &str| variable(&name.to_ascii_lowercase()).or_else(|| variable(name));
        let proxy = |name: &'static str| match either(name).map(str::trim).filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => {
                Proxy::parse(text).map(|proxy| Some(Arc::new(proxy))).ok_or(BadProxy::address(name))
            }
        };
        let except = either("NO_PROXY").unwrap_or_default().split([',', ' ']).filter_map(Exception::parse);
        Ok(Self {
            http: proxy("HTTP_PROXY")?,
            https: proxy("HTTPS_PROXY")?,
            except: except.collect(),
            providers: Vec::new(),
            for_data: for_data(variable("FETCH_VIA_PROXY"))?,
        })
    }

    /// Adds an origin that a provider may redirect to.
    #[must_use]
    pub fn provider(mut self, origin: Origin) -> Self {
        self.providers.push(origin);
        self
    }

    /// Whether there is no proxy at all.
    pub fn is_empty(&self) -> bool {
        self.http.is_none() && self.https.is_none()
    }

    /// Whether addresses from data go through the proxy, too: it is the guard then.
    pub fn is_for_data(&self) -> bool {
        self.for_data && !self.is_empty()
    }

    /// The proxies as they may be shown, for http and for https.
    pub fn shown(&self) -> [Option<String>; 2] {
        [&self.http, &self.https].map(|proxy| proxy.as_ref().map(|proxy| proxy.origin.to_string()))
    }

    /// The proxy on the way to an origin; nothing when the way is direct.
    pub(super) fn on_the_way(&self, origin: &Origin, guard: &Guard) -> Option<&Arc<Proxy>> {
        let chosen = self.for_data || guard.is_allowed(origin) || self.providers.contains(origin);
        if !chosen || self.except.iter().any(|exception| exception.fits(origin)) {
            return None;
        }
        if origin.is_https() { self.https.as_ref() } else { self.http.as_ref() }
    }
}

impl Proxy {
    fn parse(text: &str) -> Option<Self> {
        let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&text).ok()?;
        // To speak TLS to the proxy itself, or SOCKS, is not in our power.
        if url.scheme() != "http" || url.host_str().is_none_or(str::is_empty) {
            return None;
        }
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => {
                let pair =
                    [user, password.unwrap_or_default()].map(|part| percent_decode_str(part).collect());
                let pair: [Vec<u8>; 2] = pair;
                let pair = STANDARD.encode(pair.join(&b':'));
                let mut value = HeaderValue::from_str(&format!("Basic {pair}")).ok()?;
                value.set_sensitive(true);
                Some(value)
            }
        };
        Some(Self { origin: Origin::of(&url).ok()?, credentials })
    }

    /// Asks for a way through to an origin.
    pub(super) async fn tunnel(&self, to: &Origin, tcp: &mut TcpStream) -> Result<(), HttpError> {
        let target = format!("{}:{}", to.host(), to.port());
        let mut ask = format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n").into_bytes();
        if let Some(credentials) = &self.credentials {
            ask.extend_from_slice(b"proxy-authorization: ");
            ask.extend_from_slice(credentials.as_bytes());
            ask.extend_from_slice(b"\r\n");
        }
        ask.extend_from_slice(b"\r\n");
        let cut = |_| HttpError::Cut { origin: self.origin.clone() };
        tcp.write_all(&ask).await.map_err(cut)?;
        match status(&self.head(tcp).await?) {
            Some(200..=299) => Ok(()),
            Some(status) => Err(self.refused(to, status)),
            None => Err(HttpError::Garbled { origin: self.origin.clone(), why: "it is not a proxy" }),
        }
    }

    /// The proxy's own refusal of the way to an origin.
    pub(super) fn refused(&self, to: &Origin, status: u16) -> HttpError {
        HttpError::Proxy { proxy: self.origin.clone(), origin: to.clone(), status }
    }

    /// All up to the blank line, and not a byte more: what follows is the tunnel's.
    async fn head(&self, tcp: &mut TcpStream) -> Result<Vec<u8>, HttpError> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = tcp.read_u8().await.map_err(|_| HttpError::Cut { origin: self.origin.clone() })?;
            head.push(byte);
            if head.len() > HEAD_BYTES_MAX {
                return Err(HttpError::Garbled { origin: self.origin.clone(), why: "its head is too large" });
            }
        }
        Ok(head)
    }
}

fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let line = std::str::from_utf8(line).ok()?.strip_prefix("HTTP/1.")?;
    line.get(2..5)?.parse().ok()
}

/// Somebody who is reached directly.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Exception {
    Everybody,
    /// A name and all names below it.
    Name(String, Option<u16>),
    /// An address, or all with the same first bits.
    Network(IpAddr, u32, Option<u16>),
}

impl Exception {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        if text.is_empty() {
            return None;
        }
        if text == "*" {
            return Some(Self::Everybody);
        }
        if let Some((address, bits)) = text.split_once('/') {
            let address: IpAddr = address.parse().ok()?;
            return Some(Self::Network(address, bits.parse().ok()?, None));
        }
        let (name, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((name, rest)) => (name, rest.strip_prefix(':')),
            None if text.parse::<IpAddr>().is_ok() => (text.as_str(), None),
            None => text.rsplit_once(':').map_or((text.as_str(), None), |(name, port)| (name, Some(port))),
        };
        // A port that is none would make an exception of all ports.
        let port = port.map(|port| port.parse::<u16>().map_err(drop)).transpose().ok()?;
        if let Ok(address) = name.parse::<IpAddr>() {
            return Some(Self::Network(address, 128, port));
        }
        Some(Self::Name(name.trim_start_matches("*.").trim_start_matches('.').to_owned(), port))
    }

    fn fits(&self, origin: &Origin) -> bool {
        let at = |port: &Option<u16>| port.is_none_or(|port| port == origin.port());
        match (self, origin.host()) {
            (Self::Everybody, _) => true,
            (Self::Name(name, port), Host::Domain(host)) => {
                let below =
                    host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
                below && at(port)
            }
            (Self::Network(network, bits, port), _) => {
                origin.literal().is_some_and(|address| shares(*network, address, *bits)) && at(port)
            }
            (Self::Name(..), _) => false,
        }
    }
}

/// Whether two addresses have their first bits in common.
fn shares(one: IpAddr, other: IpAddr, bits: u32) -> bool {
    let (one, other) = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (u128::from(one.to_bits()) << 96, u128::from(other.to_bits()) << 96)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits()),
        _ => return false,
    };
    (one ^ other).checked_shr(128 - bits.min(128)).unwrap_or(0) == 0
}

/// The origins that a provider may redirect to, from their addresses.
pub fn origins<'a>(addresses: impl IntoIterator<Item = &'a str>) -> Result<Vec<Origin>, Refusal> {
    addresses.into_iter().map(|text| Origin::of(&super::parse_url(text)?)).collect()
}

/// Who means yes must not get no in silence.
fn for_data(said: Option<&str>) -> Result<bool, BadProxy> {
    match said.map(str::trim).unwrap_or_default() {
        "1" | "true" => Ok(true),
        "" | "0" | "false" => Ok(false),
        _ => Err(BadProxy { name: "FETCH_VIA_PROXY", wanted: "1 or 0" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &'static [(&'static str, &'static str)]) -> Result<Proxies, BadProxy> {
        Proxies::read(move |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| *value))
    }

    fn origin(text: &str) -> Origin {
        Origin::of(&Url::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn who_goes_through_which_proxy() {
        let proxies = read(&[
            ("HTTP_PROXY", "http://one:3128"),
            ("HTTPS_PROXY", "http://two:3128"),
            ("https_proxy", "three:8080"),
            ("NO_PROXY", "inner.example, .corp.example:8443,10.0.0.0/8,192.168.1.7 [fd00::1]:80"),
        ])
        .unwrap()
        .provider(origin("https://consent.example"));
        let bases = [
            "https://api.example",
            "http://api.example",
            "https://inner.example",
            "https://a.inner.example",
            "https://winner.example",
            "https://x.corp.example:8443",
            "https://x.corp.example",
            "http://10.2.3.4",
            "http://11.2.3.4",
            "http://192.168.1.7:9000",
            "http://[fd00::1]",
            "http://[fd00::1]:81",
        ];
        let guard =
            bases.iter().fold(Guard::new(), |guard, base| guard.allow(&Url::parse(base).unwrap()).unwrap());
        for (to, expected) in [
            ("https://api.example", Some("http://three:8080")),
            ("http://api.example", Some("http://one:3128")),
            ("https://consent.example", Some("http://three:8080")),
            ("https://inner.example", None),
            ("https://a.inner.example", None),
            ("https://winner.example", Some("http://three:8080")),
            ("https://x.corp.example:8443", None),
            ("https://x.corp.example", Some("http://three:8080")),
            ("http://10.2.3.4", None),
            ("http://11.2.3.4", Some("http://one:3128")),
            ("http://192.168.1.7:9000", None),
            ("http://[fd00::1]", None),
            ("http://[fd00::1]:81", Some("http://one:3128")),
            ("https://from-data.example", None),
        ] {
            let found = proxies.on_the_way(&origin(to), &guard).map(|proxy| proxy.origin.to_string());
            assert_eq!(found.as_deref(), expected, "{to}");
        }
        assert_eq!(
            read(&[("FETCH_VIA_PROXY", "yes")]).unwrap_err().to_string(),
            "FETCH_VIA_PROXY must be 1 or 0"
        );
        let all = read(&[("HTTPS_PROXY", "http://p:1"), ("FETCH_VIA_PROXY", "1")]).unwrap();
        assert!(all.is_for_data());
        assert!(all.on_the_way(&origin("https://from-data.example"), &Guard::new()).is_some());
        assert!(
            !read(&[("FETCH_VIA_PROXY", "1")]).unwrap().is_for_data(),
            "without a proxy nothing goes through it"
        );
        let none =
            read(&[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", "*"), ("FETCH_VIA_PROXY", "1")]).unwrap();
        assert!(none.on_the_way(&origin("https://x.example"), &Guard::new()).is_none());
    }

    /// Fault 71: what a proxy wants to know is not shown to anybody else.
    #[test]
    fn fault_71_credentials_of_a_proxy_are_not_shown() {
        let proxies = read(&[("HTTPS_PROXY", "http://user:canary%40x@proxy.example:3128")]).unwrap();
        let shown = format!("{proxies:?} {:?}", proxies.shown());
        assert!(shown.contains("proxy.example:3128") && !shown.contains("canary"), "{shown}");
        let credentials = proxies.https.unwrap().credentials.clone().unwrap();
        assert_eq!(credentials.to_str().unwrap(), format!("Basic {}", STANDARD.encode("user:canary@x")));
        for bad in ["socks5://canary@host:1", "https://canary@host", "http://", "http://ho st"] {
            let pairs: &'static [(&str, &str)] = Box::leak(Box::new([("HTTP_PROXY", bad)]));
            let text = read(pairs).unwrap_err().to_string();
            assert!(text.starts_with("HTTP_PROXY") && !text.contains("canary"), "{text}");
        }
    }
}
