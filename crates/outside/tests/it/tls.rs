//! Certificates, and what they are for.

use std::sync::Arc;

use rcgen::{CertificateParams, DnType, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use windlass_outside::safe_http::{
    Credentials, Guard, Http, HttpError, Proxies, Refusal, Request, SystemResolver,
};
use windlass_outside::secret::Secret;
use windlass_standins::{Answer, Ask, Proxy, Raw, Server};

use crate::common::{http, limits, url};

/// A server with TLS that gives every connection one answer. Its certificate is for `name`.
async fn server(name: &str, answer: String) -> (u16, Vec<u8>) {
    let mut params = CertificateParams::new([name.to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    let signing_key = KeyPair::generate().unwrap();
    let cert = params.self_signed(&signing_key).unwrap();
    let der = cert.der().to_vec();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let Ok(mut tls) = acceptor.accept(tcp).await else { continue };
            let _ = tls.read(&mut [0; 4096]).await;
            let _ = tls.write_all(answer.as_bytes()).await;
            let _ = tls.shutdown().await;
        }
    });
    (port, der)
}

fn client(base: &str, also: &[&str], roots: Vec<Vec<u8>>) -> Http {
    let guard = also.iter().chain([&base]).fold(Guard::new(), |guard, base| guard.allow(&url(base)).unwrap());
    Http::build(guard, Proxies::default(), Arc::new(SystemResolver), roots)
}

const HELLO: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

#[tokio::test]
async fn a_known_certificate() {
    let (port, root) = server("localhost", HELLO.to_owned()).await;
    let base = format!("https://localhost:{port}");
    let answer =
        client(&base, &[], vec![root]).send(Request::get(url(&base)).limits(limits())).await.unwrap();
    assert_eq!(&answer.bytes().await.unwrap()[..], b"hello");
}

#[tokio::test]
async fn an_unknown_certificate_and_a_wrong_name() {
    let (port, root) = server("other.test", HELLO.to_owned()).await;
    let (_, stranger) = server("stranger.test", HELLO.to_owned()).await;
    let base = format!("https://localhost:{port}");
    for (root, expected) in
        [(stranger, "no known root signed its certificate"), (root, "its certificate is for another name")]
    {
        let error =
            client(&base, &[], vec![root]).send(Request::get(url(&base)).limits(limits())).await.unwrap_err();
        let HttpError::Tls { why, .. } = &error else { panic!("{error:?}") };
        assert_eq!(*why, expected);
        assert!(!error.is_transient());
    }
}

#[tokio::test]
async fn a_server_without_tls() {
    let plain = Server::start(|_: &Ask| Answer::new(200, "text/plain", "hello")).await;
    let base = plain.url().replace("http://", "https://");
    let (_, root) = server("localhost", HELLO.to_owned()).await;
    let error =
        client(&base, &[], vec![root]).send(Request::get(url(&base)).limits(limits())).await.unwrap_err();
    assert!(matches!(error, HttpError::Tls { .. }), "{error:?}");
    let error = http(&[plain.url()]).send(Request::get(url(&base))).await.unwrap_err();
    assert!(matches!(error, HttpError::Refused(Refusal::Port(_))), "{error:?}");
}

/// What was asked for with credentials is not fetched in clear, even without them.
#[tokio::test]
async fn no_redirect_from_tls_to_clear() {
    let plain = Server::start(|_: &Ask| Answer::new(200, "text/plain", "hello")).await;
    let redirect = format!("HTTP/1.1 302 Found\r\nlocation: {}\r\ncontent-length: 0\r\n\r\n", plain.url());
    let (port, root) = server("localhost", redirect).await;
    let base = format!("https://localhost:{port}");
    let credentials = Credentials::bearer(&url(&base), &Secret::new("t".to_owned())).unwrap();
    let client = client(&base, &[&plain.url()], vec![root]);
    let error =
        client.send(Request::get(url(&base)).limits(limits()).credentials(credentials)).await.unwrap_err();
    assert!(matches!(error, HttpError::Refused(Refusal::Plain(_))), "{error:?}");
    assert!(plain.asked().is_empty());
    let answer = client.send(Request::get(url(&base)).limits(limits())).await.unwrap();
    assert_eq!(answer.status(), 200);
}

/// Through a proxy the certificate is still the server's own, and what the proxy wants to know stays with it.
#[tokio::test]
async fn tls_through_a_proxy() {
    let (port, root) = server("localhost", HELLO.to_owned()).await;
    let base = format!("https://localhost:{port}");
    let proxy = Proxy::start("user:pass").await;
    let through = |address: String, also: Option<(&'static str, &'static str)>| {
        let proxies = Proxies::read(|name| match name {
            "HTTPS_PROXY" => Some(address.as_str()),
            name => also.filter(|(key, _)| *key == name).map(|(_, value)| value),
        });
        let guard = Guard::new().allow(&url(&base)).unwrap();
        Http::build(guard, proxies.unwrap(), Arc::new(SystemResolver), vec![root.clone()])
    };
    let ask = || Request::get(url(&base)).limits(limits());
    let answer = through(proxy.url(), None).send(ask()).await.unwrap();
    assert_eq!(&answer.bytes().await.unwrap()[..], b"hello");
    assert_eq!(proxy.asked(), [format!("CONNECT localhost:{port} HTTP/1.1")]);

    let wrong = through(proxy.url().replace("pass", "canary"), None).send(ask()).await.unwrap_err();
    assert!(matches!(wrong, HttpError::Proxy { status: 407, .. }) && !wrong.is_transient(), "{wrong:?}");
    assert!(!format!("{wrong} {wrong:?}").contains("canary"));
    let direct = through(proxy.url(), Some(("NO_PROXY", "localhost"))).send(ask()).await.unwrap();
    assert_eq!(direct.status(), 200);
    assert_eq!(proxy.asked().len(), 1);

    // A proxy that is not there is named, and may be there later; one that speaks nonsense is not trusted.
    let gone = through("http://127.0.0.1:1".to_owned(), None).send(ask()).await.unwrap_err();
    assert!(gone.is_transient() && gone.to_string().contains("http://127.0.0.1:1"), "{gone}");
    let raw = Raw::start("SSH-2.0-OpenSSH_9.6\r\n\r\n").await;
    let garbled = through(format!("http://{}", raw.address()), None).send(ask()).await.unwrap_err();
    assert!(matches!(garbled, HttpError::Garbled { why: "it is not a proxy", .. }), "{garbled:?}");
}
