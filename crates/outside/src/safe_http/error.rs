//! What can become of a call, as types with stable codes.

use std::time::Duration;

use super::origin::Origin;
use crate::retry_after::RetryAfter;

/// Why a call did not give its answer.
///
/// The texts name the origin at most: never a path, a query, a header or a
/// body, for these carry tokens, ids and other people's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    /// The guard said no. Nothing was sent to the address in question.
    #[error("the call was refused: {0}")]
    Refused(#[from] Refusal),
    /// The whole exchange, from the connection to the last byte, took too long.
    #[error("{origin} did not finish its answer within {} ms; ask again later", .total.as_millis())]
    Timeout {
        /// Who was asked.
        origin: Origin,
        /// The limit.
        total: Duration,
    },
    /// The answer is larger than its limit, counted after decoding.
    #[error("{origin} sent more than {bytes_max} bytes; raise the limit if such answers are to be read")]
    TooLarge {
        /// Who was asked.
        origin: Origin,
        /// The limit.
        bytes_max: u64,
    },
    /// The answer pointed elsewhere once too often.
    #[error("{origin} redirected more than {hops_max} times; check the address")]
    TooManyRedirects {
        /// Who redirected last.
        origin: Origin,
        /// The limit.
        hops_max: u8,
    },
    /// A redirect that cannot be followed: without a target, or of a request that is not a GET.
    #[error("{origin} answered {status} with a redirect that is not followed; check the address")]
    BadRedirect {
        /// Who was asked.
        origin: Origin,
        /// The status code.
        status: u16,
    },
    /// The name has no address.
    #[error("the name of {origin} could not be resolved; check the address and the name server")]
    Resolve {
        /// Who was to be asked.
        origin: Origin,
    },
    /// No connection came about.
    #[error("no connection to {origin}: {why}; check that it is up and reachable")]
    Connect {
        /// Who was to be asked.
        origin: Origin,
        /// The operating system's kind of error.
        why: std::io::ErrorKind,
    },
    /// The other side could not prove who it is, or does not speak TLS.
    #[error("no secure connection to {origin}: {why}; check its certificate and this machine's roots")]
    Tls {
        /// Who was to be asked.
        origin: Origin,
        /// What was wrong, without anything that the other side sent.
        why: &'static str,
    },
    /// The proxy on the way said no.
    #[error(
        "the proxy {proxy} answered {status} on the way to {origin}; check HTTP_PROXY, HTTPS_PROXY and what it lets through"
    )]
    Proxy {
        /// The proxy, without its credentials.
        proxy: Origin,
        /// Who was to be asked.
        origin: Origin,
        /// The status code.
        status: u16,
    },
    /// The connection ended in the middle of the exchange.
    #[error("the connection to {origin} ended in the middle of the exchange; ask again")]
    Cut {
        /// Who was asked.
        origin: Origin,
    },
    /// What came is not HTTP, or not in an encoding that was asked for.
    #[error("{origin} did not answer in HTTP that can be read: {why}")]
    Garbled {
        /// Who was asked.
        origin: Origin,
        /// What was wrong.
        why: &'static str,
    },
    /// The compressed body ended too early, or was damaged on its way.
    #[error("{origin} sent a compressed answer that is cut short or damaged; ask again")]
    BrokenBody {
        /// Who was asked.
        origin: Origin,
    },
    /// The body that was to be sent could not be read.
    #[error("the body for {origin} could not be read: {why}")]
    Source {
        /// Who was asked.
        origin: Origin,
        /// The operating system's kind of error.
        why: std::io::ErrorKind,
    },
    /// An answer came, and its status is not a success.
    #[error("{origin} answered with status {status}")]
    Status {
        /// Who answered.
        origin: Origin,
        /// The status code.
        status: u16,
        /// When to ask again, if it said so.
        retry_after: Option<RetryAfter>,
    },
    /// This machine's root certificates could not be read.
    #[error("no root certificates were found on this machine; install ca-certificates or set SSL_CERT_FILE")]
    NoRoots,
}

impl HttpError {
    /// A short code that never changes, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Timeout { .. } => "timeout",
            Self::TooLarge { .. } => "too_large",
            Self::TooManyRedirects { .. } => "too_many_redirects",
            Self::BadRedirect { .. } => "bad_redirect",
            Self::Resolve { .. } => "resolve",
            Self::Connect { .. } => "connect",
            Self::Tls { .. } => "tls",
            Self::Proxy { .. } => "proxy",
            Self::Cut { .. } => "cut",
            Self::Garbled { .. } => "garbled",
            Self::BrokenBody { .. } => "broken_body",
            Self::Source { .. } => "source",
            Self::Status { .. } => "status",
            Self::NoRoots => "no_roots",
        }
    }

    /// Whether the same call may succeed later without anything else changing.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Timeout { .. }
            | Self::Resolve { .. }
            | Self::Connect { .. }
            | Self::Cut { .. }
            | Self::BrokenBody { .. }
            | Self::Source { .. } => true,
            Self::Status { status, .. } | Self::Proxy { status, .. } => status_is_transient(*status),
            Self::Refused(_)
            | Self::TooLarge { .. }
            | Self::TooManyRedirects { .. }
            | Self::BadRedirect { .. }
            | Self::Tls { .. }
            | Self::Garbled { .. }
            | Self::NoRoots => false,
        }
    }

    /// The status code, when an answer came.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// When the other side wants to be asked again, if it said so.
    pub fn retry_after(&self) -> Option<RetryAfter> {
        match self {
            Self::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

/// Whether an answer with this status may be another one later.
pub(crate) fn status_is_transient(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502..=504 | 507 | 509 | 520..=599)
}

/// Why the guard said no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not an absolute URL with a host.
    #[error("it is not a URL with a host")]
    NotAUrl,
    /// Neither http nor https.
    #[error("only http and https are spoken")]
    Scheme,
    /// A user name or password within the URL.
    #[error("the URL carries a user name or password; credentials are given apart")]
    UserInfo,
    /// A port that is not allowed.
    #[error("port {0} is not among the allowed ones; add the base to the allow-list if it is yours")]
    Port(u16),
    /// An address inside: loopback, private, link-local, metadata and the like.
    #[error("{0} leads to an address that is not public; add the base to the allow-list if it is yours")]
    Address(Origin),
    /// Credentials for another origin than the one that is asked.
    #[error("credentials for {meant} are not sent to {asked}")]
    Credentials {
        /// Whose credentials they are.
        meant: Origin,
        /// Who would have got them.
        asked: Origin,
    },
    /// Credentials over a connection that anybody can read.
    #[error("credentials are not sent to {0} without TLS")]
    Plain(Origin),
    /// A header whose name or value cannot be sent.
    #[error("a header cannot be sent: {0}")]
    Header(&'static str),
}
