//! Articles of web sites that behave and of those that do not.

use std::time::Duration;

use windlass_outside::article::{Agent, Article, ArticleError, Articles, Settings};
use windlass_outside::retry_after::RetryAfter;
use windlass_outside::safe_http::{Guard, Http, HttpError, Limits, Refusal};
use windlass_standins::{Answer, Fault, Packing, Server, Sites};

use crate::common::hasty;

const DAY_MS: u64 = 24 * 3600 * 1000;

fn settings() -> Settings {
    let agent = Agent::new("windlass-news", "0.1", "https://example.org/bot").unwrap();
    let settings = Settings::new(agent);
    let limits = Limits { total: Duration::from_secs(30), ..settings.limits };
    Settings { limits, ..settings }
}

fn articles(hosts: &[String], settings: Settings) -> Articles {
    let guard = hosts.iter().fold(Guard::new(), |guard, host| guard.allow_host(host).unwrap());
    Articles::new(Http::new(guard), settings)
}

async fn fetch(sites: &Sites, path: &str) -> Result<Article, ArticleError> {
    articles(&[sites.host()], settings()).fetch(&sites.page(path), 0).await
}

async fn refused(sites: &Sites, path: &str, code: &str, transient: bool) {
    let error = fetch(sites, path).await.unwrap_err();
    assert_eq!((error.code(), error.is_transient()), (code, transient), "{path}: {error}");
}

#[tokio::test]
async fn an_article_is_read() {
    let sites = Sites::start().await;
    let article = fetch(&sites, "/articles/7").await.unwrap();
    assert!(article.text.starts_with("Paragraph 1 about Bitcoin report 7: the price"), "{}", article.text);
    assert!(article.text.contains("better than expected & nobody had asked for them.\nParagraph 2"));
    for not in ["not to be read", "Home", "Imprint"] {
        assert!(!article.text.contains(not), "{not}: {}", article.text);
    }
    assert_eq!(article.url.as_str(), sites.page("/articles/7"));
    let asked = &sites.asked()[0];
    assert_eq!(asked.header("user-agent"), Some("windlass-news/0.1 (+https://example.org/bot)"));
    assert_eq!(asked.header("accept-encoding"), Some("gzip, deflate, br"));
    assert!(!asked.has_credentials());
    let short = Settings { chars_max: 11, ..settings() };
    let article = articles(&[sites.host()], short).fetch(&sites.page("/articles/7"), 0).await.unwrap();
    assert_eq!(article.text, "Paragraph 1");
}

#[tokio::test]
async fn every_encoding() {
    let sites = Sites::start().await;
    let expected = fetch(&sites, "/articles/7").await.unwrap().text;
    let html = Sites::article("Bitcoin report 7");
    let page = || Answer::new(200, "text/html", html.clone());
    for packing in [Packing::Deflate, Packing::RawDeflate, Packing::Brotli] {
        sites.put("/packed", Sites::packed(page(), packing));
        assert_eq!(fetch(&sites, "/packed").await.unwrap().text, expected, "{packing:?}");
    }
    sites.put("/odd", page().with("content-encoding", "zstd"));
    refused(&sites, "/odd", "garbled", false).await;
    let zeros = Answer::new(200, "text/html", vec![b' '; 20_000_000]);
    for packing in [Packing::Deflate, Packing::Brotli] {
        sites.put("/bomb", Sites::packed(zeros.clone(), packing));
        refused(&sites, "/bomb", "too_large", false).await;
    }
}

#[tokio::test]
async fn every_charset() {
    let sites = Sites::start().await;
    let html = Sites::article("caf\u{e9}").replace("<meta charset=\"utf-8\">", "");
    let latin: Vec<u8> = html.chars().map(|letter| letter as u8).collect();
    let with_meta = [b"<meta charset=iso-8859-1>".to_vec(), latin.clone()].concat();
    for (content_type, body) in [
        ("text/html; charset=ISO-8859-1", latin.clone()),
        ("text/html", with_meta),
        ("text/html", latin),
        ("text/html", html.into_bytes()),
        ("application/xhtml+xml", Sites::article("caf\u{e9}").into_bytes()),
    ] {
        sites.put("/page", Answer::new(200, content_type, body));
        let text = fetch(&sites, "/page").await.unwrap().text;
        assert!(text.starts_with("Paragraph 1 about café: the price"), "{content_type}: {text}");
    }
}

