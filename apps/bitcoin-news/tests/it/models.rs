//! Models of every sort, from outside: slow, gone, over their quota, chatty, and such as refuse.

use serde_json::json;
use windlass_standins::{Fault, OpenAi, Reply, WorkersAi};
use windlass_testkit::eventually::eventually;

use crate::house::House;

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_comes_back() {
    let house = House::new().await;
    house.publish(1..=2);
    house.said(&["updater", "--once"]).await;
    house.ai.faults.always(Fault::Status(503, None));
    let running = house.start(&["processor"]);
    house.until("tryLater", 2).await;
    assert!(running.log().contains("Moving article to try-later list"));
    let status = house.said(&["status"]).await;
    assert!(status.contains("later: 2 × model_away: upstream"), "{status}");
    house.ai.faults.clear();
    house.until("done", 2).await;
    running.stop().await;
}

/// A model that keeps silent, as long as a rung is: every page is fetched, every article is put back with the
/// reason, a run ends, and when the model speaks again they are done without a page fetched twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_is_slow_holds_up_no_page() {
    let mut house = House::new().await;
    house.set("AI_TIMEOUT", "1s").set("RETRY_LADDER", "1s").publish(1..=6);
    house.said(&["updater", "--once"]).await;
    house.ai.faults.always(Fault::HoldHead);
    let said = house.said(&["processor", "--once"]).await;
    assert!(said.contains("Moving article to try-later list"), "{said}");
    assert_eq!((house.ai.asked().len(), house.sites.asked().len()), (1, 1), "one question in a look");
    let running = house.start(&["processor"]);
    eventually("every page is fetched", async || (house.sites.asked().len() == 6).then_some(())).await;
    let asked = house.ai.asked().len();
    assert!(asked <= 5, "{asked} questions were waited for");
    house.until("tryLater", 6).await;
    let status = house.said(&["status"]).await;
    assert!(status.contains("6 × model_away: timeout"), "{status}");
    house.ai.faults.clear();
    house.ai.faults.release();
    house.until("done", 6).await;
    assert_eq!(house.sites.asked().len(), 6, "no page was fetched twice");
    running.stop().await;
}

/// Models of every other sort: gone, over their quota, chatty, and such as refuse.
#[tokio::test(flavor = "multi_thread")]
async fn models_of_every_sort() {
    for (fault, why) in [
        (Fault::CutHead, "model_away: "),
        (Fault::Status(500, None), "model_away: upstream"),
        (Fault::Status(429, None), "model_away: rate_limit"),
        (Fault::Answer(WorkersAi::error(429, 3036)), "model_away: quota"),
        (Fault::Answer(WorkersAi::error(401, 10_000)), "model_settings: configuration"),
    ] {
        let house = House::new().await;
        house.publish(1..=2);
        house.said(&["updater", "--once"]).await;
        house.ai.faults.always(fault.clone());
        for _ in 0..2 {
            house.said(&["processor", "--once"]).await;
        }
        let status = house.json(&["status"]).await;
        assert_eq!((&status["tryLater"], house.sites.asked().len()), (&json!(2), 2), "{fault:?}: {status}");
        let reasons = status["reasons"]["later"].to_string();
        assert!(reasons.contains(why), "{fault:?}: {reasons}");
        let article = house.kv("article:newsdata:100001").await;
        assert_eq!((&article["sentiment"], &article["needsSentiment"]), (&json!(null), &json!(true)));
    }
    let mut house = House::new().await;
    house.set("MAX_MODEL_ATTEMPTS", "2").publish(1..=1);
    house.said(&["updater", "--once"]).await;
    house.ai.faults.always(Fault::Answer(WorkersAi::error(400, 5004)));
    let running = house.start(&["processor"]);
    house.until("failed", 1).await;
    assert_eq!(house.ai.asked().len(), 4, "each step so often, and no more");
    let status = house.said(&["status"]).await;
    assert!(status.contains("model_answer: "), "{status}");
    running.stop().await;
}

/// One that talks around the answer is understood, one that says nothing of use is not taken for neutral.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_chats() {
    let mut house = House::new().await;
    house.set("MAX_MODEL_ATTEMPTS", "1").publish(1..=2);
    house.said(&["updater", "--once"]).await;
    house.ai.reply(json!("Well, all in all I would call this rather NEGATIVE news."));
    house.ai.reply(json!("Sure! Here is a summary: Bitcoin fell by four percent after the report came out."));
    house.ai.reply(json!("It depends on whom you ask."));
    for _ in 0..2 {
        house.said(&["processor", "--once"]).await;
    }
    let article = house.kv("article:newsdata:100002").await;
    assert_eq!(article["sentiment"], "negative");
    assert!(article["aiSummary"].as_str().unwrap().contains("Bitcoin fell by four percent"), "{article}");
    let article = house.kv("article:newsdata:100001").await;
    assert_eq!((&article["sentiment"], &article["needsSentiment"]), (&json!(""), &json!(false)), "{article}");
}

/// One that refuses in the way of OpenAI.
#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_refuses() {
    let (mut house, openai) = (House::new().await, OpenAi::start().await);
    house.set("AI_PROVIDER", "openai").set("OPENAI_API_KEY", &openai.key());
    house.set("OPENAI_BASE_URL", &openai.url()).set("MAX_MODEL_ATTEMPTS", "2").publish(1..=1);
    house.said(&["updater", "--once"]).await;
    for _ in 0..4 {
        openai.reply(Reply::Refusal("canary: I will not".to_owned()));
    }
    let running = house.start(&["processor"]);
    house.until("failed", 1).await;
    let status = house.said(&["status"]).await;
    assert!(status.contains("failed: 1 × model_answer: refusal"), "{status}");
    assert_eq!((openai.asked().len(), house.sites.asked().len()), (4, 1));
    assert!(!running.log().contains("canary"));
    running.stop().await;
}
