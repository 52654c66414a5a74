//! Publishing to Workers KV, as the stand-in has it: stale, with quotas, and with a bill.

use serde_json::{Value, json};
use windlass_standins::{Fault, OpenAi, WorkersKv};
use windlass_testkit::eventually::eventually;

use crate::house::House;

/// A house that publishes, with a model that is not Cloudflare's.
async fn house() -> (House, WorkersKv, OpenAi) {
    let (mut house, kv, openai) = (House::new().await, WorkersKv::start().await, OpenAi::start().await);
    house
        .set("AI_PROVIDER", "openai")
        .set("OPENAI_API_KEY", &openai.key())
        .set("OPENAI_BASE_URL", &openai.url());
    house.set("CLOUDFLARE_BASE_URL", &kv.url()).set("CLOUDFLARE_KV_NAMESPACE_ID", &kv.namespace());
    house.set("CLOUDFLARE_ACCOUNT_ID", &kv.account()).set("CLOUDFLARE_API_TOKEN", &kv.token());
    (house, kv, openai)
}

fn kept(kv: &WorkersKv, key: &str) -> Value {
    serde_json::from_slice(&kv.kept(key).unwrap_or_else(|| panic!("{key} is there")).value).unwrap()
}

/// The seed's table: an updater's run costs 3 operations, a new article 7, one that goes on 5.
#[tokio::test(flavor = "multi_thread")]
async fn a_published_update_costs_no_more_than_the_seeds_table() {
    let (house, kv, openai) = house().await;
    house.said(&["kv", "publish"]).await;
    let spent = || {
        let (writes, reads) = kv.operations();
        assert_eq!(reads, 0, "nothing is read");
        writes
    };
    let before = spent();
    house.publish(1..=2);
    house.said(&["updater", "--once"]).await;
    assert_eq!(house.json(&["kv", "publish"]).await["written"], 1);
    assert_eq!(spent() - before, 1, "an updater's run: the list of those that wait");
    let before = spent();
    house.said(&["processor", "--once"]).await;
    house.said(&["kv", "publish"]).await;
    assert_eq!(spent() - before, 4, "an article: itself and the three lists");
    let before = spent();
    house.said(&["kv", "publish"]).await;
    assert_eq!(spent() - before, 0, "nothing has changed");
    openai.faults.push_ok();
    openai.faults.push(Fault::Status(503, None));
    house.said(&["processor", "--once"]).await;
    house.said(&["kv", "publish"]).await;
    assert_eq!(house.kv("BTC_CHECKPOINT").await["tryLater"].as_array().unwrap().len(), 1);
    let before = spent();
    let later = async || (house.json(&["processor", "--once"]).await["status"]["done"] == 2).then_some(());
    eventually("its turn comes again", later).await;
    house.said(&["kv", "publish"]).await;
    let cost = spent() - before;
    assert!((1..=5).contains(&cost), "one that goes on: itself and the lists, {cost}");
    for key in ["BTC_PENDING_LIST", "BTC_CHECKPOINT", "BTC_ID_INDEX"] {
        assert_eq!(kept(&kv, key), house.kv(key).await, "{key}");
        assert_eq!(kv.kept(key).unwrap().ttl_seconds, Some(2_592_000), "{key}");
    }
    let id = kept(&kv, "BTC_ID_INDEX")[0].as_str().unwrap().to_owned();
    assert_eq!(kept(&kv, &format!("article:{id}"))["needsSummary"], false);
}

/// What Workers KV still shows of before decides nothing.
#[tokio::test(flavor = "multi_thread")]
async fn defect_01_stale_reads_decide_nothing() {
    let (house, kv, _openai) = house().await;
    kv.fall_behind();
    house.publish(1..=3);
    house.said(&["updater", "--once"]).await;
    for _ in 0..3 {
        house.said(&["processor", "--once"]).await;
        house.said(&["kv", "publish"]).await;
    }
    assert_eq!(house.sites.asked().len(), 3, "no step was repeated");
    assert_eq!(kept(&kv, "BTC_CHECKPOINT")["processedIds"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_has_so_many_writes() {
    let (mut house, kv, _openai) = house().await;
    house.set("KV_WRITES_PER_DAY", "5").set("MAX_ARTICLES_PER_RUN", "9").publish(1..=9);
    house.said(&["updater", "--once"]).await;
    house.said(&["processor", "--once"]).await;
    let report = house.json(&["kv", "publish"]).await;
    assert_eq!((&report["written"], &report["left"]), (&json!(5), &json!(7)));
    assert_eq!(house.json(&["kv", "publish"]).await["written"], 0);
    assert_eq!(kv.operations().0, 5);
    assert_eq!(
        kept(&kv, "BTC_ID_INDEX").as_array().unwrap().len(),
        9,
        "the lists go first when there is little room"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_written_is_written_later() {
    let (house, kv, _openai) = house().await;
    house.publish(1..=1);
    house.said(&["updater", "--once"]).await;
    house.said(&["processor", "--once"]).await;
    kv.writes_left(0);
    let output = house.run(&["kv", "publish"]).await;
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("allowance"), "{output:?}");
    kv.writes_left(100);
    kv.fail_key("BTC_CHECKPOINT");
    assert_eq!(house.json(&["kv", "publish"]).await["left"], 1);
    assert_eq!(house.json(&["kv", "publish"]).await["left"], 1, "it is tried again, and only it");
    assert!(kv.kept("BTC_ID_INDEX").is_some());
}

/// What Workers KV refuses it does not count, so it takes nothing from our own count of the day.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_costs_nothing_of_the_day() {
    let (mut house, kv, _openai) = house().await;
    house.set("KV_WRITES_PER_DAY", "8").publish(1..=1);
    house.said(&["updater", "--once"]).await;
    house.said(&["processor", "--once"]).await;
    kv.writes_left(0);
    for _ in 0..3 {
        assert!(!house.run(&["kv", "publish"]).await.status.success());
    }
    kv.writes_left(100);
    kv.fail_key("BTC_CHECKPOINT");
    for _ in 0..6 {
        assert_eq!(house.json(&["kv", "publish"]).await["left"], 1);
    }
    assert_eq!(house.json(&["kv", "publish"]).await["written"], 0, "three are written, one never is");
    house.publish(2..=2);
    house.said(&["updater", "--once"]).await;
    let report = house.json(&["kv", "publish"]).await;
    assert_eq!((&report["written"], &report["left"]), (&json!(1), &json!(1)), "four of eight are counted");
}

/// The program publishes by itself, and what it published can be imported elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_published_can_be_imported() {
    let (house, kv, _openai) = house().await;
    house.publish(1..=3);
    house.said(&["updater", "--once"]).await;
    house.said(&["processor", "--once"]).await;
    house.said(&["kv", "publish"]).await;
    let (mut other, _, _) = self::house().await;
    for name in ["CLOUDFLARE_BASE_URL", "CLOUDFLARE_KV_NAMESPACE_ID"] {
        let value = house.env[name].clone();
        other.set(name, &value);
    }
    let imported = other.json(&["import", "--from-kv"]).await;
    assert_eq!((&imported["finished"], &imported["unfinished"]), (&json!(1), &json!(2)));
    assert_eq!(other.kv("BTC_ID_INDEX").await, kept(&kv, "BTC_ID_INDEX"));
}
