//! TLS by rustls, with the roots of this machine.

use std::io;
use std::sync::{Arc, OnceLock};

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{CertificateError, ClientConfig, Error, RootCertStore};
use url::Host;

use super::error::HttpError;
use super::origin::Origin;

/// The client side of TLS. The roots are read when they are first needed: a
/// process that only talks to loopback never touches them.
#[derive(Clone, Default)]
pub(super) struct Tls {
    config: Arc<OnceLock<Arc<ClientConfig>>>,
    extra_roots: Arc<Vec<Vec<u8>>>,
}

impl Tls {
    pub(super) fn new(extra_roots: Vec<Vec<u8>>) -> Self {
        Self { config: Arc::default(), extra_roots: Arc::new(extra_roots) }
    }

    pub(super) async fn handshake(
        &self,
        origin: &Origin,
        tcp: TcpStream,
    ) -> Result<TlsStream<TcpStream>, HttpError> {
        let config = self.config()?;
        let name = match origin.host() {
            Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| HttpError::Tls {
                origin: origin.clone(),
                why: "its name cannot be in a certificate",
            })?,
            Host::Ipv4(address) => ServerName::from(std::net::IpAddr::from(*address)),
            Host::Ipv6(address) => ServerName::from(std::net::IpAddr::from(*address)),
        };
        let stream = TlsConnector::from(config).connect(name, tcp).await;
        stream.map_err(|error| failure(origin, &error))
    }

    fn config(&self) -> Result<Arc<ClientConfig>, HttpError> {
        if let Some(config) = self.config.get() {
            return Ok(config.clone());
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots.add_parsable_certificates(self.extra_roots.iter().map(|der| CertificateDer::from(der.clone())));
        if roots.is_empty() {
            return Err(HttpError::NoRoots);
        }
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|_| HttpError::NoRoots)?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(self.config.get_or_init(|| Arc::new(config)).clone())
    }
}

fn failure(origin: &Origin, error: &io::Error) -> HttpError {
    let origin = origin.clone();
    let Some(tls) = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) else {
        return HttpError::Cut { origin };
    };
    let why = match tls {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => "no known root signed its certificate",
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "its certificate is for another name",
        Error::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => {
            "its certificate has expired"
        }
        Error::InvalidCertificate(_) => "its certificate is not valid",
        Error::InvalidMessage(_) => "it does not speak TLS there",
        _ => "the handshake failed",
    };
    HttpError::Tls { origin, why }
}
