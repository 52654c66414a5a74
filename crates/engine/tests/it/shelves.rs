//! Records through the library: what a handler and a program around it see.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_engine::core::error::StoreError;
use windlass_engine::core::id::{RecordKey, ShelfName};
use windlass_engine::core::record::{READ_MAX, RecordBatch};
use windlass_engine::testing::{TestBench, enqueued};
use windlass_engine::{Change, Client, Context, Draft, Failure, Job, Shelf, ShelfError, UPDATE_TRIES_MAX};

use crate::forgetful::Forgetful;
use crate::stage::{Note, note};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Article {
    title: String,
}

fn article(title: &str) -> Article {
    Article { title: title.into() }
}

fn bench() -> (TestBench, Shelf<Article>) {
    let bench = TestBench::new();
    let shelf = bench.client.shelf("articles");
    (bench, shelf)
}

async fn title(shelf: &Shelf<Article>, key: &str) -> Option<String> {
    shelf.get(key).await.unwrap().map(|entry| entry.value.title)
}

#[tokio::test]
async fn what_is_put_is_read() {
    let (bench, shelf) = bench();
    assert_eq!(shelf.get("a").await.unwrap(), None);
    let first = shelf.put("a", &article("one")).await.unwrap();
    let second = shelf.put("a", &article("two")).await.unwrap();
    let entry = shelf.get("a").await.unwrap().unwrap();
    assert_eq!((entry.value, entry.rev), (article("two"), second));
    assert!(first < second);
    let numbers = bench.client.shelf::<u32>("numbers");
    for number in 0..250 {
        numbers.put(number, &number).await.unwrap();
    }
    // More than the store is asked for at once, some twice, some never there.
    let keys: Vec<u32> = (0..2 * READ_MAX as u32 + 1).rev().chain([999, 3]).collect();
    let found = numbers.get_many(&keys).await.unwrap();
    let found: Vec<Option<u32>> = found.into_iter().map(|entry| entry.map(|entry| entry.value)).collect();
    let expected: Vec<Option<u32>> = keys.iter().map(|key| (*key < 250).then_some(*key)).collect();
    assert_eq!(found, expected);
    shelf.delete("a").await.unwrap();
    shelf.delete("never").await.unwrap();
    assert_eq!(shelf.get("a").await.unwrap(), None);
}

#[tokio::test]
async fn scans_say_what_they_want() {
    let (bench, shelf) = bench();
    let mut batch = bench.client.batch();
    for (key, sort, label) in [("a", 3, "new"), ("b", 1, "old"), ("b:1", 2, "new"), ("c", 2, "new")] {
        batch.put(&shelf, key, &article(key)).sort(sort).label(label);
    }
    batch.put(&shelf, "d", &article("d")).keep(Duration::from_secs(60));
    let revs = batch.commit().await.unwrap().revs;
    let keys = async |scan: windlass_engine::ScanRequest<'_, Article>| {
        let entries = scan.await.unwrap().entries;
        entries.iter().map(|entry| entry.key.to_string()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keys(shelf.scan()).await, "a b b:1 c d");
    assert_eq!(keys(shelf.scan().prefix("b")).await, "b b:1");
    assert_eq!(keys(shelf.scan().by_sort()).await, "d b b:1 c a");
    assert_eq!(keys(shelf.scan().by_sort().descending().label("new")).await, "a c b:1");
    assert_eq!(keys(shelf.scan().from_sort(2)).await, "b:1 c a");
    assert_eq!(keys(shelf.scan().descending().from_sort(2)).await, "c b:1 b d");
    assert_eq!(keys(shelf.scan().from_sort(i64::MAX).descending()).await, "a c b:1 b d");
    assert_eq!(keys(shelf.scan().after_rev(revs[2])).await, "c d");
    let page = shelf.scan().limit(2).await.unwrap();
    let next = page.next.unwrap().to_string();
    assert_eq!(
        keys(shelf.scan().limit(2).after(next.parse::<windlass_engine::ScanCursor>().unwrap())).await,
        "b:1 c"
    );
    assert_eq!(shelf.scan().limit(2).by_sort().all().await.unwrap().len(), 5);
    let counts = shelf.count("").await.unwrap();
    assert_eq!((counts.total(), counts.of("new"), counts.of("?"), counts.unlabeled()), (5, 3, 0, 1));
    bench.world.advance(Duration::from_secs(60)).await;
    assert_eq!(shelf.count("").await.unwrap().total(), 4);
}

