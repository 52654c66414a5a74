//! Outages and tries: what fails delays only its own, is counted, and ends.

use std::time::Duration;

use windlass_bitcoin_news::article::State;
use windlass_outside::models::{ModelError, Reply};
use windlass_outside::workers_ai::CloudflareError;

use crate::scene::{Fault, SUMMARY, Scene, away, empty, upstream};

#[tokio::test]
async fn an_article_goes_through_its_steps() {
    let scene = Scene::new(&[]);
    scene.publish(1..=1);
    assert_eq!(scene.update().await.unwrap().new, 1);
    scene.work().await;
    let article = scene.article(1).await;
    assert!(matches!(article.state, State::Done { .. }), "{article:?}");
    assert_eq!(article.summary.value().unwrap(), SUMMARY);
    assert_eq!(
        (scene.asked_model("sentiment"), scene.asked_model("summary"), scene.asked_pages().len()),
        (1, 1, 1)
    );
    let texts = scene.archive().await.texts.scan().all().await.unwrap();
    assert!(texts.is_empty(), "the text of the page is not kept");
}

/// Invariant (c): a model that is away delays its own steps; pages are fetched, and nothing is used up.
#[tokio::test]
async fn an_outage_of_the_model_delays_only_its_steps() {
    let scene = Scene::new(&[]);
    scene.publish(1..=3);
    scene.update().await.unwrap();
    scene.reader.0.lock().unwrap().always = Some(away());
    scene.work_for(Duration::from_secs(86_400)).await;
    assert_eq!(scene.asked_pages().len(), 3, "every page was fetched, once");
    for number in 1..=3 {
        let article = scene.article(number).await;
        assert!(article.content.value().is_some() && article.sentiment.value().is_none());
        assert_eq!((article.sentiment.attempts(), article.summary.attempts()), (0, 0));
        assert_eq!(article.reason().unwrap().as_str(), "model_away: upstream");
    }
    assert_eq!(scene.count("later").await, 3);
    let checkpoint = scene.document("BTC_CHECKPOINT").await;
    assert_eq!(checkpoint["tryLater"][0]["reason"], "model_away: upstream");
    scene.reader.0.lock().unwrap().always = None;
    scene.work().await;
    assert_eq!(scene.count("done").await, 3);
    assert_eq!(scene.asked_pages().len(), 3, "and not again");
}

/// The same when it is slow, although a rung is no longer than the time for a question: two questions say that it
/// does not answer, and from then on nobody waits for it.
#[tokio::test]
async fn a_model_that_hangs_delays_only_its_steps() {
    let scene = Scene::new(&[("RETRY_LADDER", "1m")]);
    scene.publish(1..=6);
    scene.update().await.unwrap();
    scene.reader.0.lock().unwrap().always = Some(Fault::Slow(Duration::from_secs(60)));
    scene.work_for(Duration::from_secs(150)).await;
    assert_eq!((scene.asked_pages().len(), scene.asked_model("")), (6, 2));
    assert_eq!(scene.count("later").await, 6);
    for number in 1..=6 {
        let article = scene.article(number).await;
        assert_eq!((article.sentiment.attempts(), article.summary.attempts()), (0, 0));
        assert_eq!(article.reason().unwrap().as_str(), "model_away: timeout");
    }
    scene.reader.0.lock().unwrap().always = None;
    scene.work().await;
    assert_eq!((scene.count("done").await, scene.asked_pages().len()), (6, 6), "no page was fetched again");
}

/// After its rest one question finds out whether the model is back, and not one of everybody who waits.
#[tokio::test]
async fn one_question_finds_out_whether_the_model_is_back() {
    let scene = Scene::new(&[("RETRY_LADDER", "1m"), ("MAX_ARTICLES_PER_RUN", "4")]);
    scene.publish(1..=12);
    scene.update().await.unwrap();
    scene.reader.0.lock().unwrap().always = Some(Fault::Slow(Duration::from_secs(30)));
    scene.work_for(Duration::from_secs(615)).await;
    let asked = scene.asked_model("");
    assert!((9..=13).contains(&asked), "four at first and one in a minute and a half: {asked}");
}

