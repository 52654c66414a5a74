//! Scheme, host and port: whom one talks to.

use std::fmt;
use std::net::IpAddr;

use url::{Host, Url};

use super::error::Refusal;

/// Scheme, host and port of an http or https URL, in their one normal spelling.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    https: bool,
    host: Host,
    port: u16,
}

impl Origin {
    /// The origin of a URL.
    pub fn of(url: &Url) -> Result<Self, Refusal> {
        let https = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(Refusal::Scheme),
        };
        let host = url.host().ok_or(Refusal::NotAUrl)?.to_owned();
        Ok(Self { https, host, port: url.port().unwrap_or(if https { 443 } else { 80 }) })
    }

    /// Whether it is spoken to by TLS.
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// The host, as a name or an address.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address, when the host is one.
    pub fn literal(&self) -> Option<IpAddr> {
        match self.host {
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
            Host::Domain(_) => None,
        }
    }
}

/// A configured address. A path can hold a key of a gateway, so only its
/// origin is printed.
#[derive(Clone)]
pub(crate) struct Base(pub(crate) Url);

impl fmt::Debug for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Origin::of(&self.0) {
            Ok(origin) => write!(f, "{origin}"),
            Err(_) => f.write_str("no origin"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.https { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == usual { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
