//! A table that belongs to somebody else.

use std::sync::Arc;

use windlass_core::job::Start;
use windlass_core::json::Json;
use windlass_core::store::{LeaseRef, Leased, Source, StepWrite, Written};
use windlass_core::time::Time;
use windlass_core::transition::Outcome;
use windlass_postgres::Options;
use windlass_postgres::adopted::{AdoptedTable, Mapping, Stage, StepColumn, Words};
use windlass_testkit::clock::FakeClock;

use crate::scene::{Scene, ends, wish};

/// The noon of the fake clock's first day, in milliseconds: 2026-01-01T00:00:00Z.
const START_MS: i64 = 1_767_225_600_000;

fn words() -> Words {
    Words {
        ready: vec!["READY".into(), "RETRY".into()],
        retry: "RETRY".into(),
        running: "RUNNING".into(),
        done: "DONE".into(),
        failed: "FAILED".into(),
        canceled: None,
    }
}

fn step(name: &str, word: &str, output: &str) -> StepColumn {
    StepColumn { name: name.parse().expect("a step"), word: word.into(), output: Some(output.into()) }
}

fn mapping(fence: bool) -> Mapping {
    Mapping {
        table: "tours".into(),
        kind: "tour".parse().expect("a kind"),
        queue: "q".parse().expect("a queue"),
        id: "id".into(),
        payload: vec!["id".into(), "patient".into()],
        status: "status".into(),
        words: words(),
        owner: "owner".into(),
        locked_until: "locked_until".into(),
        next_attempt: "next_attempt_at".into(),
        tries: "tries".into(),
        fence: fence.then(|| "fence".into()),
        crashes: fence.then(|| "crashes".into()),
        stage: Some(Stage {
            column: "stage".into(),
            steps: vec![step("fetch", "FETCHED", "raw"), step("plan", "PLANNED", "plan")],
        }),
        error: Some("last_error".into()),
        predicate: Some("t.patient <> 'nobody'".into()),
        order: Some("created".into()),
        tries_max: 3,
        crashes_max: 2,
        ladder: "1m 5m".parse().expect("a ladder"),
        lease_ms: 30_000,
    }
}

const COLUMNS: &str = "patient text, created int, status text, owner text, tries int, fence bigint, \
                       crashes int, stage text, raw text, plan jsonb, last_error text";

struct Tours {
    scene: Scene,
    clock: FakeClock,
}

impl Tours {
    /// A table whose times are of this type.
    async fn new(times: &str) -> Self {
        let scene = Scene::new().await;
        let table = format!(
            "CREATE TABLE tours (id text PRIMARY KEY, {COLUMNS}, locked_until {times}, next_attempt_at {times})"
        );
        scene.client.batch_execute(&table).await.expect("a table");
        Self { scene, clock: FakeClock::default() }
    }

    async fn add(&self, n: i32, status: &str) {
        let row = "INSERT INTO tours (id, patient, created, status, tries) VALUES ($1, 'p', $2, $3, 0)";
        self.scene.client.execute(row, &[&format!("t{n}"), &n, &status]).await.expect("a row");
    }

    async fn open(&self, fence: bool) -> Arc<AdoptedTable> {
        let options = Options { clock: Some(Arc::new(self.clock.clone())), ..Options::default() };
        AdoptedTable::open(&self.scene.database.url(), options, mapping(fence))
            .await
            .expect("an adopted table")
    }

    async fn text(&self, n: i32, column: &str) -> Option<String> {
        let sql = format!("SELECT {column}::text FROM tours WHERE id = $1");
        self.scene.client.query_one(&sql, &[&format!("t{n}")]).await.expect("the row").get(0)
    }
}

async fn claim(table: &AdoptedTable, limit: u32) -> Vec<Leased> {
    table.claim(wish(limit)).await.expect("claim").leases
}

async fn end(table: &AdoptedTable, lease: LeaseRef, outcome: Outcome) -> Written {
    table.settle(ends(&[lease], &outcome)).await.expect("settle")[0]
}

