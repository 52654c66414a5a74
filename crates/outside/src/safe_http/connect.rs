//! Where a name becomes an address and an address becomes a connection.
//!
//! This is the one place that opens sockets. Each address is checked here,
//! literal or resolved, and the connection goes to the very address that was
//! checked: no second look-up that could answer otherwise.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower_service::Service;
use url::{Host, Url};

use super::address::is_public;
use super::error::{HttpError, Refusal};
use super::guard::Guard;
use super::origin::Origin;
use super::proxy::{Proxies, Proxy};
use super::tls::Tls;

/// How long one address may take to answer before the next one is tried.
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(3);
/// How many addresses of a name are tried.
const ADDRESSES_MAX: usize = 8;

/// Who turns names into addresses.
#[async_trait]
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of a name.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// The operating system's resolver.
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// Opens connections for the pool of hyper.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) guard: Arc<Guard>,
    pub(super) proxies: Arc<Proxies>,
    pub(super) resolver: Arc<dyn Resolve>,
    pub(super) tls: Tls,
}

impl Connector {
    async fn connect(self, uri: Uri) -> Result<Conn, HttpError> {
        let url = Url::parse(&uri.to_string()).map_err(|_| Refusal::NotAUrl)?;
        let origin = self.guard.check(&url)?;
        let proxy = self.proxies.on_the_way(&origin, &self.guard);
        let tcp = match proxy {
            None => open(&origin, &self.addresses(&origin).await?).await?,
            Some(proxy) => self.open_through(proxy, &origin).await?,
        };
        // A request is written in one piece; waiting for more only delays it.
        let _ = tcp.set_nodelay(true);
        let proxied = proxy.is_some() && !origin.is_https();
        let io: Box<dyn Stream> =
            if origin.is_https() { Box::new(self.tls.handshake(&origin, tcp).await?) } else { Box::new(tcp) };
        Ok(Conn { io: TokioIo::new(io), proxied })
    }

    /// A connection to a proxy and, for TLS, through it. The operator named it,
    /// so it may be anywhere.
    async fn open_through(&self, proxy: &Proxy, origin: &Origin) -> Result<TcpStream, HttpError> {
        let found = self.resolved(&proxy.origin).await?;
        let mut tcp = open(&proxy.origin, &with_port(found, &proxy.origin)).await?;
        if origin.is_https() {
            proxy.tunnel(origin, &mut tcp).await?;
        }
        Ok(tcp)
    }

    async fn resolved(&self, origin: &Origin) -> Result<Vec<IpAddr>, HttpError> {
        Ok(match origin.host() {
            Host::Ipv4(address) => vec![IpAddr::from(*address)],
            Host::Ipv6(address) => vec![IpAddr::from(*address)],
            Host::Domain(name) => {
                let found = self.resolver.resolve(name).await;
                found.map_err(|_| HttpError::Resolve { origin: origin.clone() })?
            }
        })
    }

    async fn addresses(&self, origin: &Origin) -> Result<Vec<SocketAddr>, HttpError> {
        let found = self.resolved(origin).await?;
        // A name that points both outside and inside is an attack or a mistake: no part of it is used.
        if !self.guard.is_allowed(origin) && !found.iter().all(|address| is_public(*address)) {
            return Err(Refusal::Address(origin.clone()).into());
        }
        if found.is_empty() {
            return Err(HttpError::Resolve { origin: origin.clone() });
        }
        Ok(with_port(found, origin))
    }
}

fn with_port(mut found: Vec<IpAddr>, origin: &Origin) -> Vec<SocketAddr> {
    found.truncate(ADDRESSES_MAX);
    found.into_iter().map(|address| SocketAddr::new(address, origin.port())).collect()
}

async fn open(origin: &Origin, addresses: &[SocketAddr]) -> Result<TcpStream, HttpError> {
    let mut why = io::ErrorKind::NotConnected;
    for address in addresses {
        match tokio::time::timeout(ADDRESS_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => return Ok(tcp),
            Ok(Err(error)) => why = error.kind(),
            Err(_) => why = io::ErrorKind::TimedOut,
        }
    }
    Err(HttpError::Connect { origin: origin.clone(), why })
}

impl Service<Uri> for Connector {
    type Response = Conn;
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<Conn, HttpError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), HttpError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

trait Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Stream for T {}

/// An open connection, plain or with TLS.
pub(super) struct Conn {
    io: TokioIo<Box<dyn Stream>>,
    /// Whether a proxy reads the requests; then they name their whole address.
    proxied: bool,
}

impl Connection for Conn {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.proxied)
    }
}

impl Read for Conn {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Conn {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
