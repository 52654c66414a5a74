//! Whether and how a connection is encrypted: what `sslmode`, `sslrootcert`,
//! `sslcert` and `sslkey` in a URL say, with libpq's meaning.
//!
//! | sslmode | encrypted | whose certificate |
//! |---|---|---|
//! | `disable` | never | |
//! | `prefer` (when nothing is said) | when the server can | anybody's |
//! | `require` (and `ssl=true`) | always | anybody's; with `sslrootcert` as `verify-ca` |
//! | `verify-ca` | always | one that a known root has signed |
//! | `verify-full` | always | such a one, made for this host |

use std::sync::Arc;

use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::ServerCertVerifier;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use windlass_core::error::Invalid;

use self::verify::{AnyCertificate, AnyName};

mod verify;

/// The parameters of a URL that are about encryption.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Encryption {
    mode: Option<Mode>,
    /// What is said by other words than `sslmode`; the stricter of the two counts.
    also: Option<Mode>,
    root: Option<String>,
    certificate: Option<String>,
    key: Option<String>,
}

/// From the least strict to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

impl Encryption {
    /// Takes a parameter when it is one of ours.
    pub(crate) fn take(&mut self, name: &str, value: &str) -> Result<bool, Invalid> {
        match name {
            "sslmode" => self.mode = Some(mode(value)?),
            // As libpq reads it; `no-verify` is node-postgres' word.
            "ssl" => {
                self.also = Some(match value {
                    "true" | "1" | "no-verify" => Mode::Require,
                    "false" | "0" => Mode::Disable,
                    _ => return Err(Invalid::new("ssl", "is neither true nor false")),
                });
            }
            // Prisma's words.
            "sslaccept" => {
                self.also = Some(match value {
                    "strict" => Mode::VerifyFull,
                    "accept_invalid_certs" => Mode::Require,
                    _ => return Err(Invalid::new("sslaccept", "is neither strict nor accept_invalid_certs")),
                });
            }
            "sslrootcert" => self.root = Some(value.to_owned()),
            "sslcert" => self.certificate = Some(value.to_owned()),
            "sslkey" => self.key = Some(value.to_owned()),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What the driver has to ask the server for.
    pub(crate) fn asked(&self) -> SslMode {
        match self.mode() {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }

    /// What makes the encrypted connections.
    pub(crate) fn connector(&self) -> Result<MakeRustlsConnect, Invalid> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| Invalid::new("sslmode", format!("cannot be served: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(self.verifier()?);
        let config = match (&self.certificate, &self.key) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|why| unreadable("sslkey", key, &why))?;
                builder
                    .with_client_auth_cert(certificates("sslcert", certificate)?, key)
                    .map_err(|error| Invalid::new("sslcert", format!("does not fit sslkey: {error}")))?
            }
            _ => return Err(Invalid::new("sslcert", "and sslkey go together; give both or none")),
        };
        Ok(MakeRustlsConnect::new(config))
    }

    fn mode(&self) -> Mode {
        match (self.mode.max(self.also), &self.root) {
            (Some(Mode::Require), Some(_)) => Mode::VerifyCa,
            (Some(mode), _) => mode,
            (None, _) => Mode::Prefer,
        }
    }

    fn verifier(&self) -> Result<Arc<dyn ServerCertVerifier>, Invalid> {
        match self.mode() {
            Mode::Disable | Mode::Prefer | Mode::Require => Ok(Arc::new(AnyCertificate::new())),
            Mode::VerifyCa => Ok(Arc::new(AnyName(self.webpki()?))),
            Mode::VerifyFull => Ok(self.webpki()?),
        }
    }

    fn webpki(&self) -> Result<Arc<WebPkiServerVerifier>, Invalid> {
        let mut roots = RootCertStore::empty();
        let certificates = match self.root.as_deref() {
            None | Some("system") => rustls_native_certs::load_native_certs().certs,
            Some(file) => certificates("sslrootcert", file)?,
        };
        roots.add_parsable_certificates(certificates);
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
            .build()
            .map_err(|error| Invalid::new("sslrootcert", format!("holds no root that can be used: {error}")))
    }
}

fn mode(value: &str) -> Result<Mode, Invalid> {
    Ok(match value {
        "disable" => Mode::Disable,
        "allow" | "prefer" => Mode::Prefer,
        "require" | "no-verify" => Mode::Require,
        "verify-ca" => Mode::VerifyCa,
        "verify-full" => Mode::VerifyFull,
        other => {
            let why =
                format!("is {other:?}; it is one of disable, allow, prefer, require, verify-ca, verify-full");
            return Err(Invalid::new("sslmode", why));
        }
    })
}

fn certificates(field: &'static str, file: &str) -> Result<Vec<CertificateDer<'static>>, Invalid> {
    let found: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|why| unreadable(field, file, &why))?;
    match found.is_empty() {
        true => Err(Invalid::new(field, format!("names {file}, which holds no PEM certificate"))),
        false => Ok(found),
    }
}

fn unreadable(field: &'static str, file: &str, why: &dyn std::fmt::Display) -> Invalid {
    Invalid::new(field, format!("names {file}, which cannot be read as PEM: {why}"))
}
