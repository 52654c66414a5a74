//! `windlass.enqueue`: inside the caller's own transaction, from any language.

use windlass_core::job::{NewJob, Start};
use windlass_core::json::Json;
use windlass_core::query::{JobFilter, ListRequest};
use windlass_core::store::{Source, Store};
use windlass_core::trace::TraceParent;

use crate::scene::{Scene, job, wish};

async fn count(store: &dyn Store) -> usize {
    let request = ListRequest { filter: JobFilter::default(), limit: 100, after: None };
    store.list(request).await.expect("a page").jobs.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_lives_and_dies_with_its_transaction() {
    let mut scene = Scene::new().await;
    let store = scene.store(None).await;
    let enqueue = "SELECT windlass.enqueue('k', '{\"a\": 1}', '{\"queue\": \"q\"}')";
    let gone = scene.client.transaction().await.expect("a transaction");
    gone.query_one(enqueue, &[]).await.expect("enqueue");
    gone.rollback().await.expect("rollback");
    assert_eq!(count(&*store).await, 0);
    let kept = scene.client.transaction().await.expect("a transaction");
    kept.query_one(enqueue, &[]).await.expect("enqueue");
    assert_eq!(count(&*store).await, 0, "not before the commit");
    kept.commit().await.expect("commit");
    let leases = store.claim(wish(10)).await.expect("claim").leases;
    assert_eq!(leases.len(), 1);
    assert_eq!(leases[0].job.spec.payload.as_str(), "{\"a\":1}", "minified as by every other way in");
}

/// The span of a caller is carried, and is no part of the content: by the rule of core, to the letter.
#[tokio::test(flavor = "multi_thread")]
async fn the_span_of_the_caller_is_carried() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let parent = TraceParent::new(PARENT).expect("a parent");
    let named = format!(r#"{{"traceparent":"{PARENT}","b":2}}"#);
    for (n, own) in
        [None, Some("{}"), Some(r#"{"a":1.10}"#), Some("[1]"), Some(&*named)].into_iter().enumerate()
    {
        let NewJob { id, mut spec, .. } = job(n as u128);
        let meta = own.map(|own| format!(r#","meta":{own}"#)).unwrap_or_default();
        let options = format!(r#"{{"id":"{id}","queue":"q","traceparent":"{PARENT}"{meta}}}"#);
        let sql = "SELECT windlass.enqueue('k', $1::text, $2::text)";
        scene.client.query_one(sql, &[&spec.payload.as_str(), &options]).await.expect("enqueue");
        let kept = store.get(id).await.expect("get").expect("the job").spec.meta;
        let own = own.map(|own| Json::payload(own).expect("JSON"));
        assert_eq!(kept, parent.put(own.clone()), "{own:?}");
        spec.meta = own;
        let same = spec.meta.as_ref().is_none_or(|own| own.as_str() != "{}");
        let again = store.enqueue(vec![NewJob { id, spec, start: Start::Now }]).await;
        assert_eq!(again.is_ok(), same, "the same job from another span, or from none: {again:?}");
    }
    let wrong = r#"{"traceparent":"00-00000000000000000000000000000000-00f067aa0ba902b7-01"}"#;
    let refused =
        scene.client.query_one("SELECT windlass.enqueue('k', '1'::text, $1::text)", &[&wrong]).await;
    assert!(refused.is_err());
}

/// What SQL enqueues is to the letter what the program enqueues: the same id
/// with the same content is the same job.
#[tokio::test(flavor = "multi_thread")]
async fn every_option_means_what_it_means_in_the_program() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let NewJob { id, mut spec, .. } = job(7);
    spec.payload = Json::payload(r#"{"a":[1,"x, y: \" z"],"b":{}}"#).expect("JSON");
    spec.priority = -3;
    spec.key = Some("shop".parse().expect("a key"));
    spec.dedupe_key = Some("once".parse().expect("a key"));
    spec.budgets = ["a", "b"].map(|name| name.parse().expect("a budget")).to_vec();
    spec.retry = serde_json::from_str(r#"{"ladder":"1m 2h","max_attempts":2}"#).expect("a rule");
    spec.timeout_ms = Some(90_000);
    spec.meta = Some(Json::payload(r#"{"m":true}"#).expect("JSON"));
    let options = format!(
        r#"{{"id":"{id}","queue":"q","priority":-3,"delay":"5m","key":"shop","dedupe_key":"once",
            "budgets":["b","a","b"],"retry":{{"ladder":"60s,120m","max_attempts":2}},"timeout":"90s","meta":{{"m":true}}}}"#
    );
    let payload = r#"{"a": [1, "x, y: \" z"], "b": {}}"#;
    let sql = "SELECT windlass.enqueue('k', $1::text::jsonb, $2::text::jsonb)";
    let there: uuid::Uuid = scene.client.query_one(sql, &[&payload, &options]).await.expect("enqueue").get(0);
    assert_eq!(there, id.0);
    let again = store.enqueue(vec![NewJob { id, spec, start: Start::Now }]).await.expect("the same content");
    assert!(again[0].deduplicated);
    let kept = store.get(id).await.expect("get").expect("the job");
    assert_eq!(kept.run_at.ms_since(kept.created_at), 300_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_enqueues() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    scene
        .client
        .batch_execute(
            "CREATE TABLE orders (id int);
             CREATE FUNCTION told() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 PERFORM windlass.enqueue('k', to_jsonb(NEW), '{\"queue\": \"q\"}'); RETURN NEW; END $$;
             CREATE TRIGGER told AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION told();
             INSERT INTO orders VALUES (1), (2), (3)",
        )
        .await
        .expect("a table with a trigger");
    let leases = store.claim(wish(10)).await.expect("claim").leases;
    let payloads: Vec<&str> = leases.iter().map(|leased| leased.job.spec.payload.as_str()).collect();
    assert_eq!(payloads, [r#"{"id":1}"#, r#"{"id":2}"#, r#"{"id":3}"#]);
}

/// A job with a key that was enqueued on an old snapshot is found all the same.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_snapshot_does_not_strand_a_key() {
    let mut scene = Scene::new().await;
    let store = scene.store(None).await;
    let mut first = job(1);
    first.spec.key = Some("shop".parse().expect("a key"));
    store.enqueue(vec![first]).await.expect("enqueue");
    let lease = store.claim(wish(1)).await.expect("claim").leases[0].lease_ref();
    let old =
        scene.client.build_transaction().isolation_level(tokio_postgres::IsolationLevel::RepeatableRead);
    let old = old.start().await.expect("a transaction");
    old.query_one("SELECT count(*) FROM windlass.jobs", &[]).await.expect("a snapshot");
    let done = crate::scene::ends(&[lease], &windlass_core::transition::Outcome::DONE);
    store.settle(done).await.expect("settle");
    old.query_one("SELECT windlass.enqueue('k', '2', '{\"queue\": \"q\", \"key\": \"shop\"}')", &[])
        .await
        .expect("enqueue");
    old.commit().await.expect("commit");
    assert_eq!(store.claim(wish(1)).await.expect("claim").leases.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_refused_by_name() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let deep = format!("{}{}", "[".repeat(65), "]".repeat(65));
    let large = format!("\"{}\"", "x".repeat(1024 * 1024));
    for (payload, options, why) in [
        ("1", r#"{"colour":1,"size":2}"#, "unknown option colour, size"),
        ("1", r#"{"delay":"5 minutes"}"#, "delay '5 minutes' is not a length of time"),
        ("1", r#"{"delay":"5m","run_at":"2026-01-01T00:00:00Z"}"#, "exclude each other"),
        ("1", r#"{"run_at":"tomorrow"}"#, "run_at is not a moment"),
        ("1", r#"{"queue":""}"#, "queue is empty"),
        ("1", r#"{"key":"a\u0007b"}"#, "key contains a control character"),
        ("1", r#"{"priority":40000}"#, "priority is not a whole number"),
        ("1", r#"{"id":"7"}"#, "id is not a UUID"),
        ("1", r#"{"retry":"1m often"}"#, "retry 'often' is not a length of time"),
        ("1", r#"{"retry":{"rungs":1}}"#, "retry is neither a ladder"),
        ("1", r#"{"timeout":"0s"}"#, "timeout is 0"),
        ("1", r#"{"budgets":"a"}"#, "budgets are not an array"),
        ("1", "[]", "options are not an object"),
        ("1", r#"{"key":5}"#, "key must be text in quotes"),
        ("1", r#"{"budgets":["a",5]}"#, "budgets are not an array"),
        ("1", r#"{"key":"a","key":"b"}"#, "options has an object with a duplicate key"),
        ("1", r#"{"retry":{"ladder":"1m","ladder":"2m"}}"#, "options has an object with a duplicate key"),
        (
            "1",
            r#"{"retry":{"ladder":"1m","max_attempts":4294967296}}"#,
            "max_attempts that is not a whole number",
        ),
        ("1", r#"{"retry":{"ladder":"none","max_attempts":5}}"#, "no rung to wait by"),
        (r#"[{"a":1,"\u0061":2}]"#, "{}", "payload has an object with a duplicate key"),
        ("[9223372036854775808]", "{}", "does not fit into 64 bits"),
        ("1e309", "{}", "a number that is too large"),
        (deep.as_str(), "{}", "nested deeper than 64"),
        (large.as_str(), "{}", "at most 1048576 are allowed"),
    ] {
        let sql = "SELECT windlass.enqueue('k', $1::text, $2::text)";
        let refused = scene.client.query_one(sql, &[&payload, &options]).await.expect_err(why);
        let said = refused.as_db_error().map(|error| error.message().to_owned()).unwrap_or_default();
        assert!(said.contains(why), "{options}: {said}, expected {why}");
    }
    assert_eq!(count(&*store).await, 0);
}

/// What a jsonb holds is what is enqueued, whatever it was made of.
#[tokio::test(flavor = "multi_thread")]
async fn jsonb_is_taken_as_it_is() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let sql = "SELECT windlass.enqueue('k', '{\"b\": 1, \"b\": 1e2, \"a\": \"x, y: z\"}'::jsonb, \
               jsonb_build_object('queue', 'q', 'meta', jsonb_build_array(1)))";
    scene.client.query_one(sql, &[]).await.expect("enqueue");
    let leases = store.claim(wish(1)).await.expect("claim").leases;
    assert_eq!(leases[0].job.spec.payload.as_str(), r#"{"a":"x, y: z","b":100}"#);
    assert_eq!(leases[0].job.spec.meta.as_ref().map(Json::as_str), Some("[1]"));
    let wide = "SELECT windlass.enqueue('k', '1e19'::jsonb)";
    scene.client.query_one(wide, &[]).await.expect_err("to a jsonb it is an integer, and too wide");
}