/// A row from READY to DONE over its stages, with and without a fence column.
#[tokio::test(flavor = "multi_thread")]
async fn a_row_goes_through_its_life() {
    for (times, fence) in [("timestamptz", true), ("text", false)] {
        let tours = Tours::new(times).await;
        tours.add(2, "READY").await;
        tours.add(1, "RETRY").await;
        tours.add(3, "DONE").await;
        let table = tours.open(fence).await;
        let leases = claim(&table, 10).await;
        let payloads: Vec<&str> = leases.iter().map(|leased| leased.job.spec.payload.as_str()).collect();
        assert_eq!(payloads, [r#"{"id":"t1","patient":"p"}"#, r#"{"id":"t2","patient":"p"}"#]);
        let (first, second) = (leases[0].lease_ref(), leases[1].lease_ref());
        let output = Json::payload(r#"{"a":1}"#).expect("JSON");
        for name in ["fetch", "plan"] {
            let write =
                StepWrite { lease: first, name: name.parse().expect("a step"), output: output.clone() };
            assert_eq!(table.store_steps(vec![write]).await.expect("a step"), [Written::Done]);
        }
        assert_eq!(tours.text(1, "stage").await.as_deref(), Some("PLANNED"));
        assert_eq!(end(&table, first, Outcome::Released).await, Written::Done);
        assert_eq!(tours.text(1, "tries").await.as_deref(), Some("0"), "a release costs no try");
        let again = claim(&table, 10).await;
        assert_eq!(again.len(), 1);
        let steps: Vec<(&str, &str)> =
            again[0].job.steps.iter().map(|step| (step.name.as_str(), step.output.as_str())).collect();
        assert_eq!(steps[0], ("fetch", r#"{"a":1}"#));
        assert_eq!(steps[1].0, "plan");
        assert_eq!(end(&table, again[0].lease_ref(), Outcome::DONE).await, Written::Done);
        assert_eq!(end(&table, again[0].lease_ref(), Outcome::DONE).await, Written::Done, "asked again");
        let failed = Outcome::Failed { error: "it's over".into() };
        assert_eq!(end(&table, second, failed).await, Written::Done);
        assert_eq!(tours.text(1, "status").await.as_deref(), Some("DONE"));
        assert_eq!(tours.text(2, "status").await.as_deref(), Some("FAILED"));
        assert_eq!(tours.text(2, "last_error").await.as_deref(), Some("it's over"));
        assert!(claim(&table, 10).await.is_empty());
    }
}

/// Retries follow the ladder and end with the tries; parking waits for free.
#[tokio::test(flavor = "multi_thread")]
async fn tries_end_with_the_ladder() {
    let tours = Tours::new("text").await;
    tours.add(1, "READY").await;
    let table = tours.open(false).await;
    for wait in ["1m", "5m"] {
        let lease = claim(&table, 1).await[0].lease_ref();
        let retry = Outcome::Retry { error: "no".into(), when: None };
        assert_eq!(end(&table, lease, retry).await, Written::Done);
        let ms = wait.parse::<windlass_core::time::Span>().expect("a span").ms();
        tours.clock.advance(ms - 1);
        assert!(claim(&table, 1).await.is_empty());
        tours.clock.advance(1);
    }
    let lease = claim(&table, 1).await[0].lease_ref();
    let until = Start::AfterMs(5_000);
    assert_eq!(end(&table, lease, Outcome::Parked { until }).await, Written::Done);
    assert!(claim(&table, 1).await.is_empty());
    tours.clock.advance(5_000);
    let lease = claim(&table, 1).await[0].lease_ref();
    assert_eq!(end(&table, lease, Outcome::Retry { error: "no".into(), when: None }).await, Written::Done);
    assert_eq!(tours.text(1, "status").await.as_deref(), Some("FAILED"));
    assert_eq!(tours.text(1, "tries").await.as_deref(), Some("3"));
}

/// A lock that ran out is taken over, and the worker that lost it changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_stale_writer_is_refused() {
    for (times, fence) in [("timestamptz", true), ("text", false)] {
        let tours = Tours::new(times).await;
        tours.add(1, "READY").await;
        let (one, two) = (tours.open(fence).await, tours.open(fence).await);
        let lost = claim(&one, 1).await[0].lease_ref();
        assert!(claim(&two, 1).await.is_empty(), "it is held");
        tours.clock.advance(29_999);
        assert_eq!(one.renew(vec![lost]).await.expect("renew").renewed, [lost.job_id]);
        tours.clock.advance(30_000);
        let taken = claim(&two, 1).await;
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].job.id, lost.job_id, "the same row is the same job");
        assert_eq!(one.renew(vec![lost]).await.expect("renew").lost, [lost.job_id]);
        let write = StepWrite { lease: lost, name: "fetch".parse().expect("a step"), output: Json::null() };
        assert_eq!(one.store_steps(vec![write]).await.expect("a step"), [Written::Lost]);
        assert_eq!(end(&one, lost, Outcome::DONE).await, Written::Lost);
        assert_eq!(tours.text(1, "status").await.as_deref(), Some("RUNNING"));
        assert_eq!(end(&two, taken[0].lease_ref(), Outcome::DONE).await, Written::Done);
    }
}

/// Locks that ran out are given back, or failed when no try or crash is left.
#[tokio::test(flavor = "multi_thread")]
async fn expiry_gives_back_and_ends() {
    let tours = Tours::new("timestamptz").await;
    tours.add(1, "READY").await;
    let table = tours.open(true).await;
    for expected in ["RETRY", "FAILED"] {
        assert_eq!(claim(&table, 1).await.len(), 1);
        assert!(table.expire().await.expect("expire").jobs.is_empty());
        tours.clock.advance(30_000);
        assert_eq!(table.expire().await.expect("expire").jobs.len(), 1);
        assert_eq!(tours.text(1, "status").await.as_deref(), Some(expected));
    }
    assert!(tours.text(1, "last_error").await.is_some_and(|error| error.contains("lease ran out")));
}

/// Two claimers on one table never get the same row.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_claimers_share_no_row() {
    let tours = Tours::new("timestamptz").await;
    for n in 1..=60 {
        tours.add(n, "READY").await;
    }
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let table = tours.open(false).await;
        tasks.push(tokio::spawn(async move {
            let mut ids = Vec::new();
            loop {
                let leases = claim(&table, 3).await;
                if leases.is_empty() {
                    return ids;
                }
                ids.extend(leases.iter().map(|leased| leased.job.id));
            }
        }));
    }
    let mut ids = Vec::new();
    for task in tasks {
        ids.extend(task.await.expect("a claimer"));
    }
    let taken = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((taken, ids.len()), (60, 60));
}