#[tokio::test]
async fn a_conflict_can_be_matched() {
    let (bench, shelf) = bench();
    let rev = shelf.put("a", &article("one")).await.unwrap();
    let mut batch = bench.client.batch();
    batch.put(&shelf, "b", &article("b"));
    batch.put(&shelf, "a", &article("two")).if_absent();
    batch.enqueue(note("never"));
    match batch.commit().await {
        Err(ShelfError::Conflict { shelf, key, rev: there }) => {
            assert_eq!((shelf.as_str(), key.as_str(), there), ("articles", "a", Some(rev)));
        }
        other => panic!("no conflict: {other:?}"),
    }
    assert_eq!(title(&shelf, "b").await, None);
    assert!(enqueued::<Note>(&bench.store).await.is_empty());
    let mut batch = bench.client.batch();
    batch.delete(&shelf, "a").if_rev(rev);
    batch.put(&shelf, "b", &article("b")).if_absent();
    batch.enqueue(note("now"));
    assert_eq!(batch.commit().await.unwrap().jobs.len(), 1);
    assert_eq!((title(&shelf, "a").await, enqueued::<Note>(&bench.store).await.len()), (None, 1));
}

#[tokio::test]
async fn wrong_words_are_one_error_at_the_end() {
    let (bench, shelf) = bench();
    let nameless = bench.client.shelf::<Article>("");
    let said = async |batch: windlass_engine::Batch| batch.commit().await.unwrap_err().to_string();
    let mut batch = bench.client.batch();
    batch.put(&nameless, "a", &article("a")).sort(1).label("x");
    assert_eq!(said(batch).await, "shelf is empty");
    let mut batch = bench.client.batch();
    batch.put(&shelf, "a\nb", &article("a"));
    batch.put(&shelf, "b", &article("b")).label("");
    assert_eq!(said(batch).await, "record contains a control character");
    let mut batch = bench.client.batch();
    batch.put(&shelf, "b", &article("b")).label("");
    assert_eq!(said(batch).await, "label is empty");
    let mut batch = bench.client.batch();
    batch.enqueue(note("a").into_request().key(""));
    assert_eq!(said(batch).await, "key is empty");
    assert!(nameless.get("a").await.unwrap_err().to_string().contains("shelf is empty"));
    assert!(shelf.scan().by_sort().prefix("a").await.unwrap_err().to_string().contains("order by key"));
    assert_eq!(shelf.count("").await.unwrap().total(), 0);
    assert_eq!(bench.client.batch().commit().await.unwrap().revs, [0; 0]);
}

trait IntoRequest: Job + Sized {
    fn into_request(self) -> windlass_engine::JobRequest<Self::Output> {
        self.into()
    }
}
impl IntoRequest for Note {}

#[tokio::test]
async fn what_does_not_fit_is_named() {
    let (bench, shelf) = bench();
    bench.client.shelf::<u32>("articles").put("a", &7).await.unwrap();
    let error = shelf.get("a").await.unwrap_err();
    assert!(error.to_string().contains("articles/a"), "{error}");
    assert!(matches!(Failure::from(error), Failure::Permanent { .. }));
}