/// One question of many that fails is no outage: the others are asked.
#[tokio::test]
async fn a_question_that_fails_delays_its_own_article() {
    let scene = Scene::new(&[]);
    scene.publish(1..=5);
    scene.update().await.unwrap();
    let what = "sentiment of Bitcoin report 4".to_owned();
    scene.reader.0.lock().unwrap().faults.insert(what, vec![away()]);
    scene.work_for(Duration::from_secs(30)).await;
    assert_eq!((scene.count("done").await, scene.count("later").await), (4, 1));
    assert_eq!(scene.asked_model("summary of Bitcoin report 4"), 0, "not in the look that found it away");
}

/// While the model is away for a day it is asked by the ladder, whose last rung repeats: not in a hot loop.
#[tokio::test]
async fn a_model_that_is_away_is_asked_by_the_ladder() {
    let scene = Scene::new(&[("RETRY_LADDER", "1m 10m 1h")]);
    scene.publish(1..=1);
    scene.update().await.unwrap();
    scene.reader.0.lock().unwrap().always = Some(away());
    scene.work_for(Duration::from_secs(86_400)).await;
    let asked = scene.asked_model("sentiment");
    assert!((24..=27).contains(&asked), "{asked} in a day");
}

#[tokio::test]
async fn an_answer_that_is_of_no_use_counts() {
    let scene = Scene::new(&[("MAX_MODEL_ATTEMPTS", "3")]);
    scene.publish(1..=1);
    scene.update().await.unwrap();
    let chatty = Fault::Says(Reply::Words("I cannot say.".to_owned()));
    let what = "sentiment of Bitcoin report 1".to_owned();
    scene.reader.0.lock().unwrap().faults.insert(what, vec![chatty; 9]);
    scene.work().await;
    let article = scene.article(1).await;
    assert_eq!(scene.asked_model("sentiment"), 3);
    assert_eq!(article.sentiment.reason().unwrap().as_str(), "model_answer: none_of_the_three");
    assert!(matches!(article.state, State::Failed { .. }) && article.summary.value().is_some());
    let document = scene.document("article:newsdata:1").await;
    assert_eq!((&document["sentiment"], &document["needsSentiment"]), (&"".into(), &false.into()));
}

/// A wrong key is no fault of the articles: they wait until somebody has changed it.
#[tokio::test]
async fn a_wrong_setting_parks_and_shows() {
    let scene = Scene::new(&[]);
    scene.publish(1..=1);
    scene.update().await.unwrap();
    let wrong = CloudflareError::Configuration { status: 401, code: 10_000 };
    scene.reader.0.lock().unwrap().always = Some(Fault::Model(ModelError::WorkersAi(wrong)));
    scene.work_for(Duration::from_secs(7_200)).await;
    let status = windlass_bitcoin_news::status::Status::look(&scene.archive().await).await.unwrap();
    assert!(status.text().contains("later: 1 × model_settings: configuration"), "{}", status.text());
    scene.reader.0.lock().unwrap().always = None;
    scene.work().await;
    assert_eq!(scene.count("done").await, 1);
}

#[tokio::test]
async fn a_page_is_asked_for_so_often_and_then_the_article_is_finished() {
    let scene = Scene::new(&[("MAX_CONTENT_FETCH_ATTEMPTS", "3")]);
    scene.publish(1..=1);
    scene.update().await.unwrap();
    scene.fail_page(1, vec![empty(); 9]);
    scene.work().await;
    let article = scene.article(1).await;
    assert_eq!(scene.asked_pages().len(), 3);
    assert_eq!(article.state.reason().unwrap().as_str(), "fetch_failed: empty");
    let document = scene.document("article:newsdata:1").await;
    assert_eq!((&document["aiSummary"], &document["sentiment"]), (&"".into(), &"positive".into()));
    assert_eq!(document["summaryError"], "fetch_failed: empty");
    assert_eq!(scene.document("BTC_CHECKPOINT").await["processedIds"], serde_json::json!(["newsdata:1"]));
}

