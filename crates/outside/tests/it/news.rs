//! Both providers of news against their stand-ins.

use std::time::Duration;

use serde_json::json;
use windlass_outside::news::{Apitube, Cursor, NewsArticle, NewsProvider, Newsdata, Sentiment};
use windlass_outside::retry_after::RetryAfter;
use windlass_outside::safe_http::Limits;
use windlass_outside::secret::Secret;
use windlass_standins::{
    Answer, Apitube as ApitubeStandIn, ApitubeShape, Fault, Newsdata as NewsdataStandIn, Server, Story,
};

use crate::common::{hasty, http, limits, url};

fn newsdata(server: &NewsdataStandIn, limits: Limits) -> Newsdata {
    Newsdata::new(http(&[server.url()]), url(&server.url()), Secret::new(server.key()), limits)
}

fn apitube(server: &ApitubeStandIn, limits: Limits) -> Apitube {
    Apitube::new(http(&[server.url()]), url(&server.url()), &Secret::new(server.key()), limits).unwrap()
}

async fn all(provider: &dyn NewsProvider) -> Vec<NewsArticle> {
    let (mut articles, mut cursor) = (Vec::new(), None);
    loop {
        let page = provider.page(cursor.as_ref()).await.unwrap();
        articles.extend(page.articles);
        // A cursor can be kept: it is the same after it was written down.
        let written = serde_json::to_string(&page.next).unwrap();
        cursor = serde_json::from_str::<Option<Cursor>>(&written).unwrap();
        if cursor.is_none() {
            return articles;
        }
    }
}

fn ids(articles: &[NewsArticle]) -> Vec<&str> {
    articles.iter().map(|article| article.id.as_str()).collect()
}

#[tokio::test]
async fn an_article_of_newsdata() {
    let server = NewsdataStandIn::start().await;
    server.publish(Story::made_up(1));
    let page = newsdata(&server, limits()).page(None).await.unwrap();
    let text = |text: &str| Some(text.to_owned());
    let expected = NewsArticle {
        id: "newsdata:100001".to_owned(),
        title: "Bitcoin report 1".to_owned(),
        description: text("What report 1 says about Bitcoin."),
        link: text("https://news.example/articles/1"),
        published: text("2025-12-31 12:01:00"),
        published_ms: Some(1_767_182_460_000),
        source_id: text("paper"),
        source_name: text("The Paper"),
        source_url: text("https://paper.example/"),
        source_icon: text("https://paper.example/icon.png"),
        image_url: text("https://images.example/100001.jpg"),
        language: text("english"),
        country: vec!["united states of america".to_owned()],
        category: vec!["business".to_owned(), "crypto".to_owned()],
        sentiment: None,
    };
    assert_eq!((page.articles, page.next, page.skipped), (vec![expected], None, 0));
    let asked = &server.asked()[0];
    assert_eq!(asked.query, format!("apikey={}&coin=btc&language=en&removeduplicate=1", server.key()));
    assert!(!asked.has_credentials());
}

#[tokio::test]
async fn an_article_of_apitube() {
    let server = ApitubeStandIn::start().await;
    server.publish(Story::made_up(1));
    let page = apitube(&server, limits()).page(None).await.unwrap();
    let article = &page.articles[0];
    assert_eq!((article.id.as_str(), article.published_ms), ("apitube:100001", Some(1_767_182_460_000)));
    assert_eq!(article.sentiment, Some(Sentiment::Positive));
    assert_eq!(
        (article.source_id.as_deref(), article.category.as_slice()),
        (Some("7"), &["cryptocurrency".to_owned()][..])
    );
    assert_eq!(server.asked()[0].query, "language.code=en&topic.id=industry.crypto_news");
    assert!(server.asked()[0].has_credentials());
}

#[tokio::test]
async fn pages_are_turned_to_the_end() {
    let server = NewsdataStandIn::start().await;
    (0..25).for_each(|number| server.publish(Story::made_up(number)));
    let found = all(&newsdata(&server, limits())).await;
    let expected: Vec<String> =
        (0..25).rev().map(|number| format!("newsdata:{}", 100_000 + number)).collect();
    assert_eq!(ids(&found), expected);
    assert_eq!(server.asked().len(), 3);
    let server = ApitubeStandIn::start().await;
    (0..25).for_each(|number| server.publish(Story::made_up(number)));
    for shape in [ApitubeShape::Results, ApitubeShape::Data, ApitubeShape::Articles] {
        server.shape(shape);
        server.forget();
        assert_eq!(all(&apitube(&server, limits())).await.len(), 25, "{shape:?}");
        assert_eq!(server.asked().len(), 3, "{shape:?}");
        assert!(server.asked().iter().all(|ask| ask.param("api_key").is_none()), "no key in an address");
        assert_eq!(server.asked()[2].param("language.code").as_deref(), Some("en"), "{shape:?}");
    }
}