#[tokio::test]
async fn an_update_keeps_what_it_does_not_say() {
    let (bench, shelf) = bench();
    let mut batch = bench.client.batch();
    batch.put(&shelf, "a", &article("one")).sort(7).label("new").keep(Duration::from_secs(60));
    batch.commit().await.unwrap();
    bench.world.advance(Duration::from_secs(10)).await;
    let before = shelf.get("a").await.unwrap().unwrap();
    let written = shelf.update("a", |old| article(&format!("{}!", old.unwrap().value.title))).await.unwrap();
    assert_eq!(written, Some(article("one!")));
    let entry = shelf.get("a").await.unwrap().unwrap();
    assert_eq!((entry.sort, entry.label.clone(), entry.expires_at), (7, before.label, before.expires_at));
    shelf.update("a", |old| Draft::new(old.unwrap().value).sort(8).no_label().keep_forever()).await.unwrap();
    let entry = shelf.get("a").await.unwrap().unwrap();
    assert_eq!((entry.sort, entry.label, entry.expires_at), (8, None, None));
    let rev = entry.rev;
    assert_eq!(shelf.update("a", |_| Change::Leave).await.unwrap(), None);
    assert_eq!(shelf.get("a").await.unwrap().unwrap().rev, rev);
    assert_eq!(shelf.update("a", |_| Change::Delete).await.unwrap(), None);
    assert_eq!(shelf.update("a", |old| old.map_or(Change::Leave, |_| Change::Delete)).await.unwrap(), None);
    assert_eq!(shelf.get("a").await.unwrap(), None);
    shelf
        .update("a", |old| Draft::new(article(if old.is_none() { "new" } else { "?" })).label("x"))
        .await
        .unwrap();
    assert_eq!(title(&shelf, "a").await.as_deref(), Some("new"));
}

#[tokio::test]
async fn an_update_begins_again_and_gives_up() {
    let (bench, shelf) = bench();
    // Somebody else writes between the read and the write: for a while, or always.
    for (others, expected) in [(3, true), (u32::MAX, false)] {
        shelf.put("a", &article("")).await.unwrap();
        let mut calls = 0;
        let store = bench.store.clone();
        let updated = shelf.update("a", |old| {
            calls += 1;
            if calls <= others {
                store.book().write_records(&other_write(calls, others), windlass_engine::Time::MIN).unwrap();
            }
            article(&format!("{}+", old.unwrap().value.title))
        });
        let updated = updated.await;
        match expected {
            true => {
                assert_eq!((updated.unwrap(), calls), (Some(article("3+")), 4));
            }
            false => {
                assert!(matches!(updated, Err(ShelfError::Conflict { .. })));
                assert_eq!(calls, UPDATE_TRIES_MAX);
            }
        }
    }
}

