//! Bounds: nothing is dropped without a word, and nothing grows without end.

use std::time::Duration;

use windlass_bitcoin_news::article::State;
use windlass_bitcoin_news::feed::Feed;
use windlass_bitcoin_news::operate::{self, Retried};

use crate::scene::Scene;

/// Defect 9: what is over the list is skipped with a state, a reason and a count, and stays in the feed.
#[tokio::test]
async fn over_the_pending_list_the_oldest_are_skipped_and_counted() {
    let scene = Scene::new(&[("MAX_PENDING_LIST_SIZE", "4")]);
    scene.publish(1..=6);
    let report = scene.update().await.unwrap();
    assert_eq!((report.new, report.skipped), (6, 2));
    assert_eq!((scene.count("pending").await, scene.count("skipped").await), (4, 2));
    scene.publish(7..=9);
    assert_eq!(scene.update().await.unwrap().skipped, 3);
    for number in [1, 2, 3, 4, 5] {
        assert_eq!(
            scene.article(number).await.state.reason().unwrap().as_str(),
            "pending_list_full",
            "{number}"
        );
    }
    scene.work().await;
    assert_eq!((scene.count("done").await, scene.count("skipped").await), (4, 5));
    assert_eq!(scene.archive().await.index().await.unwrap().len(), 9, "all of them are shown");
    assert_eq!(scene.asked_pages().len(), 4, "nobody worked on the skipped ones");
}

#[tokio::test]
async fn the_index_has_the_newest() {
    let scene =
        Scene::new(&[("MAX_STORED_ARTICLES", "5"), ("DELETE_OLD_ARTICLES", "true"), ("MAX_PAGES", "100")]);
    scene.publish(1..=3);
    scene.update().await.unwrap();
    scene.work().await;
    scene.publish(4..=7);
    scene.update().await.unwrap();
    let ids: Vec<String> =
        scene.archive().await.index().await.unwrap().into_iter().map(|entry| entry.value.news.id).collect();
    assert_eq!(ids, ["newsdata:7", "newsdata:6", "newsdata:5", "newsdata:4", "newsdata:3"]);
    assert_eq!(scene.archive().await.articles.scan().all().await.unwrap().len(), 5, "the others are deleted");
}

#[tokio::test]
async fn without_the_wish_old_articles_stay_until_their_time() {
    let scene = Scene::new(&[("MAX_STORED_ARTICLES", "2"), ("ID_INDEX_TTL", "86400")]);
    scene.publish(1..=2);
    scene.update().await.unwrap();
    scene.work().await;
    scene.publish(3..=4);
    scene.update().await.unwrap();
    scene.work().await;
    assert_eq!(scene.archive().await.articles.scan().all().await.unwrap().len(), 4);
    assert!(scene.document("article:newsdata:1").await.is_object());
    scene.world.advance(Duration::from_secs(86_401)).await;
    assert!(scene.archive().await.articles.scan().all().await.unwrap().is_empty());
    assert_eq!(scene.update().await.unwrap().new, 0, "and do not come again");
}

/// An article that leaves the index before it is done is not worked on any more.
#[tokio::test]
async fn what_left_the_index_is_skipped() {
    let scene = Scene::new(&[("MAX_STORED_ARTICLES", "2")]);
    scene.publish(1..=2);
    scene.update().await.unwrap();
    scene.publish(3..=4);
    assert_eq!(scene.update().await.unwrap().skipped, 2);
    scene.work().await;
    assert_eq!(scene.article(1).await.state.reason().unwrap().as_str(), "left_the_index");
    assert_eq!((scene.count("done").await, scene.count("skipped").await), (2, 2));
}

#[tokio::test]
async fn operators_retry_drop_repair_and_clear() {
    let scene = Scene::new(&[("MAX_CONTENT_FETCH_ATTEMPTS", "1")]);
    scene.publish(1..=2);
    scene.update().await.unwrap();
    scene.fail_page(1, vec![crate::scene::empty()]);
    scene.work().await;
    let archive = scene.archive().await;
    assert_eq!(operate::retryable(&archive).await.unwrap(), ["newsdata:1"]);
    let retried = operate::retry(&archive, "1").await.unwrap();
    assert_eq!(retried, Retried::Again, "an id without its provider will do");
    assert_eq!(operate::retry(&archive, "99").await.unwrap(), Retried::Missing);
    scene.work().await;
    assert!(matches!(scene.article(1).await.state, State::Done { .. }));
    assert_eq!(scene.asked_model("sentiment of Bitcoin report 1"), 1, "what was known was not asked again");
    assert!(operate::drop_out(&archive, "newsdata:2").await.unwrap());
    assert!(!operate::drop_out(&archive, "newsdata:99").await.unwrap());
    assert_eq!(archive.index().await.unwrap().len(), 1);
    assert_eq!(scene.update().await.unwrap().new, 0, "it does not come back");
    assert_eq!(operate::retry(&archive, "newsdata:2").await.unwrap(), Retried::TakenAway);
    assert_eq!((scene.count("dropped").await, scene.count("pending").await), (1, 0));
    scene.publish(3..=3);
    scene.update().await.unwrap();
    assert_eq!(archive.repair().await.unwrap(), 0);
    assert_eq!(operate::clear(&archive).await.unwrap(), 3);
    assert_eq!(scene.update().await.unwrap().new, 3, "now everything is new");
    scene.work().await;
    assert_eq!(scene.count("done").await, 3);
}

/// `repair` gives a job to an article that has none.
#[tokio::test]
async fn an_article_without_a_job_is_repaired() {
    let scene = Scene::new(&[]);
    scene.publish(1..=2);
    scene.update().await.unwrap();
    let archive = scene.archive().await;
    let jobs = windlass_engine::testing::enqueued::<windlass_bitcoin_news::jobs::Work>(&scene.store).await;
    assert_eq!(jobs.len(), 2);
    let store = archive.client.store();
    let list =
        windlass_engine::core::query::ListRequest { filter: Default::default(), limit: 100, after: None };
    for job in store.list(list).await.unwrap().jobs {
        store.cancel(job.id).await.unwrap();
    }
    scene.work().await;
    assert_eq!(scene.count("pending").await, 2);
    assert_eq!((archive.repair().await.unwrap(), archive.repair().await.unwrap()), (2, 0));
    scene.work().await;
    assert_eq!(scene.count("done").await, 2);
}

/// An article that is taken away changes what is shown, also when it was the one that changed last; and the time
/// stays when nothing is left of that article.
#[tokio::test]
async fn what_is_taken_away_is_a_change_of_the_feed() {
    let scene = Scene::new(&[]);
    scene.publish(1..=3);
    scene.update().await.unwrap();
    scene.work().await;
    let archive = scene.archive().await;
    let changed = async || {
        let taken_ms = archive.taken_ms().await.unwrap();
        Feed::new(archive.index().await.unwrap()).since_taken(taken_ms).changed_ms.unwrap()
    };
    let before = changed().await;
    scene.world.advance(Duration::from_secs(60)).await;
    assert!(operate::drop_out(&archive, "newsdata:3").await.unwrap());
    let after = changed().await;
    assert_eq!(after, before + 60_000);
    scene.world.advance(Duration::from_secs(2 * 86_400)).await;
    assert!(archive.find("newsdata:3").await.unwrap().is_none(), "nobody needs it any more");
    assert_eq!(changed().await, after);
}