#[tokio::test]
async fn items_that_are_none() {
    let server = NewsdataStandIn::start().await;
    let odd = |number: usize, more| Story { more, ..Story::made_up(number) };
    server.publish(odd(1, json!({"article_id": null, "id": null, "link": null})));
    server.publish(odd(2, json!({"title": null})));
    server.publish(odd(3, json!({"article_id": null, "link": "https://paper.example/only"})));
    server.publish(odd(
        4,
        json!({"link": "javascript:alert(1)", "pubDate": "soon", "country": 7, "title": "x".repeat(9000)}),
    ));
    server.publish(odd(5, json!({"article_id": 77, "source_url": "http://a:b@c.example/"})));
    let page = newsdata(&server, limits()).page(None).await.unwrap();
    assert_eq!((page.articles.len(), page.skipped), (3, 2));
    let [five, four, three] = &page.articles[..] else { panic!() };
    assert_eq!((five.id.as_str(), &five.source_url), ("newsdata:77", &None));
    assert_eq!((&four.link, four.published_ms, four.title.len()), (&None, None, 1024));
    assert!(three.id.starts_with("newsdata:sha256-"));
}

#[tokio::test]
async fn a_page_of_too_many_is_cut() {
    let server = NewsdataStandIn::start().await;
    server.page_size(1000);
    (0..600).for_each(|number| server.publish(Story::made_up(number)));
    let page = newsdata(&server, limits()).page(None).await.unwrap();
    assert_eq!((page.articles.len(), page.skipped), (500, 100));
}

#[tokio::test]
async fn credits_are_counted_and_run_out() {
    let server = NewsdataStandIn::start().await;
    server.publish(Story::made_up(1));
    server.credits(1);
    let client = newsdata(&server, limits());
    assert_eq!(client.page(None).await.unwrap().calls_left, Some(0));
    let error = client.page(None).await.unwrap_err();
    assert_eq!((error.code(), error.is_transient()), ("quota", true));
    let server = ApitubeStandIn::start().await;
    server.credits(0);
    assert_eq!(apitube(&server, limits()).page(None).await.unwrap_err().code(), "quota");
}

async fn faults(
    server: &Server,
    provider: &dyn NewsProvider,
    quick: &dyn NewsProvider,
    error: fn(u16, &str, &str) -> Answer,
) {
    let slow_down = error(429, "RateLimitExceeded", "Rate Limit Exceeded").with("retry-after", "900");
    for (fault, code, transient) in [
        (Fault::Answer(slow_down), "rate_limit", true),
        (Fault::Status(429, Some("7")), "rate_limit", true),
        (Fault::Answer(error(429, "ApiLimitExceeded", "no credits left")), "quota", true),
        (Fault::Answer(error(401, "Unauthorized", "canary")), "configuration", false),
        (Fault::Answer(error(403, "IpRestricted", "canary")), "configuration", false),
        (Fault::Answer(error(422, "UnsupportedParameter", "canary")), "permanent", false),
        (Fault::Status(500, None), "upstream", true),
        (Fault::Status(503, Some("30")), "upstream", true),
        (Fault::Answer(Answer::json(200, &json!({"results": "none"}))), "malformed", true),
        (Fault::Answer(Answer::json(200, &json!([]))), "malformed", true),
        (Fault::Answer(error(200, "x", "y")), "malformed", true),
        (Fault::Garbage, "malformed", true),
        (Fault::HoldHead, "timeout", true),
        (Fault::HoldBody { after: 10 }, "timeout", true),
        (Fault::CutHead, "cut", true),
        (Fault::CutBody { after: 10 }, "cut", true),
        (Fault::Huge(100_000_000), "too_large", false),
        (Fault::GzipBomb(100_000_000), "too_large", false),
        (Fault::Redirect(302, "http://127.0.0.1:1/".to_owned()), "", false),
    ] {
        server.faults.push(fault.clone());
        let found = if code == "timeout" { quick.page(None).await } else { provider.page(None).await };
        let error = found.unwrap_err();
        if !code.is_empty() {
            assert_eq!((error.code(), error.is_transient()), (code, transient), "{fault:?}");
        }
        assert!(!format!("{error} {error:?}").contains("canary"), "{error}");
        if let Fault::Status(429, _) = fault {
            assert_eq!(error.retry_after(), Some(RetryAfter::Delay(Duration::from_secs(7))));
        }
    }
}

#[tokio::test]
async fn faults_of_newsdata() {
    let server = NewsdataStandIn::start().await;
    faults(&server, &newsdata(&server, limits()), &newsdata(&server, hasty()), NewsdataStandIn::error).await;
    let stale = serde_json::from_str("\"a-token-of-yesterday\"").unwrap();
    assert_eq!(newsdata(&server, limits()).page(Some(&stale)).await.unwrap_err().code(), "bad_cursor");
    let wrong = Secret::new("canary".to_owned());
    let wrong = Newsdata::new(http(&[server.url()]), url(&server.url()), wrong, limits());
    assert_eq!(wrong.page(None).await.unwrap_err().code(), "configuration");
}

#[tokio::test]
async fn faults_of_apitube() {
    let server = ApitubeStandIn::start().await;
    faults(&server, &apitube(&server, limits()), &apitube(&server, hasty()), ApitubeStandIn::error).await;
    let stale = serde_json::from_str("\"zero\"").unwrap();
    assert_eq!(apitube(&server, limits()).page(Some(&stale)).await.unwrap_err().code(), "bad_cursor");
}