fn other_write(number: u32, of: u32) -> RecordBatch {
    use windlass_engine::core::json::Json;
    use windlass_engine::core::record::{IfRev, Keep, Put, RecordWrite};
    let value = Json::payload(format!("{{\"title\":\"{number}\"}}")).unwrap();
    let put = Some(Put { value, sort: 0, label: None, keep: Keep::Forever });
    let (shelf, key) = (ShelfName::new("articles").unwrap(), RecordKey::new("a").unwrap());
    let id = u128::from(of) << 64 | u128::from(number);
    let writes = vec![RecordWrite { shelf, key, if_rev: IfRev::Any, put }];
    RecordBatch { writes, ..RecordBatch::new(uuid::Uuid::from_u128(id)) }
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Fetch;

impl Job for Fetch {
    const KIND: &'static str = "fetch";
    type Output = ();
    const LADDER: Option<&'static str> = Some("1s");
}

/// An attempt whose lease is gone writes nothing, and ends as any attempt that has lost its lease: it is not
/// booked as a failure, and the next attempt has the job.
#[tokio::test]
async fn an_attempt_without_its_lease_writes_nothing() {
    let (bench, shelf) = bench();
    let job = bench.client.enqueue(Fetch).await.unwrap();
    let store = bench.store.clone();
    let handler = move |_: Fetch, ctx: Context<Client>| {
        let store = store.clone();
        async move {
            let shelf = ctx.state().shelf::<Article>("articles");
            if ctx.attempt() == 1 {
                // As when the machine stood still, and another has taken the job back meanwhile.
                let text = serde_json::to_string(&store.book().to_document()).unwrap();
                let document = serde_json::from_str(&text.replace("\"fence\":1", "\"fence\":9")).unwrap();
                *store.book() = windlass_engine::core::book::Book::from_document(document).unwrap();
            }
            let title = format!("attempt {}", ctx.attempt());
            let mut batch = ctx.state().batch().under(&ctx);
            batch.put(&shelf, &title, &article(&title));
            batch.commit().await?;
            shelf.update("last", |_| article(&title)).under(&ctx).await?;
            Ok(())
        }
    };
    // Nothing is to do until the lease that nobody holds was looked at twice.
    let done = async move { job.wait().await.unwrap() };
    bench.worker().state(bench.client.clone()).handle(handler).run_until(done).await.unwrap();
    assert_eq!(title(&shelf, "attempt 1").await, None);
    assert_eq!(title(&shelf, "last").await.as_deref(), Some("attempt 2"));
}

/// A batch whose answer is lost is asked for again under the lease, and is written once: what it counts up is
/// counted up once, and its job is there once.
#[tokio::test]
async fn a_lost_answer_does_not_write_twice() {
    let (bench, _) = bench();
    let forgetful = Arc::new(Forgetful::new(bench.store.clone()));
    let client = Client::in_world(forgetful.clone(), Arc::new(bench.world.clone()));
    bench.client.enqueue(Fetch).await.unwrap();
    let handler = async |_: Fetch, ctx: Context<(Client, Arc<Forgetful>)>| {
        let (client, forgetful) = ctx.state();
        let numbers = client.shelf::<u32>("numbers");
        forgetful.lose(2);
        numbers.update("n", |old| old.map_or(0, |old| old.value) + 1).under(&ctx).await?;
        forgetful.lose(1);
        let mut batch = client.batch().under(&ctx);
        batch.put(&numbers, "once", &1).if_absent();
        batch.enqueue(note("once"));
        batch.commit().await?;
        Ok(())
    };
    let state = (client, forgetful.clone());
    bench.worker().state(state).handle(handler).run_until_idle().await.unwrap();
    assert_eq!(forgetful.writes(), 5);
    assert_eq!(bench.client.shelf::<u32>("numbers").get("n").await.unwrap().unwrap().value, 1);
    assert_eq!(enqueued::<Note>(&bench.store).await.len(), 1);
}

/// Without a lease, whoever asked is told that the outcome is unknown.
#[tokio::test]
async fn without_a_lease_a_lost_answer_is_told() {
    let (bench, shelf) = bench();
    let forgetful = Arc::new(Forgetful::new(bench.store.clone()));
    forgetful.lose(1);
    let client = Client::in_world(forgetful, Arc::new(bench.world.clone()));
    let lost = client.shelf::<Article>("articles").put("a", &article("a")).await;
    assert!(matches!(lost, Err(ShelfError::Store(StoreError::Unavailable(_)))));
    assert_eq!(title(&shelf, "a").await.as_deref(), Some("a"));
}

/// A store that is full is not waited for: the attempt fails and is tried again by its ladder.
#[tokio::test]
async fn a_full_store_fails_the_attempt() {
    let (bench, _) = bench();
    let forgetful = Arc::new(Forgetful::new(bench.store.clone()));
    forgetful.fill();
    let client = Client::in_world(forgetful.clone(), Arc::new(bench.world.clone()));
    let job = bench.client.enqueue(Fetch).await.unwrap();
    let handler = async |_: Fetch, ctx: Context<Client>| {
        let shelf = ctx.state().shelf::<u32>("numbers");
        let mut batch = ctx.state().batch().under(&ctx);
        batch.put(&shelf, "n", &1);
        batch.commit().await?;
        Ok(())
    };
    bench.worker().state(client).handle(handler).run_until_idle().await.unwrap();
    let error = job.wait().await.unwrap_err().to_string();
    assert!(error.contains("the store is full"), "{error}");
    assert_eq!(forgetful.writes(), 2, "once in each attempt");
}