#[tokio::test]
async fn pages_that_are_no_articles() {
    let sites = Sites::start().await;
    refused(&sites, "/none", "status", false).await;
    for essence in ["application/pdf", "text/plain", "image/png", "application/json", "text/htmlx"] {
        sites.put("/file", Answer::new(200, essence, Sites::article("x")));
        refused(&sites, "/file", "not_html", false).await;
    }
    let mut untyped = Answer::new(200, "text/html", Sites::article("x"));
    untyped.headers.clear();
    sites.put("/file", untyped);
    refused(&sites, "/file", "not_html", false).await;
    for html in ["", "<html><body></body></html>", "<script>only('this')</script>"] {
        sites.put_html("/empty", html);
        refused(&sites, "/empty", "empty", false).await;
    }
    sites.put("/paywall", Sites::paywall());
    assert!(fetch(&sites, "/paywall").await.unwrap().text.contains("Choose a plan"), "the model finds out");
    sites.put("/malformed", Sites::malformed("Bitcoin"));
    assert!(fetch(&sites, "/malformed").await.unwrap().text.contains("Paragraph 1 about Bitcoin"));
    sites.put_html("/deep", "<div>".repeat(400_000) + "words");
    fetch(&sites, "/deep").await.unwrap();
}

#[tokio::test]
async fn faults_of_sites() {
    let sites = Sites::start().await;
    for (fault, code, transient) in [
        (Fault::HoldHead, "timeout", true),
        (Fault::HoldBody { after: 100 }, "timeout", true),
        (Fault::Trickle { every: Duration::from_millis(5) }, "timeout", true),
        (Fault::CutHead, "cut", true),
        (Fault::CutBody { after: 100 }, "cut", true),
        (Fault::Type("application/pdf"), "not_html", false),
        (Fault::Status(403, None), "status", false),
        (Fault::Status(503, Some("60")), "status", true),
        (Fault::Huge(10_000_000), "too_large", false),
        (Fault::GzipBomb(100_000_000), "too_large", false),
        (Fault::Redirect(302, "ftp://example.com/".to_owned()), "refused", false),
        (Fault::Redirect(302, "http://169.254.169.254/latest/meta-data".to_owned()), "refused", false),
    ] {
        sites.faults.push(fault.clone());
        let limits = if code == "timeout" { hasty() } else { settings().limits };
        let limits = Limits { bytes_max: settings().limits.bytes_max, ..limits };
        let client = articles(&[sites.host()], Settings { limits, ..settings() });
        let error = client.fetch(&sites.page("/articles/1"), 0).await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), (code, transient), "{fault:?}");
        if let Fault::Status(503, _) = fault {
            assert_eq!(error.retry_after(), Some(RetryAfter::Delay(Duration::from_secs(60))));
        }
    }
    for address in ["javascript:alert(1)", "no address", "file:///etc/passwd"] {
        let error = articles(&[], settings()).fetch(address, 0).await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), ("refused", false), "{address}");
    }
}

#[tokio::test]
async fn redirects_are_followed_and_end() {
    let (sites, inside) = (Sites::start().await, Sites::start().await);
    sites.put("/1", Answer::redirect(301, "/2"));
    sites.put("/2", Answer::redirect(302, "3?x=y"));
    sites.put("/3", Answer::redirect(307, &sites.page("/articles/3")));
    let article = fetch(&sites, "/1").await.unwrap();
    assert_eq!(article.url.as_str(), sites.page("/articles/3"));
    sites.faults.always(Fault::RedirectLoop);
    sites.forget();
    refused(&sites, "/1", "too_many_redirects", false).await;
    assert_eq!(sites.asked().len(), 6);
    sites.faults.clear();
    // A server inside that nobody put on the list is not reached, by no page and for no robots.txt.
    sites.put("/in", Answer::redirect(302, &inside.page("/articles/1")));
    let error = fetch(&sites, "/in").await.unwrap_err();
    assert!(matches!(error, ArticleError::Http(HttpError::Refused(Refusal::Port(_)))), "{error:?}");
    assert_eq!((inside.connections(), inside.probes()), (0, 0));
}

