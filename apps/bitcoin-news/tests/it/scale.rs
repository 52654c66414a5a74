//! Many articles, with faults, kills and both stores.

use std::sync::Arc;

use serde_json::Value;
use windlass_standins::Fault;
use windlass_testkit::eventually::{answered_within, eventually};
use windlass_testkit::postgres::Server;

use crate::house::{House, get};

/// How many articles are over, whichever way.
fn over(status: &Value) -> u64 {
    ["done", "failed", "skipped"].iter().map(|name| status[*name].as_u64().unwrap()).sum()
}

/// So many times it may be asked before something has gone on: two minutes and more, since the updater waits for half a
/// minute when its third answer is cut off too.
const TRIES_MAX: u32 = 1_300;

/// Waits as long as it goes on.
async fn until_over(house: &House, count: u64) -> Value {
    let mut last = 0;
    loop {
        let status = answered_within(TRIES_MAX, async || {
            let status = house.json(&["status"]).await;
            (over(&status) > last || over(&status) == count).then_some(status)
        });
        let Some(status) = status.await else {
            panic!("it does not go on: {}", house.json(&["status"]).await)
        };
        last = over(&status);
        if last == count {
            return status;
        }
    }
}

/// Invariant (a): of 10,000 articles, with one call of a hundred failing, each ends as done, failed or skipped,
/// with a reason, and none vanishes.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_articles_with_one_percent_of_faults() {
    const COUNT: usize = 10_000;
    let mut house = House::new().await;
    for (name, value) in [
        ("MAX_ARTICLES_PER_RUN", "32"),
        ("MAX_STORED_ARTICLES", "10000"),
        ("MAX_PENDING_LIST_SIZE", "9900"),
        ("MAX_PAGES", "100"),
        ("UPDATER_CRON", "* * * * * *"),
    ] {
        house.set(name, value);
    }
    house.newsdata.page_size(250);
    house.publish(1..=COUNT);
    for at in 0..COUNT * 2 {
        let fault = |fault: Fault| if at % 100 == 7 { Some(fault) } else { None };
        for (faults, fault) in [
            (&house.sites.faults, fault(Fault::Status(500, None))),
            (&house.ai.faults, fault(Fault::Status(503, None))),
        ] {
            match fault {
                Some(fault) => faults.push(fault),
                None => faults.push_ok(),
            }
        }
    }
    for at in 0..60 {
        match at % 10 {
            3 => house.newsdata.faults.push(Fault::CutHead),
            _ => house.newsdata.faults.push_ok(),
        }
    }
    let running = house.start(&[]);
    let status = until_over(&house, COUNT as u64).await;
    assert_eq!(
        (&status["pending"], &status["tryLater"], &status["current"]),
        (&0.into(), &0.into(), &0.into())
    );
    let reasons: u64 = ["failed", "skipped"]
        .iter()
        .flat_map(|label| {
            status["reasons"][*label].as_object().into_iter().flat_map(|reasons| reasons.values())
        })
        .map(|count| count.as_u64().unwrap())
        .sum();
    assert_eq!(reasons, status["failed"].as_u64().unwrap() + status["skipped"].as_u64().unwrap());
    assert_eq!(house.kv("BTC_ID_INDEX").await.as_array().unwrap().len(), COUNT);
    assert!(running.stop().await.success());
}

/// kill -9, again and again, in the middle of the work: nothing is lost, and each kill repeats no more than the
/// calls in flight.
#[tokio::test(flavor = "multi_thread")]
async fn crash_killed_again_and_again() {
    const COUNT: usize = 60;
    const AT_ONCE: usize = 4;
    let mut house = House::new().await;
    house.set("MAX_ARTICLES_PER_RUN", &AT_ONCE.to_string()).set("UPDATER_CRON", "* * * * * *");
    house.publish(1..=COUNT);
    let mut kills = 0;
    for calls in [3, 17, 40, 80, 110] {
        let running = house.start(&[]);
        let asked = || house.ai.asked().len() + house.sites.asked().len();
        eventually("so many calls were made", async || (asked() >= calls).then_some(())).await;
        running.kill();
        kills += 1;
    }
    let running = house.start(&[]);
    let status = until_over(&house, COUNT as u64).await;
    assert_eq!(status["done"], COUNT, "{status}");
    let calls = house.ai.asked().len() + house.sites.asked().len();
    assert!(calls <= COUNT * 3 + kills * AT_ONCE, "{calls} calls for {COUNT} articles and {kills} kills");
    assert!(running.stop().await.success());
}

/// While the store is down the program says that it is not ready, and is alive; then it is ready again.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_away_is_not_ready() {
    let mut house = House::new().await;
    let server = Arc::new(Server::own().await);
    let database = server.fresh_database().await;
    house.set("WINDLASS_STORE", &database.url());
    let running = house.start(&["api"]);
    let address = running.address().await;
    assert_eq!(get(&address, "/readyz").await.status, 200);
    server.stop().await;
    let got = get(&address, "/readyz").await;
    assert_eq!((got.status, &got.json()["error"]["code"]), (503, &"busy".into()));
    assert_eq!(get(&address, "/health").await.status, 200);
    server.start().await;
    eventually("it is ready again", async || (get(&address, "/readyz").await.status == 200).then_some(()))
        .await;
    running.stop().await;
}

/// The same program on Postgres.
#[tokio::test(flavor = "multi_thread")]
async fn on_postgres() {
    let mut house = House::new().await;
    let database = Server::shared().await.fresh_database().await;
    house.set("WINDLASS_STORE", &database.url()).set("MAX_ARTICLES_PER_RUN", "4");
    house.set("UPDATER_CRON", "* * * * * *").publish(1..=25);
    let (all, second) = (house.start(&[]), { house.start(&["processor"]) });
    let status = until_over(&house, 25).await;
    assert_eq!(status["done"], 25, "{status}");
    assert_eq!((house.sites.asked().len(), house.ai.asked().len()), (25, 50), "each article once");
    assert_eq!(house.kv("BTC_ID_INDEX").await[0], "newsdata:100025");
    for running in [all, second] {
        assert!(running.stop().await.success());
    }
}
