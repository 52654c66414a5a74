//! What was there before is taken over, and what was processed is not processed again.

use serde_json::json;
use windlass_bitcoin_news::import::Found;

use crate::scene::Scene;

#[tokio::test]
async fn the_four_documents_and_the_one_before_them() {
    let scene = Scene::new(&[]);
    let done = json!({"article_id": 1, "title": "One", "link": "https://a.example/1", "pubDate": "2026-01-01 00:00:00",
        "needsSentiment": false, "needsSummary": false, "sentiment": "positive", "aiSummary": "A summary of it all."});
    let given_up = json!({"article_id": "2", "title": "Two", "link": "https://a.example/2", "needsSentiment": false,
        "needsSummary": false, "sentiment": "", "aiSummary": "", "summaryError": "fetch_failed (attempt 5/5)"});
    let half = json!({"article_id": "3", "title": "Three", "link": "https://a.example/3", "needsSentiment": false,
        "needsSummary": true, "sentiment": "negative", "extractedContent": "Bitcoin fell. ".repeat(20)});
    let fresh = json!({"article_id": "4", "title": "Bitcoin report 4", "link": "https://a.example/4"});
    let later = json!({"article_id": "5", "title": "Five", "link": "https://a.example/5", "needsSentiment": false,
        "needsSummary": true, "sentiment": "neutral"});
    let mut found = Found::default();
    let checkpoint = json!({"currentArticleId": "3", "currentArticle": half, "processedIds": ["1", 2, "5", "gone"],
        "tryLater": [{"id": "5", "article": later, "failedAt": 1, "reason": "processing_error: x"}], "lastUpdate": 1});
    assert!(found.take("BTC_CHECKPOINT", &checkpoint));
    assert!(found.take("BTC_ID_INDEX", &json!([1, "2", "3", "old"])));
    assert!(found.take("BTC_PENDING_LIST", &json!([{"id": "4", "article": fresh, "addedAt": 1}])));
    assert!(found.take("article:1", &done) && found.take("article:2", &given_up));
    let analyzed = json!({"articles": [{"article_id": "6", "title": "Six", "sentiment": "positive", "aiSummary": "Once."}]});
    assert!(found.take("BTC_ANALYZED_NEWS", &analyzed));
    assert!(!found.take("readme", &json!("text")));
    let archive = scene.archive().await;
    let imported = found.store(&archive).await.unwrap();
    assert_eq!((imported.finished, imported.unfinished, imported.remembered), (3, 3, 2), "{imported:?}");
    scene.work().await;
    assert_eq!(scene.count("done").await + scene.count("failed").await, 6);
    let asked = scene.reader.0.lock().unwrap().asked.clone();
    assert!(
        !asked.iter().any(|what| ["One", "Two", "Six"].iter().any(|done| what.ends_with(done))),
        "{asked:?}"
    );
    assert!(
        !asked.contains(&"sentiment of Three".to_owned()) && asked.contains(&"summary of Three".to_owned())
    );
    assert_eq!(scene.asked_pages(), ["4", "5"], "the text of Three was there");
}

/// An old id without its provider is the same article.
#[tokio::test]
async fn an_old_id_is_the_same_article() {
    let scene = Scene::new(&[]);
    let mut found = Found::default();
    found.take("BTC_ID_INDEX", &json!(["1", 2]));
    found.store(&scene.archive().await).await.unwrap();
    scene.publish(1..=3);
    assert_eq!(scene.update().await.unwrap().new, 1);
    assert_eq!(scene.article(3).await.state.label(), "pending");
}
