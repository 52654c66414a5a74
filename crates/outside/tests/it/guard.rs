//! Nothing inside is reached, by no spelling, no name and no redirect.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use windlass_outside::safe_http::{Credentials, Guard, Http, HttpError, Proxies, Refusal, Request, Resolve};
use windlass_outside::secret::Secret;
use windlass_standins::{Answer, Ask, Fault, Server};

use crate::common::{http, limits, url};

async fn secretive() -> Server {
    Server::start(|_: &Ask| Answer::new(200, "text/plain", "the secret")).await
}

/// Answers with what it was given, and counts.
#[derive(Default)]
struct Names {
    known: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: AtomicUsize,
}

impl Names {
    fn add(&self, name: &str, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.known.lock().unwrap().entry(name.to_owned()).or_default().push(addresses);
    }
}

#[async_trait]
impl Resolve for Names {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let mut known = self.known.lock().unwrap();
        let answers = known.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() })
    }
}

/// Fault 63: neither by itself nor through a redirect does any spelling of
/// loopback lead to a server there.
#[tokio::test]
async fn fault_63_redirects_to_inner_addresses() {
    let (door, inside) = (secretive().await, secretive().await);
    let http = http(&[door.url()]);
    let port = inside.address().port();
    for host in ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "localhost", "0"] {
        for target in
            [format!("http://{host}:{port}/"), format!("http://{host}/"), format!("//{host}:{port}/")]
        {
            door.faults.push(Fault::Redirect(302, target.clone()));
            let error = http.send(Request::get(url(&door.url())).limits(limits())).await.unwrap_err();
            assert!(matches!(error, HttpError::Refused(_)), "{target}: {error:?}");
            let direct = Request::get(url(&door.url()).join(&target).unwrap()).limits(limits());
            assert!(matches!(http.send(direct).await.unwrap_err(), HttpError::Refused(_)), "{target}");
        }
    }
    assert!(inside.asked().is_empty());
}

/// Fault 63: a name is judged by all of its addresses, and asked for once per connection.
#[tokio::test]
async fn fault_63_names_that_lead_inside() {
    let names = Arc::new(Names::default());
    names.add("inner.test", &["127.0.0.1"]);
    names.add("both.test", &["8.8.8.8", "10.0.0.1"]);
    names.add("mapped.test", &["::ffff:127.0.0.1"]);
    names.add("metadata.test", &["169.254.169.254"]);
    let http = Http::build(Guard::new(), Proxies::default(), names.clone(), Vec::new());
    for name in ["inner.test", "both.test", "mapped.test", "metadata.test"] {
        for scheme in ["http", "https"] {
            let request = Request::get(url(&format!("{scheme}://{name}/"))).limits(limits());
            let error = http.send(request).await.unwrap_err();
            assert!(matches!(error, HttpError::Refused(Refusal::Address(_))), "{name}: {error:?}");
        }
    }
    assert_eq!(names.asked.load(Ordering::SeqCst), 8);
    let unknown = http.send(Request::get(url("http://unknown.test/"))).await.unwrap_err();
    assert_eq!((unknown.code(), unknown.is_transient()), ("resolve", true));
}

/// Fault 63, rebinding: the address that was checked is the one that is used.
/// A second question would have been answered otherwise.
#[tokio::test]
async fn fault_63_the_checked_address_is_the_used_one() {
    let server = secretive().await;
    let base = format!("http://api.test:{}", server.address().port());
    let names = Arc::new(Names::default());
    names.add("api.test", &["127.0.0.1"]);
    names.add("api.test", &["192.0.2.1"]);
    let http =
        Http::build(Guard::new().allow(&url(&base)).unwrap(), Proxies::default(), names.clone(), Vec::new());
    let answer = http.send(Request::get(url(&base)).limits(limits())).await.unwrap();
    assert_eq!(&answer.bytes().await.unwrap()[..], b"the secret");
    assert_eq!(names.asked.load(Ordering::SeqCst), 1);
    assert_eq!(server.asked()[0].header("host"), Some(base.trim_start_matches("http://")));
}

fn bearer(base: &str) -> Credentials {
    Credentials::bearer(&url(base), &Secret::new("canary-token".to_owned())).unwrap()
}

/// Credentials stay with their origin, and do not come back once they were left behind.
#[tokio::test]
async fn credentials_do_not_travel() {
    let (home, away) = (secretive().await, secretive().await);
    let http = http(&[home.url(), away.url()]);
    home.faults.push(Fault::Redirect(302, "/same-host".to_owned()));
    home.faults.push(Fault::Redirect(307, away.url()));
    away.faults.push(Fault::Redirect(307, format!("{}/back", home.url())));
    let request = Request::get(url(&home.url())).limits(limits()).credentials(bearer(&home.url()));
    http.send(request).await.unwrap().ok().unwrap();
    let came: Vec<bool> = home.asked().iter().map(Ask::has_credentials).collect();
    assert_eq!(came, [true, true, false]);
    assert!(!away.asked()[0].has_credentials());
}

#[tokio::test]
async fn credentials_for_somebody_else_or_in_clear_are_refused() {
    let (home, away) = (secretive().await, secretive().await);
    let client = http(&[home.url(), away.url()]);
    let request = Request::get(url(&away.url())).credentials(bearer(&home.url()));
    let error = client.send(request).await.unwrap_err();
    assert!(matches!(error, HttpError::Refused(Refusal::Credentials { .. })), "{error:?}");
    let request = Request::get(url("http://example.com/")).credentials(bearer("http://example.com/"));
    let error = client.send(request).await.unwrap_err();
    assert!(matches!(error, HttpError::Refused(Refusal::Plain(_))), "{error:?}");
    assert!(away.asked().is_empty());
}

/// A proxy in the environment would be the one that is connected to, and the
/// guard would judge its address instead of the target's.
#[test]
fn proxies_of_the_environment_are_not_used() {
    if std::env::var_os("HTTP_PROXY").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "guard::proxies_of_the_environment_are_not_used"])
            .env("HTTP_PROXY", "http://127.0.0.1:1")
            .env("http_proxy", "http://127.0.0.1:1")
            .env("ALL_PROXY", "http://127.0.0.1:1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = secretive().await;
        let answer = http(&[server.url()]).send(Request::get(url(&server.url())).limits(limits())).await;
        assert_eq!(answer.unwrap().status(), 200);
    });
}
