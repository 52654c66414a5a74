//! The search against its stand-in.

use windlass_outside::google_rss::{Cells, GoogleRss, Locale, Query, SearchError};
use windlass_outside::safe_http::Limits;
use windlass_standins::{Fault, GoogleRss as StandIn};

use crate::common::{hasty, http, limits, url};

fn client(server: &StandIn, limits: Limits) -> GoogleRss {
    GoogleRss::new(http(&[server.url()]), url(&server.url()), Locale::default(), limits, "Test/1.0")
}

#[tokio::test]
async fn a_search_finds_articles() {
    let server = StandIn::start().await;
    let cells = Cells { and_keywords: "toaster", and_exact_phrases: "house fire", ..Cells::default() };
    let query = Query::build(cells).unwrap();
    let items = client(&server, limits()).search(&query.text).await.unwrap();
    assert_eq!(items.len(), 5);
    assert_eq!(items[1].title.as_deref(), Some("toaster \"house fire\": report 1"));
    assert_eq!(items[1].description, items[1].title);
    assert_eq!(items[1].source.as_deref(), Some("Paper 1"));
    assert_eq!(items[1].published_ms, Some(1_756_801_800_000));
    let asked = server.asked();
    assert_eq!(asked[0].query, "q=toaster+%22house+fire%22+when%3A180d&hl=en-US&gl=US&ceid=US%3Aen");
    assert_eq!(asked[0].header("user-agent"), Some("Test/1.0"));
    assert!(!asked[0].has_credentials());
}

#[tokio::test]
async fn faults_of_a_feed() {
    let server = StandIn::start().await;
    let check = async |fault: Fault, code: &str, transient: bool| {
        server.faults.push(fault.clone());
        let limits = if code == "timeout" { hasty() } else { limits() };
        let error = client(&server, limits).search("x").await.unwrap_err();
        assert_eq!((error.code(), error.is_transient()), (code, transient), "{fault:?}");
        error
    };
    check(Fault::Garbage, "not_a_feed", true).await;
    check(Fault::HoldHead, "timeout", true).await;
    check(Fault::HoldBody { after: 100 }, "timeout", true).await;
    check(Fault::CutBody { after: 100 }, "cut", true).await;
    check(Fault::GzipBomb(100_000_000), "too_large", false).await;
    check(Fault::Huge(100_000_000), "too_large", false).await;
    check(Fault::Status(404, None), "status", false).await;
    for status in [429, 503] {
        assert!(check(Fault::Status(status, Some("60")), "status", true).await.is_rate_limit());
    }
    assert!(!check(Fault::Status(500, None), "status", true).await.is_rate_limit());
    server.faults.always(Fault::RedirectLoop);
    check(Fault::RedirectLoop, "too_many_redirects", false).await;
    server.faults.clear();
    // The content type says nothing about a feed: what counts is what it is.
    server.faults.push(Fault::Type("text/html"));
    assert_eq!(client(&server, limits()).search("x").await.unwrap().len(), 5);
    assert!(matches!(client(&server, limits()).search("").await, Err(SearchError::Http(_))));
}