/// Tried again, an article stands behind fresh ones, and yet its turn comes while fresh ones keep coming.
#[tokio::test]
async fn tried_again_behind_fresh_ones_but_not_starved() {
    let scene = Scene::new(&[("RETRY_LADDER", "1s"), ("MAX_PAGES", "100")]);
    scene.publish(1..=1);
    scene.update().await.unwrap();
    scene.fail_page(1, vec![empty()]);
    scene.run().await;
    assert_eq!(scene.count("later").await, 1);
    // Fresh ones come all the time, and there is never a moment without one.
    let mut behind = 0;
    for number in 2..500 {
        scene.publish([number]);
        scene.update().await.unwrap();
        scene.world.advance(Duration::from_secs(60)).await;
        if number % 2 == 0 {
            scene.run().await;
        }
        behind += 1;
        if scene.count("later").await == 0 {
            break;
        }
    }
    assert!(behind > 10, "fresh ones went first, {behind} of them");
    assert!(matches!(scene.article(1).await.state, State::Done { .. }), "its turn came");
    assert!(scene.count("pending").await > 0, "although others waited");
}

/// Defect 5: while an article waits to be tried again, others are worked on.
#[tokio::test]
async fn an_article_that_waits_holds_up_nobody() {
    let scene = Scene::new(&[]);
    scene.publish(1..=3);
    scene.update().await.unwrap();
    scene.fail_page(3, vec![empty(); 2]);
    scene.work_for(Duration::from_secs(30)).await;
    assert_eq!((scene.count("done").await, scene.count("later").await), (2, 1));
}

#[tokio::test]
async fn a_budget_of_calls_is_kept() {
    let scene = Scene::new(&[("AI_CALLS_PER_DAY", "4")]);
    scene.publish(1..=5);
    scene.update().await.unwrap();
    scene.work_for(Duration::from_secs(3_600 * 20)).await;
    let asked = scene.reader.0.lock().unwrap().asked.len();
    assert_eq!(asked, 4);
    assert_eq!(scene.asked_pages().len(), 5, "pages need no model");
    scene.work().await;
    assert_eq!(scene.count("done").await, 5);
}

#[tokio::test]
async fn a_provider_that_fails_is_tried_again_and_the_rest_stays() {
    let scene = Scene::new(&[]);
    scene.publish(1..=9);
    scene.papers.script.lock().unwrap().faults.insert("6".to_owned(), vec![upstream()]);
    let error = scene.update().await.unwrap_err();
    assert!(error.contains("status 500"), "{error}");
    assert_eq!(scene.count("pending").await, 3);
    let report = scene.update().await.unwrap();
    assert!(report.complete, "{report:?}");
    assert_eq!(scene.count("pending").await, 9, "no gap is left");
}

/// 429 with Retry-After: nobody asks before that.
#[tokio::test]
async fn a_pause_that_is_asked_for_is_kept() {
    use windlass_outside::news::NewsError;
    use windlass_outside::retry_after::RetryAfter;
    let scene = Scene::new(&[]);
    scene.publish(1..=2);
    let after = Some(RetryAfter::Delay(Duration::from_secs(600)));
    let limit = NewsError::RateLimit { provider: "newsdata", retry_after: after };
    scene.papers.script.lock().unwrap().faults.insert("first".to_owned(), vec![Fault::News(limit)]);
    let began = windlass_engine::core::time::Clock::wall(&scene.world);
    let report = scene.update().await.unwrap();
    let waited = windlass_engine::core::time::Clock::wall(&scene.world).ms_since(began);
    assert_eq!(report.new, 2);
    assert!(waited >= 600_000, "{waited} ms");
}

#[tokio::test]
async fn the_credits_of_a_day_are_kept() {
    let scene = Scene::new(&[("NEWS_CREDITS_PER_DAY", "3"), ("MAX_PAGES", "2")]);
    scene.publish(1..=30);
    assert!(!scene.update().await.unwrap().complete);
    let error = scene.update().await.unwrap_err();
    assert!(error.contains("NEWS_CREDITS_PER_DAY"), "{error}");
    assert_eq!(scene.papers.script.lock().unwrap().asked.len(), 3);
}