#[tokio::test]
async fn robots_are_asked_once_and_heard() {
    let sites = Sites::start().await;
    sites.robots("User-agent: *\nDisallow: /\n\nUser-agent: Windlass-News\nDisallow: /articles/1\nAllow: /");
    let client = articles(&[sites.host()], settings());
    let error = client.fetch(&sites.page("/articles/1"), 0).await.unwrap_err();
    assert_eq!((error.code(), error.is_transient()), ("robots", false));
    let many = (20..30).map(|number| sites.page(&format!("/articles/{number}")));
    let many: Vec<_> = many.map(|page| (client.clone(), page)).collect();
    let all = futures::future::join_all(many.iter().map(|(client, page)| client.fetch(page, 1)));
    assert!(all.await.iter().all(Result::is_ok));
    let robots = |sites: &Sites| sites.asked().iter().filter(|ask| ask.path == "/robots.txt").count();
    assert_eq!((robots(&sites), sites.asked().len()), (1, 11));
    sites.robots("User-agent: *\nDisallow:");
    assert!(client.fetch(&sites.page("/articles/1"), DAY_MS - 1).await.is_err(), "remembered for a day");
    assert!(client.fetch(&sites.page("/articles/1"), DAY_MS).await.is_ok(), "and no longer");
    assert_eq!(robots(&sites), 2);
    // Where a redirect leads, that site's word counts.
    sites.robots("User-agent: *\nDisallow: /articles");
    sites.put("/way", Answer::redirect(302, "/articles/5"));
    refused(&sites, "/way", "robots", false).await;
    let rude = Settings { robots: false, ..settings() };
    assert!(articles(&[sites.host()], rude).fetch(&sites.page("/articles/1"), 0).await.is_ok());
}

#[tokio::test]
async fn robots_that_cannot_be_had() {
    let sites = Sites::start().await;
    let put =
        |status| sites.put("/robots.txt", Answer::new(status, "text/plain", "User-agent: *\nDisallow: /"));
    for status in [401, 403, 404, 410] {
        put(status);
        fetch(&sites, "/articles/1").await.unwrap();
    }
    for status in [429, 500, 503] {
        put(status);
        refused(&sites, "/articles/1", "robots_unknown", true).await;
    }
    let client = articles(&[sites.host()], settings());
    assert!(client.fetch(&sites.page("/articles/1"), 0).await.is_err());
    put(404);
    assert!(client.fetch(&sites.page("/articles/1"), 1).await.is_ok(), "trouble is not remembered");
    sites.put("/robots.txt", Answer::redirect(302, "/robots.txt"));
    fetch(&sites, "/articles/1").await.unwrap();
    let endless = [b"User-agent: *\nDisallow: /articles\n".to_vec(), vec![b'#'; 3_000_000]].concat();
    sites.put("/robots.txt", Answer::new(200, "text/plain", endless));
    refused(&sites, "/articles/1", "robots", false).await;
    let nobody = Server::start(|_: &windlass_standins::Ask| Answer::new(200, "text/html", "x")).await;
    let host = nobody.address().to_string();
    drop(nobody);
    let error = articles(std::slice::from_ref(&host), settings()).fetch(&format!("http://{host}/a"), 0).await;
    assert!(error.unwrap_err().is_transient());
}

#[test]
fn agents_name_themselves() {
    for (product, contact) in [("", "a@b"), ("two words", "a@b"), ("x", ""), ("x", "a\nb"), ("x", "a)b")] {
        assert!(Agent::new(product, "1", contact).is_err(), "{product} {contact}");
    }
}
