//! A network that lets nobody out but its proxy.

use windlass_standins::{Fault, Proxy, Reply};

use crate::house::{House, RSS, STATES};

const BODY: &str = r#"{"targetArticleThresholdDaysOld": 180, "targetArticleStateReviewCount": 10}"#;

#[tokio::test(flavor = "multi_thread")]
async fn providers_are_reached_through_the_proxy() {
    let proxy = Proxy::start("user:canary-proxy").await;
    let house = House::new().await.with("HTTP_PROXY", &proxy.url());
    house.tables().article(1, "Fire", Some("In Texas"));
    let said = r#"{"occuredInTheUS": true, "reasoning": "It says so.", "state": "Texas"}"#;
    for _ in 0..6 {
        house.openai.reply(Reply::Text(said.to_owned()));
    }
    let server = house.start().await;
    server.run(RSS, "", "completed").await;
    server.run(STATES, BODY, "completed").await;
    let asked = proxy.asked();
    assert!(asked.len() >= 2, "{asked:?}");
    assert!(asked[0].starts_with(&format!("GET {}", house.google.url())), "{asked:?}");
    assert!(asked[1].starts_with(&format!("POST {}", house.openai.url())), "{asked:?}");
    let google = house.google.asked();
    assert!(google[0].header("proxy-authorization").is_none(), "what is for the proxy stays with it");
    server.stop();
    let said =
        [house.read("stdout.txt"), house.read("stderr.txt"), house.read("logs/WorkerNode.log")].concat();
    assert!(said.contains("reached through a proxy") && said.contains("go out directly"), "{said}");
    assert!(!said.contains("canary-proxy") && !said.contains("Y2FuYXJ5"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn exceptions_go_directly_and_a_proxy_that_refuses_is_named() {
    let proxy = Proxy::start("user:right").await;
    let house = House::new().await.with("HTTP_PROXY", &proxy.url().replace("right", "canary-wrong"));
    let server = house.start().await;
    let job = server.run(RSS, "", "completed").await;
    assert_eq!(job["result"]["failed"][0]["reason"], "proxy", "{job}");
    server.stop();
    let log = house.read("logs/WorkerNode.log");
    assert!(log.contains("answered 407") && !log.contains("canary-wrong"), "{log}");
    assert_eq!(house.google.asked().len(), 0);
    let house = house.with("NO_PROXY", "localhost,127.0.0.0/8");
    let server = house.start().await;
    let job = server.run(RSS, "", "completed").await;
    assert_eq!(job["result"]["counts"]["succeeded"], 1, "{job}");
    assert_eq!(proxy.asked().len(), 0, "nobody got through");
}

/// Where a provider's answer leads to is chosen by somebody else: it goes out directly, past the guard.
#[tokio::test(flavor = "multi_thread")]
async fn what_came_from_data_does_not_use_the_proxy() {
    let proxy = Proxy::start("user:pass").await;
    let inner = windlass_standins::GoogleRss::start().await;
    let house = House::new().await.with("HTTP_PROXY", &proxy.url());
    house.google.faults.always(Fault::Redirect(302, inner.url()));
    let server = house.start().await;
    let job = server.run(RSS, "", "completed").await;
    assert_eq!(job["result"]["failed"][0]["reason"], "refused", "{job}");
    assert_eq!((inner.asked().len(), proxy.asked().len()), (0, 1));
    server.stop();
    // With this the proxy is asked for the name, whoever it may be: here one that answers by itself.
    let answers = inner.url().replace("/rss/search", "");
    let house = house.with("FETCH_VIA_PROXY", "1").with("HTTP_PROXY", &answers);
    inner.faults.push(Fault::Redirect(302, "http://feeds.example/rss/search?q=fire".to_owned()));
    let server = house.start().await;
    let job = server.run(RSS, "", "completed").await;
    assert_eq!(job["result"]["counts"]["succeeded"], 1, "{job}");
    server.stop();
    assert!(house.read("stdout.txt").contains("the proxy is the guard"));
    let asked = inner.asked();
    let hosts: Vec<Option<&str>> = asked.iter().map(|ask| ask.header("host")).collect();
    assert!(hosts.len() == 2 && hosts[1] == Some("feeds.example"), "the redirect was followed: {hosts:?}");
    let house = house.with("FETCH_VIA_PROXY", "yes");
    let (status, errors) = house.refused();
    assert!(status.code() == Some(1) && errors.contains("FETCH_VIA_PROXY must be 1 or 0"), "{errors}");
    let house = house.with("FETCH_VIA_PROXY", "0");
    let house = house.with("HTTP_PROXY", "socks5://user:canary@host:1");
    let (status, errors) = house.refused();
    assert!(
        status.code() == Some(1) && errors.contains("HTTP_PROXY") && !errors.contains("canary"),
        "{errors}"
    );
}
