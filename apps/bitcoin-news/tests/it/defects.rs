//! The 24 defects of the design before this one (and of what became of it), each as it would be seen.
//! Defects 1 and 22 need servers: they are in `kv.rs` and `program.rs`, under the same names.

use std::sync::atomic::Ordering;
use std::time::Duration;

use windlass_bitcoin_news::article::State;
use windlass_bitcoin_news::feed::{Feed, Wish};
use windlass_bitcoin_news::{documents, jobs};
use windlass_outside::article::text;

use crate::dying::Dying;
use crate::scene::{Fault, Scene, away, empty, upstream};

/// A scene with so many articles in the store.
async fn with(articles: i64, env: &[(&str, &str)]) -> Scene {
    let scene = Scene::new(env);
    scene.publish(1..=articles);
    scene.update().await.unwrap();
    scene
}

/// A store that does not answer is not one without articles.
#[tokio::test]
async fn defect_02_an_error_is_not_an_empty_list() {
    let scene = with(3, &[]).await;
    scene.work().await;
    let store = Dying::new(scene.store.clone(), None);
    let staff = scene.staff_on(store.clone()).await;
    store.away.store(true, Ordering::SeqCst);
    for key in ["BTC_PENDING_LIST", "BTC_CHECKPOINT", "BTC_ID_INDEX", "article:newsdata:1"] {
        assert!(documents::get(&staff.archive, key).await.is_err(), "{key}");
    }
    assert!(staff.archive.known(&["newsdata:1"]).await.is_err());
    assert!(staff.archive.repair().await.is_err());
    store.away.store(false, Ordering::SeqCst);
    assert_eq!(scene.document("BTC_CHECKPOINT").await["processedIds"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn defect_03_two_processors_never_have_the_same_article() {
    let scene = with(9, &[("MAX_ARTICLES_PER_RUN", "3")]).await;
    tokio::join!(scene.run(), scene.run(), scene.run());
    assert_eq!(scene.count("done").await, 9);
    assert_eq!((scene.asked_pages().len(), scene.asked_model("")), (9, 18), "each once");
}

/// An article whose page kills the processor is given up, and others are not held up by it.
#[tokio::test]
async fn defect_04_a_poisonous_article_ends() {
    let scene = with(2, &[("MAX_CONTENT_FETCH_ATTEMPTS", "3"), ("LEASE", "2s")]).await;
    scene.fail_page(2, vec![Fault::Hangs; 9]);
    for _ in 0..5 {
        let store = Dying::new(scene.store.clone(), None);
        let mut staff = scene.staff_on(store.clone()).await;
        staff.updater = None;
        let life = staff.worker(true).unwrap().run_until(std::future::pending());
        // Killed in the middle of the call, it settles nothing.
        tokio::select! { _ = life => {}, () = scene.world.advance(Duration::from_secs(20)) => store.kill() }
    }
    let asked = scene.asked_pages().iter().filter(|page| *page == "2").count();
    assert_eq!(asked, 3);
    assert_eq!(scene.article(2).await.state.reason().unwrap().as_str(), "crashed");
    assert!(matches!(scene.article(1).await.state, State::Done { .. }));
}

#[tokio::test]
async fn defect_05_attempts_are_not_back_to_back_and_hold_up_nobody() {
    let scene = with(3, &[]).await;
    scene.fail_page(3, vec![empty(); 2]);
    scene.work_for(Duration::from_secs(59)).await;
    assert_eq!((scene.count("done").await, scene.asked_pages().len()), (2, 3));
    scene.work().await;
    assert_eq!(scene.count("done").await, 3);
}

/// The same for a model that keeps silent as long as a rung is: no article is asked about twice in a row.
#[tokio::test]
async fn defect_05_a_model_that_hangs_is_not_asked_back_to_back() {
    let scene = with(3, &[("RETRY_LADDER", "1m")]).await;
    scene.reader.0.lock().unwrap().always = Some(Fault::Slow(Duration::from_secs(60)));
    scene.work_for(Duration::from_secs(150)).await;
    let asked = scene.reader.0.lock().unwrap().asked.clone();
    assert_eq!(asked, ["sentiment of Bitcoin report 3", "sentiment of Bitcoin report 2"]);
    assert_eq!((scene.count("later").await, scene.asked_pages().len()), (3, 3));
}

#[tokio::test]
async fn defect_06_what_the_last_attempt_brings_is_kept() {
    let scene = with(1, &[("MAX_CONTENT_FETCH_ATTEMPTS", "2")]).await;
    scene.fail_page(1, vec![empty()]);
    scene.work().await;
    let article = scene.article(1).await;
    assert!(matches!(article.state, State::Done { .. }) && article.summary.value().is_some());
}

/// An error of the model in the last step is an ordinary one, and tries do not go on for ever.
#[tokio::test]
async fn defect_07_an_error_of_the_summary_is_counted_and_ends() {
    let scene = with(1, &[("MAX_MODEL_ATTEMPTS", "3")]).await;
    let unreadable = Fault::Says(windlass_outside::models::Reply::Words(String::new()));
    scene.reader.0.lock().unwrap().faults.insert("summary of Bitcoin report 1".into(), vec![unreadable; 9]);
    scene.work().await;
    assert_eq!(scene.asked_model("summary"), 3);
    assert_eq!(scene.article(1).await.state.reason().unwrap().as_str(), "model_answer: unreadable");
}

#[tokio::test]
async fn defect_08_tries_neither_starve_nor_run_hot() {
    let scene = with(1, &[]).await;
    scene.fail_page(1, vec![empty(); 3]);
    scene.work_for(Duration::from_secs(3_600)).await;
    assert_eq!(scene.asked_pages().len(), 4, "after 1, 5 and 15 minutes, and not every minute");
}

#[tokio::test]
async fn defect_09_what_is_over_the_list_is_not_dropped_silently() {
    let scene = with(5, &[("MAX_PENDING_LIST_SIZE", "3")]).await;
    assert_eq!((scene.count("pending").await, scene.count("skipped").await), (3, 2));
    let status = windlass_bitcoin_news::status::Status::look(&scene.archive().await).await.unwrap();
    assert!(status.text().contains("skipped: 2 × pending_list_full"), "{}", status.text());
}

/// More articles than the index has: each is processed once, and all have their turn.
#[tokio::test]
async fn defect_10_done_stays_done_with_a_small_index() {
    let mut scene = with(6, &[]).await;
    scene.env.insert("MAX_STORED_ARTICLES".into(), "3".into());
    for _ in 0..3 {
        scene.work().await;
        scene.update().await.unwrap();
    }
    let mut asked = scene.asked_pages();
    asked.sort();
    assert_eq!(asked, ["1", "2", "3", "4", "5", "6"]);
}

#[tokio::test]
async fn defect_11_an_article_that_left_the_index_is_not_new() {
    let scene = with(2, &[("MAX_STORED_ARTICLES", "2"), ("DELETE_OLD_ARTICLES", "true")]).await;
    scene.work().await;
    scene.publish(3..=4);
    scene.update().await.unwrap();
    assert!(scene.archive().await.articles.get("newsdata:1").await.unwrap().is_none(), "it is gone");
    *scene.papers.size.lock().unwrap() = 10;
    assert_eq!(scene.update().await.unwrap().new, 0);
}

#[tokio::test]
async fn defect_12_an_error_on_a_page_leaves_no_gap() {
    let scene = with(2, &[]).await;
    scene.publish(3..=14);
    scene.papers.script.lock().unwrap().faults.insert("8".into(), vec![upstream()]);
    assert!(scene.update().await.is_err());
    scene.publish(15..=16);
    scene.update().await.unwrap();
    assert_eq!(scene.archive().await.index().await.unwrap().len(), 16);
}

#[tokio::test]
async fn defect_12_max_pages_leaves_no_gap() {
    let scene = Scene::new(&[("MAX_PAGES", "2")]);
    scene.publish(1..=20);
    for _ in 0..9 {
        scene.update().await.unwrap();
    }
    assert_eq!(scene.archive().await.index().await.unwrap().len(), 20);
}

#[tokio::test]
async fn defect_13_waiting_articles_cost_no_pages_again() {
    let scene = with(30, &[]).await;
    let before = scene.papers.script.lock().unwrap().asked.len();
    let report = scene.update().await.unwrap();
    assert_eq!((report.new, scene.papers.script.lock().unwrap().asked.len() - before), (0, 1));
}

#[tokio::test]
async fn defect_14_the_feed_is_in_order_of_publication() {
    let scene = with(5, &[("MAX_ARTICLES_PER_RUN", "2")]).await;
    let ids = async || {
        let feed = Feed::new(scene.archive().await.index().await.unwrap());
        let page = feed.page(&Wish::default());
        page.items.iter().map(|item| item.article.id().to_owned()).collect::<Vec<_>>()
    };
    let before = ids().await;
    assert_eq!(before, (1..=5).rev().map(|number| format!("newsdata:{number}")).collect::<Vec<_>>());
    scene.run().await;
    assert_eq!(ids().await, before, "in the middle of the work");
    scene.work().await;
    assert_eq!(ids().await, before);
}

#[tokio::test]
async fn defect_15_an_outage_makes_nothing_neutral() {
    let scene = with(1, &[]).await;
    scene.reader.0.lock().unwrap().always = Some(away());
    scene.work_for(Duration::from_secs(3_600)).await;
    let document = scene.document("article:newsdata:1").await;
    assert_eq!(
        (&document["sentiment"], &document["needsSentiment"]),
        (&serde_json::Value::Null, &true.into())
    );
    scene.reader.0.lock().unwrap().always = None;
    scene.work().await;
    assert_eq!(scene.document("article:newsdata:1").await["sentiment"], "positive");
}

#[test]
fn defect_16_menus_are_left_out_and_words_are_whole() {
    let paragraphs: String = (0..6)
        .map(|number| format!("<p>Paragraph {number}: Bit<b>coin</b> moved again on Tuesday, traders said, as expected &amp; seen.</p>"))
        .collect();
    let html = format!(
        "<html><body><nav>Home Markets</nav><div class='sidebar'>Buy now</div><article><h1>T</h1>{paragraphs}</article>\
         <form>Name <input></form><div id='comments'>A comment</div></body></html>"
    );
    let text = text(&html, 10_000);
    assert!(text.contains("Bitcoin moved") && text.contains("expected & seen"), "{text}");
    for gone in ["Home Markets", "Buy now", "A comment"] {
        assert!(!text.contains(gone), "{gone}: {text}");
    }
}

#[tokio::test]
async fn defect_17_the_feed_tells_nothing_internal() {
    let scene = with(2, &[]).await;
    scene.run().await;
    let feed = Feed::new(scene.archive().await.index().await.unwrap());
    let body = feed.json(&Wish::default());
    for name in
        ["needsS", "contentTimeout", "extractedContent", "summaryError", "attempts", "says: Bitcoin moved"]
    {
        assert!(!body.contains(name), "{name}: {body}");
    }
    let changed = feed.changed_ms;
    scene.world.advance(Duration::from_secs(600)).await;
    let later = Feed::new(scene.archive().await.index().await.unwrap());
    assert_eq!(later.changed_ms, changed, "the time is that of the data, not of the question");
}

/// The rest of this defect is in `program.rs` (addresses inside) and `questions.rs` (pages are data).
#[tokio::test]
async fn defect_18_an_answer_is_cut_to_a_length() {
    let scene = with(1, &[]).await;
    let long = serde_json::json!({"matches": true, "summary": "x".repeat(100_000)});
    let says = Fault::Says(windlass_outside::models::Reply::Json(long));
    scene.reader.0.lock().unwrap().faults.insert("summary of Bitcoin report 1".into(), vec![says]);
    scene.work().await;
    assert_eq!(scene.article(1).await.summary.value().unwrap().chars().count(), 4_000);
}

#[tokio::test]
async fn defect_19_trouble_of_the_store_is_not_blamed_on_the_article() {
    let scene = with(1, &[]).await;
    let store = Dying::new(scene.store.clone(), None);
    let mut staff = scene.staff_on(store.clone()).await;
    staff.updater = None;
    let world = scene.world.clone();
    let trouble = store.clone();
    let until = async move {
        for _ in 0..6 {
            trouble.away.store(true, Ordering::SeqCst);
            world.advance(Duration::from_secs(3)).await;
            trouble.away.store(false, Ordering::SeqCst);
            world.advance(Duration::from_secs(60)).await;
        }
    };
    staff.worker(true).unwrap().run_until(until).await.unwrap();
    let article = scene.article(1).await;
    assert!(matches!(article.state, State::Done { .. }), "{article:?}");
    assert_eq!((article.content.attempts(), article.round), (1, 0), "nobody tried it later");
}

/// A step writes its article and at most the text of its page, however many articles there are.
#[tokio::test]
async fn defect_20_a_step_writes_its_own_article_and_no_list() {
    let scene = with(30, &[]).await;
    let store = Dying::new(scene.store.clone(), None);
    let staff = scene.staff_on(store.clone()).await;
    staff.process_once(std::future::pending()).await.unwrap();
    let writes = store.writes.lock().unwrap().clone();
    assert_eq!(writes, [1, 1, 2, 2], "one for each call, and one for the end");
}

#[tokio::test]
async fn defect_21_the_next_run_drops_nothing_that_waits() {
    let scene = with(3, &[]).await;
    scene.publish(4..=4);
    scene.update().await.unwrap();
    assert_eq!(scene.count("pending").await, 4);
}

#[tokio::test]
async fn defect_23_nothing_is_lost_when_an_article_is_finished() {
    let scene = with(1, &[]).await;
    let before = scene.document("article:newsdata:1").await;
    scene.work().await;
    let after = scene.document("article:newsdata:1").await;
    for name in
        ["source_name", "source_url", "source_icon", "image_url", "category", "country", "pubDate", "link"]
    {
        assert_eq!(before[name], after[name], "{name}");
        assert!(!after[name].is_null(), "{name}");
    }
}

/// While the model is away, one article is not tried over and over while the others wait.
#[tokio::test]
async fn defect_24_an_outage_gives_every_article_its_turn() {
    let scene = with(4, &[]).await;
    scene.reader.0.lock().unwrap().always = Some(away());
    for _ in 0..4 {
        scene.run().await;
    }
    let mut asked = scene.asked_pages();
    asked.sort();
    assert_eq!(asked, ["1", "2", "3", "4"]);
    assert_eq!(scene.count("later").await, 4);
}

/// The same when it hangs: a run ends after one question, with a page fetched.
#[tokio::test]
async fn defect_24_a_model_that_hangs_gives_every_article_its_turn() {
    let scene = with(4, &[("RETRY_LADDER", "1m")]).await;
    scene.reader.0.lock().unwrap().always = Some(Fault::Slow(Duration::from_secs(60)));
    for run in 1..=4 {
        tokio::select! {
            () = scene.run() => {}
            () = scene.world.advance(Duration::from_secs(3_600)) => panic!("run {run} does not end"),
        }
    }
    let mut asked = scene.asked_pages();
    asked.sort();
    assert_eq!((asked, scene.asked_model("")), (["1", "2", "3", "4"].map(str::to_owned).to_vec(), 4));
    assert_eq!(scene.count("later").await, 4);
}

/// An operator's wish goes before everything that waits.
#[tokio::test]
async fn one_article_first() {
    let scene = with(4, &[]).await;
    let archive = scene.archive().await;
    let article = scene.article(1).await;
    archive.client.enqueue(jobs::Work::first(&article)).await.unwrap();
    scene.run().await;
    assert_eq!(scene.asked_pages(), ["1"]);
    scene.work().await;
    assert_eq!((scene.count("done").await, scene.asked_pages().len()), (4, 4));
}
