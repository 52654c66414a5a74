//! The program, from outside.

use std::time::Duration;

use serde_json::json;
use windlass_standins::{Answer, Fault, Sites, Story};
use windlass_testkit::eventually::eventually;

use crate::house::{House, ask, get};

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_key_is_named_at_start() {
    let mut house = House::new().await;
    house.env.remove("NEWSDATA_API_KEY");
    let output = house.run(&[]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("NEWSDATA_API_KEY is missing"), "{said}");
}

/// The seed's integration test, step by step.
#[tokio::test(flavor = "multi_thread")]
async fn clear_update_process_look() {
    let house = House::new().await;
    house.publish(1..=3);
    let output = house.run_with(&["clear"], "no\n").await;
    assert_eq!(output.status.code(), Some(4), "it asks first");
    assert!(house.run_with(&["clear"], "yes\n").await.status.success());
    let said = house.said(&["updater", "--once"]).await;
    assert!(said.contains("1 pages, 3 articles, 3 new, 0 skipped"), "{said}");
    assert_eq!(house.kv("BTC_PENDING_LIST").await.as_array().unwrap().len(), 3);
    let said = house.said(&["processor", "--once"]).await;
    for line in ["Processing article: newsdata:", "✓ Article fully processed", "1 articles in this run"] {
        assert!(said.contains(line), "{said}");
    }
    for _ in 0..2 {
        house.said(&["processor", "--once"]).await;
    }
    let checkpoint = house.kv("BTC_CHECKPOINT").await;
    assert_eq!(checkpoint["processedIds"].as_array().unwrap().len(), 3);
    assert_eq!((&checkpoint["currentArticleId"], &checkpoint["tryLater"]), (&json!(null), &json!([])));
    assert_eq!(
        house.kv("BTC_ID_INDEX").await,
        json!(["newsdata:100003", "newsdata:100002", "newsdata:100001"])
    );
    let article = house.kv("article:newsdata:100001").await;
    assert_eq!((&article["needsSentiment"], &article["needsSummary"]), (&json!(false), &json!(false)));
    assert_eq!(house.kv("BTC_PENDING_LIST").await, json!([]));
    assert_eq!(house.run(&["kv", "get", "nothing"]).await.status.code(), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn five_per_run() {
    let mut house = House::new().await;
    house.set("MAX_ARTICLES_PER_RUN", "5").publish(1..=7);
    house.said(&["updater", "--once"]).await;
    assert_eq!(house.json(&["processor", "--once"]).await["status"]["done"], 5);
    assert_eq!(house.json(&["processor", "--once"]).await["status"]["done"], 7);
    assert_eq!(house.json(&["processor", "--once"]).await["articles"], 0);
}

/// The way in: a file with all settings, what is missing in it, and then nothing is.
#[tokio::test]
async fn init_makes_a_file_that_the_program_can_be_started_with() {
    let house = House::new().await;
    let said = house.said(&["init"]).await;
    assert!(said.contains("bitcoin-news.env") && said.contains("windlass bitcoin-news check"), "{said}");
    let file = std::fs::read_to_string(house.folder.path().join("bitcoin-news.env")).unwrap();
    assert!(file.contains("#NEWSDATA_API_KEY=\n") && file.contains("#UPDATER_CRON='0 * * * *'\n"), "{file}");
    assert!(house.said(&["init"]).await.contains("kept"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_program_and_its_feed() {
    let mut house = House::new().await;
    house.set("UPDATER_CRON", "* * * * * *").set("ADMIN_TOKEN", "secret-of-the-house");
    house.set("ALLOWED_ORIGINS", "https://reader.example");
    let running = house.start(&[]);
    let address = running.address().await;
    let empty = get(&address, "/api/bitcoin-news").await;
    assert_eq!((empty.status, &empty.json()["articles"]), (200, &json!([])));
    house.publish(1..=3);
    house.until("done", 3).await;
    let got = eventually("the feed has them", async || {
        let got = get(&address, "/api/bitcoin-news").await;
        (got.json()["totalArticles"] == 3).then_some(got)
    })
    .await;
    let feed = got.json();
    assert_eq!(feed["articles"][0]["id"], "newsdata:100003", "newest first");
    assert_eq!(feed["articles"][0]["source_name"], "The Paper");
    assert_eq!(got.header("cache-control"), Some("public, max-age=60"));
    for name in ["x-cache-status", "x-data-source", "x-last-updated", "x-cache-ttl", "etag"] {
        assert!(got.header(name).is_some(), "{name}: {}", got.head);
    }
    let tag = got.header("etag").unwrap().to_owned();
    let again = ask(&address, "GET", "/api/bitcoin-news", &[("if-none-match", &tag)]).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let packed = ask(&address, "GET", "/api/bitcoin-news", &[("accept-encoding", "gzip")]).await;
    assert_eq!((packed.header("content-encoding"), &packed.body[..2]), (Some("gzip"), &[0x1f, 0x8b][..]));
    let page = get(&address, "/api/bitcoin-news?limit=2").await.json();
    let cursor = page["nextCursor"].as_str().unwrap();
    let rest = get(&address, &format!("/api/bitcoin-news?limit=2&cursor={cursor}")).await.json();
    assert_eq!(rest["articles"][0]["id"], "newsdata:100001");
    assert_eq!(get(&address, "/api/bitcoin-news?q=report+2").await.json()["totalArticles"], 1);
    for wrong in ["limit=0", "limit=501", "limit=x", "cursor=x", "sentiment=bullish"] {
        assert_eq!(get(&address, &format!("/api/bitcoin-news?{wrong}")).await.status, 400, "{wrong}");
    }
    assert_eq!(get(&address, "/api/bitcoin-news/newsdata:100002").await.json()["title"], "Bitcoin report 2");
    assert_eq!(get(&address, "/api/bitcoin-news/100002").await.status, 200);
    assert_eq!(get(&address, "/api/bitcoin-news/nothing").await.status, 404);
    assert!(get(&address, "/feed.xml").await.text().contains("<title>Bitcoin report 3</title>"));
    assert_eq!(get(&address, "/feed.json").await.json()["items"][0]["id"], "newsdata:100003");
    assert!(get(&address, "/").await.text().contains("<title>Bitcoin News</title>"));
    assert_eq!(get(&address, "/health").await.status, 200);
    assert_eq!(get(&address, "/readyz").await.status, 200);
    origins(&address).await;
    tokens(&house, &address).await;
    assert!(running.stop().await.success());
}

async fn origins(address: &str) {
    let from = |origin| [("origin", origin), ("sec-fetch-site", "cross-site")];
    let friend = ask(address, "GET", "/api/bitcoin-news", &from("https://reader.example")).await;
    assert_eq!(friend.header("access-control-allow-origin"), Some("https://reader.example"));
    assert!(friend.head.to_ascii_lowercase().contains("vary: origin"), "{}", friend.head);
    let stranger = ask(address, "GET", "/api/bitcoin-news", &from("https://other.example")).await;
    assert_eq!((stranger.status, stranger.header("access-control-allow-origin")), (200, None));
    for (path, status) in [("/api/bitcoin-news?limit=0", 400), ("/api/bitcoin-news/nothing", 404)] {
        let refused = ask(address, "GET", path, &from("https://reader.example")).await;
        assert_eq!(refused.status, status, "{path}");
        assert_eq!(refused.header("access-control-allow-origin"), Some("https://reader.example"), "{path}");
        assert_eq!(refused.header("vary"), Some("Origin"), "{path}");
        let stranger = ask(address, "GET", path, &from("https://other.example")).await;
        assert_eq!(stranger.header("access-control-allow-origin"), None, "{path}");
        assert_eq!(stranger.header("vary"), Some("Origin"), "{path}");
    }
    let before = ask(address, "OPTIONS", "/api/bitcoin-news", &from("https://reader.example")).await;
    assert_eq!((before.status, before.header("access-control-max-age")), (204, Some("86400")));
}

async fn tokens(house: &House, address: &str) {
    let token = [("authorization", "Bearer secret-of-the-house")];
    for path in ["/kv/BTC_CHECKPOINT", "/admin/status", "/metrics"] {
        assert_eq!(get(address, path).await.status, 401, "{path}");
        assert_eq!(ask(address, "GET", path, &token).await.status, 200, "{path}");
    }
    let metrics = ask(address, "GET", "/metrics", &token).await.text();
    assert!(metrics.contains("bitcoin_news_articles{state=\"done\"} 3\n"), "{metrics}");
    let budgets = &house.json(&["status"]).await["budgets"];
    assert!(budgets["news pages"]["used"].as_u64() > Some(0), "{budgets}");
    assert!(budgets["model calls"]["used"].is_null(), "without a bound nobody counts: {budgets}");
    assert_eq!(ask(address, "POST", "/admin/updater/run", &[]).await.status, 401);
    assert_eq!(ask(address, "POST", "/admin/updater/run", &token).await.status, 202);
    let done = ask(address, "POST", "/admin/articles/newsdata:100001/process", &token).await;
    assert_eq!(done.status, 409, "it is over");
    let changed = get(address, "/api/bitcoin-news").await.json()["lastUpdatedExternal"].as_i64();
    assert_eq!(ask(address, "POST", "/admin/articles/newsdata:100001/drop", &token).await.status, 200);
    let left = eventually("it is gone from the feed", async || {
        let feed = get(address, "/api/bitcoin-news").await.json();
        (feed["totalArticles"] == 2).then_some(feed)
    })
    .await;
    assert!(left["lastUpdatedExternal"].as_i64() > changed, "that is a change of what is shown: {left}");
    assert_eq!(house.json(&["status"]).await["dropped"], 1);
    let back = ask(address, "POST", "/admin/articles/newsdata:100001/retry", &token).await;
    assert_eq!((back.status, &back.json()["error"]["code"]), (409, &json!("taken_away")));
    let output = house.run(&["retry", "newsdata:100001"]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(4) && said.contains("does not come back"), "{said}");
    assert_eq!(house.json(&["status"]).await["dropped"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_the_documents_are_for_this_machine_and_nothing_is_administrated() {
    let house = House::new().await;
    let running = house.start(&["api"]);
    let address = running.address().await;
    assert_eq!(get(&address, "/kv/BTC_CHECKPOINT").await.json()["processedIds"], json!([]));
    let rebound = ask(&address, "GET", "/kv/BTC_CHECKPOINT", &[("origin", "https://evil.example")]).await;
    assert_eq!(rebound.status, 403);
    assert_eq!(ask(&address, "POST", "/admin/updater/run", &[]).await.status, 403);
    let mut open = House::new().await;
    open.set("BITCOIN_NEWS_LISTEN", "0.0.0.0:0");
    let output = open.run(&["api"]).await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("ADMIN_TOKEN"), "it refuses to be open to all");
}

/// Updater, processors and feed apart, on one store: nothing is lost and nothing is done twice.
#[tokio::test(flavor = "multi_thread")]
async fn updater_and_two_processors_at_once() {
    let mut house = House::new().await;
    house.set("UPDATER_CRON", "* * * * * *").set("MAX_ARTICLES_PER_RUN", "4");
    let (updater, first) = (house.start(&["updater"]), house.start(&["processor"]));
    let second = house.start(&["processor"]);
    for number in 1..=40 {
        house.publish([number]);
    }
    house.until("done", 40).await;
    let pages = house.sites.asked().iter().filter(|ask| ask.path.starts_with("/articles/")).count();
    assert_eq!((pages, house.ai.asked().len()), (40, 80), "each article once");
    let both = format!("{}{}", first.log(), second.log());
    assert_eq!(both.matches("✓ Article fully processed").count(), 40);
    for running in [updater, first, second] {
        assert!(running.stop().await.success());
    }
}

/// kill -9 in the middle of a call; the next process goes on where that one was.
#[tokio::test(flavor = "multi_thread")]
async fn killed_in_the_middle_of_a_call() {
    let house = House::new().await;
    house.publish(1..=1);
    house.said(&["updater", "--once"]).await;
    house.sites.faults.push(Fault::HoldHead);
    let running = house.start(&["processor"]);
    eventually("the page is asked for", async || (!house.sites.asked().is_empty()).then_some(())).await;
    let checkpoint = house.kv("BTC_CHECKPOINT").await;
    assert_eq!(checkpoint["currentArticleId"], "newsdata:100001");
    assert_eq!(checkpoint["currentArticle"]["sentiment"], house.kv("article:100001").await["sentiment"]);
    running.kill();
    house.sites.faults.release();
    let running = house.start(&["processor"]);
    house.until("done", 1).await;
    assert_eq!(house.sites.asked().len(), 2, "the call in flight was repeated");
    assert_eq!(house.ai.asked().len(), 2, "and no other");
    running.stop().await;
}

/// Every sort of page that the web has.
#[tokio::test(flavor = "multi_thread")]
async fn pages_of_every_sort() {
    let mut house = House::new().await;
    house.set("MAX_CONTENT_FETCH_ATTEMPTS", "2").set("MAX_ARTICLES_PER_RUN", "8");
    let sites = &house.sites;
    sites.put("/articles/1", Answer::new(200, "application/pdf", "x"));
    sites.put("/articles/2", Answer::redirect(302, "http://169.254.169.254/latest"));
    sites.put("/articles/3", Answer::redirect(302, "http://127.0.0.1:1/"));
    sites.put("/articles/4", Sites::malformed("Bitcoin"));
    sites.put("/articles/5", Answer::new(404, "text/html", "<p>gone</p>"));
    sites.put("/articles/6", Answer::new(200, "text/html", "x".repeat(3 * 1024 * 1024)));
    sites.put("/articles/7", Sites::paywall());
    sites.robots("User-agent: *\nDisallow: /articles/8\n");
    house.publish(1..=9);
    house.said(&["updater", "--once"]).await;
    let running = house.start(&["processor"]);
    eventually("all are over", async || {
        let status = house.json(&["status"]).await;
        let over = status["done"].as_u64()? + status["failed"].as_u64()?;
        (over == 9).then_some(())
    })
    .await;
    for (number, why) in [
        (1, "fetch_failed: not_html"),
        (2, "fetch_failed: refused"),
        (3, "fetch_failed: refused"),
        (5, "fetch_failed: status 404"),
        (6, "fetch_failed: too_large"),
        (8, "fetch_failed: robots"),
    ] {
        let article = house.kv(&format!("article:newsdata:{}", 100_000 + number)).await;
        assert_eq!(
            (article["summaryError"].as_str(), &article["aiSummary"]),
            (Some(why), &json!("")),
            "{number}"
        );
    }
    for number in [4, 9] {
        let article = house.kv(&format!("article:newsdata:{}", 100_000 + number)).await;
        assert!(article["aiSummary"].as_str().is_some_and(|summary| !summary.is_empty()), "{article}");
    }
    let agents: Vec<String> =
        house.sites.asked().iter().filter_map(|ask| ask.header("user-agent").map(str::to_owned)).collect();
    assert!(
        agents.iter().all(|agent| agent.starts_with("windlass-bitcoin-news/") && agent.contains("+https://"))
    );
    running.stop().await;
}

/// A site that keeps silent costs its own article an attempt, and the others nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_site_that_is_slow() {
    let mut house = House::new().await;
    house.set("MAX_CONTENT_FETCH_ATTEMPTS", "1").set("MAX_ARTICLES_PER_RUN", "2").publish(1..=4);
    house.said(&["updater", "--once"]).await;
    house.sites.faults.push(Fault::HoldHead);
    let running = house.start(&["processor"]);
    house.until("done", 3).await;
    house.until("failed", 1).await;
    let status = house.said(&["status"]).await;
    assert!(status.contains("failed: 1 × fetch_failed: timeout"), "{status}");
    running.stop().await;
}

/// By a schedule, the processor makes runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_processor_by_a_schedule() {
    let mut house = House::new().await;
    house.set("PROCESSOR_CRON", "* * * * * *").publish(1..=2);
    house.said(&["updater", "--once"]).await;
    let running = house.start(&["processor"]);
    house.until("done", 2).await;
    assert!(running.log().contains("Processor run finished"));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_day_would_cost() {
    let house = House::new().await;
    let said = house.said(&["check"]).await;
    assert!(said.contains("news.db is made by the first start"), "{said}");
    assert!(!house.path().join("news.db").exists(), "whoever only looks makes no store");
    assert!(said.contains("24 runs, 24 to 200 pages (NEWS_CREDITS_PER_DAY 200)"), "{said}");
    assert!(
        said.contains("up to 4000 questions for up to 2000 new articles (10 on a page), two each"),
        "{said}"
    );
    let cost = house.json(&["check"]).await;
    assert_eq!((&cost["day"]["updaterRuns"], &cost["day"]["articlesMost"]), (&json!(24), &json!(2000)));
    assert_eq!(
        (&cost["day"]["modelCallsUsual"], &cost["day"]["modelCallsMost"]),
        (&json!(4000), &json!(20_000)),
        "two questions each, and five tries of each"
    );
    let mut tube = House::new().await;
    tube.set("NEWS_PROVIDER", "apitube").set("APITUBE_API_KEY", "key").set("AI_CALLS_PER_DAY", "30000");
    let day = &tube.json(&["check"]).await["day"];
    assert_eq!((&day["articlesAPage"], &day["articlesMost"]), (&json!(100), &json!(20_000)), "{day}");
    assert_eq!(day["modelCallsMost"], 30_000, "no more than the bound");
    let mut guessed = House::new().await;
    guessed.set("ADMIN_TOKEN", "x");
    for args in [&["check"][..], &[]] {
        let output = guessed.run(args).await;
        let all = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&all).into_owned();
        assert!(!output.status.success() && said.contains("ADMIN_TOKEN must have at least"), "{said}");
    }
    let mut poor = House::new().await;
    poor.env.remove("NEWSDATA_API_KEY");
    let output = poor.run(&["check"]).await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("NEWSDATA_API_KEY"), "{said}");
}

/// Where things are is a setting as all others are: in the table, from a file, and an argument goes before both.
#[tokio::test(flavor = "multi_thread")]
async fn places_are_settings() {
    let mut house = House::new().await;
    let by_file = house.path().join("store.url");
    std::fs::write(&by_file, format!("sqlite:{}\n", house.path().join("by-file.db").display())).unwrap();
    house.env.remove("WINDLASS_STORE");
    house.set("WINDLASS_STORE_FILE", by_file.to_str().unwrap());
    house.said(&["status"]).await;
    assert!(house.path().join("by-file.db").exists());
    house.said(&["status", "--store", "sqlite:said.db"]).await;
    assert!(house.path().join("said.db").exists());

    house.set("WINDLASS_STORE", "sqlite:twice.db");
    let output = house.run(&["status"]).await;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("WINDLASS_STORE and WINDLASS_STORE_FILE are both set"), "{said}");
    let file = house.path().join("begin.env");
    house.said(&["init", "--file", file.to_str().unwrap()]).await;
    let written = std::fs::read_to_string(&file).unwrap();
    for line in ["#WINDLASS_STORE=sqlite:bitcoin-news.db", "#BITCOIN_NEWS_LISTEN=127.0.0.1:7718"] {
        assert!(written.lines().any(|found| found == line), "{line}: {written}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_of_before_from_files() {
    let house = House::new().await;
    let write = |name: &str, value: serde_json::Value| {
        std::fs::write(house.path().join(name), value.to_string()).unwrap();
    };
    write(
        "BTC_CHECKPOINT.json",
        json!({"currentArticleId": null, "currentArticle": null,
        "processedIds": ["100001"], "tryLater": [], "lastUpdate": null}),
    );
    write("BTC_ID_INDEX.json", json!(["100001"]));
    let done = json!({"article_id": "100001", "title": "One", "needsSentiment": false, "needsSummary": false,
        "sentiment": "positive", "aiSummary": "It is summed up already."});
    write("article:100001.json", done);
    let files = ["import", "BTC_CHECKPOINT.json", "BTC_ID_INDEX.json", "article:100001.json"];
    assert_eq!(house.json(&files).await["finished"], 1);
    house.publish(1..=2);
    assert_eq!(house.json(&["updater", "--once"]).await["new"], 1, "the old one is not new");
    house.said(&["processor", "--once"]).await;
    assert_eq!(house.ai.asked().len(), 2, "and nobody worked on it");
    std::fs::write(house.path().join("bad.json"), "no json").unwrap();
    let output = house.run(&["import", "bad.json"]).await;
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not JSON"));
}

/// Shut down in the middle of a slow call: the attempt is given back.
#[tokio::test(flavor = "multi_thread")]
async fn a_graceful_end_costs_no_attempt() {
    let house = House::new().await;
    house.publish(1..=1);
    house.said(&["updater", "--once"]).await;
    house.ai.faults.push(Fault::Trickle { every: Duration::from_millis(200) });
    let running = house.start(&["processor"]);
    eventually("the model is asked", async || (!house.ai.asked().is_empty()).then_some(())).await;
    assert!(running.stop().await.success());
    let pending = house.kv("BTC_PENDING_LIST").await;
    assert_eq!(pending[0]["id"], "newsdata:100001", "it waits as before");
}

/// Ids of APITube are numbers there, and strings from the first moment here; its sentiment is taken over.
#[tokio::test(flavor = "multi_thread")]
async fn defect_22_numbers_are_ids() {
    use windlass_standins::{Apitube, ApitubeShape};
    for shape in [ApitubeShape::Results, ApitubeShape::Data, ApitubeShape::Articles] {
        let (mut house, apitube) = (House::new().await, Apitube::start().await);
        apitube.shape(shape);
        house.set("NEWS_PROVIDER", "apitube").set("APITUBE_API_KEY", &apitube.key());
        house.set("APITUBE_BASE_URL", &apitube.url()).set("MAX_ARTICLES_PER_RUN", "25");
        (1..=25).for_each(|number| apitube.publish(house.story(number)));
        assert_eq!(house.json(&["updater", "--once"]).await["new"], 25, "{shape:?}");
        assert_eq!(house.json(&["updater", "--once"]).await["new"], 0, "{shape:?}");
        assert_eq!(house.json(&["processor", "--once"]).await["status"]["done"], 25, "{shape:?}");
        assert_eq!(house.kv("BTC_ID_INDEX").await[24], "apitube:100001");
        assert_eq!(house.kv("article:apitube:100001").await["sentiment"], "positive");
        assert_eq!(house.ai.asked().len(), 25, "only summaries were asked for");
    }
}

/// Keys, tokens and what providers write about errors are in no output.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_secret_is_said() {
    use windlass_standins::{Newsdata, WorkersAi};
    let mut house = House::new().await;
    house.set("ADMIN_TOKEN", "canary-admin-token").set("UPDATER_CRON", "* * * * * *").publish(1..=3);
    house.newsdata.faults.push(Fault::Answer(Newsdata::error(500, "ServerError", "canary-provider-message")));
    house.ai.faults.push(Fault::Answer(WorkersAi::error(429, 3036)));
    house.ai.faults.push(Fault::Answer(WorkersAi::error(400, 5004)));
    house.sites.faults.push(Fault::Status(500, None));
    let running = house.start(&[]);
    let address = running.address().await;
    house.until("done", 3).await;
    let wrong = [("authorization", "Bearer canary-wrong-token")];
    assert_eq!(ask(&address, "GET", "/admin/status", &wrong).await.status, 401);
    let mut said = running.log();
    for verb in ["status", "check"] {
        said.push_str(&house.said(&[verb]).await);
    }
    for path in ["/api/bitcoin-news", "/feed.xml", "/"] {
        said.push_str(&get(&address, path).await.text());
    }
    for secret in ["canary", &house.newsdata.key(), &house.ai.token()] {
        assert!(!said.contains(secret), "{secret}: {said}");
    }
    running.stop().await;
}

/// What a provider gives and nobody could show is counted, and a date that means nothing is not given on.
#[tokio::test(flavor = "multi_thread")]
async fn odd_items_are_counted() {
    let house = House::new().await;
    house.newsdata.publish(Story { more: json!({"title": null}), ..house.story(1) });
    house.newsdata.publish(Story { more: json!({"pubDate": "the day before"}), ..house.story(2) });
    let report = house.json(&["updater", "--once"]).await;
    assert_eq!((&report["new"], &report["unusable"]), (&json!(1), &json!(1)), "{report}");
    let server = house.start(&["api"]);
    let feed = get(&server.address().await, "/api/bitcoin-news").await.json();
    let shown = feed["articles"][0]["pubDate"].as_str().unwrap_or_else(|| panic!("{feed}")).to_owned();
    assert!(shown.starts_with("20") && shown.ends_with('Z'), "{shown}");
}