/// Times of text are compared as times, in whatever ISO form they are.
#[tokio::test(flavor = "multi_thread")]
async fn text_times_in_any_iso_form() {
    let tours = Tours::new("text").await;
    let table = tours.open(false).await;
    for (n, (text, due)) in (1..).zip([
        ("2026-01-01T00:00:00Z", true),
        ("2026-01-01T00:00:00.001Z", false),
        ("2026-01-01 00:00:00", true),
        ("2026-01-01T01:00:00+01:00", true),
        ("2026-01-01T00:30:00+01", true),
        ("2026-01-01T00:00:00-00:01", false),
        ("2025-12-31", true),
        ("2026-01-02", false),
        ("2025-12-31T23:59", true),
        ("2026-01-01T00:00:01,5", false),
        ("", true),
    ]) {
        tours.add(n, "RETRY").await;
        let set = "UPDATE tours SET next_attempt_at = $1 WHERE id = $2";
        tours.scene.client.execute(set, &[&text, &format!("t{n}")]).await.expect("a time");
        assert_eq!(claim(&table, 1).await.len(), usize::from(due), "{text}");
        let away = "UPDATE tours SET status = 'DONE'";
        tours.scene.client.execute(away, &[]).await.expect("out of the way");
    }
    tours.add(100, "READY").await;
    assert_eq!(claim(&table, 1).await.len(), 1);
    let until = Time::from_ms(START_MS + 30_000).to_string();
    assert_eq!(tours.text(100, "locked_until").await, Some(until), "written as RFC 3339 in UTC");
}

/// What a table lacks is said in plain words, with the SQL that adds it.
#[tokio::test(flavor = "multi_thread")]
async fn check_says_what_is_missing() {
    let scene = Scene::new().await;
    let url = scene.database.url();
    let look = async || AdoptedTable::check(&url, Options::default(), &mapping(true)).await.expect("a check");
    assert_eq!(look().await[0].what, "there is no table tours, or this role may not see it");
    let table = "CREATE TABLE tours (id text PRIMARY KEY, patient text, created int, status int, tries int)";
    scene.client.batch_execute(table).await.expect("a table");
    let found = look().await;
    assert!(found.iter().any(|f| f.what == "tours.status is of type integer; it must be text"));
    assert!(AdoptedTable::open(&url, Options::default(), mapping(true)).await.is_err());
    scene.client.batch_execute("ALTER TABLE tours ALTER status TYPE text").await.expect("a type");
    for finding in look().await {
        scene
            .client
            .batch_execute(&finding.sql.expect("SQL for a missing column"))
            .await
            .expect(&finding.what);
    }
    let slow = look().await;
    assert!(slow.len() == 1 && slow[0].only_slow, "{slow:?}");
    scene.client.batch_execute(slow[0].sql.as_deref().expect("an index")).await.expect("an index");
    assert!(look().await.is_empty());
    assert!(AdoptedTable::open(&url, Options::default(), mapping(true)).await.is_ok());
}
