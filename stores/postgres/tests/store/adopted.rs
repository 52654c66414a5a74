//! A table that belongs to somebody else.

use std::sync::Arc;

use windlass_core::job::Start;
use windlass_core::json::Json;
use windlass_core::store::{LeaseRef, Leased, Settlement, Source, StepWrite, Written};
use windlass_core::time::Time;
use windlass_core::transition::Outcome;
use windlass_postgres::Options;
use windlass_postgres::adopted::AdoptedTable;
use windlass_postgres::adopted::mapping::{
    Assign, Beside, CoolDowns, Mapping, Output, Stage, StepColumn, Words,
};
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
        failed_as: vec![("person:".into(), "WAITING".into())],
        canceled: None,
    }
}

fn step(name: &str, word: &str, output: &str) -> StepColumn {
    let output = Output::Column(output.into());
    StepColumn { name: name.parse().expect("a step"), word: word.into(), output, carried: Vec::new() }
}

pub fn mapping(fence: bool) -> Mapping {
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
        counts_failures: false,
        fence: fence.then(|| "fence".into()),
        request: None,
        crashes: fence.then(|| "crashes".into()),
        stage: Some(Stage {
            column: "stage".into(),
            steps: vec![step("fetch", "FETCHED", "raw"), step("plan", "PLANNED", "plan")],
        }),
        error: Some("last_error".into()),
        predicate: Some("t.patient <> 'nobody'".into()),
        order: Some("created".into()),
        moments: None,
        tries_max: 3,
        crashes_max: 2,
        ladder: "1m 5m".parse().expect("a ladder"),
        lease_ms: 30_000,
        release_ms: 0,
        beside: Beside::default(),
        cool_downs: None,
        channel: None,
    }
}

pub const COLUMNS: &str = "patient text, created int, status text, owner text, tries int, fence bigint, \
                       crashes int, stage text, raw text, plan jsonb, last_error text";

pub struct Tours {
    pub scene: Scene,
    pub clock: FakeClock,
}

impl Tours {
    /// A table whose times are of this type.
    pub async fn new(times: &str) -> Self {
        let scene = Scene::new().await;
        let table = format!(
            "CREATE TABLE tours (id text PRIMARY KEY, {COLUMNS}, locked_until {times}, next_attempt_at {times})"
        );
        scene.client.batch_execute(&table).await.expect("a table");
        Self { scene, clock: FakeClock::default() }
    }

    pub async fn add(&self, n: i32, status: &str) {
        let row = "INSERT INTO tours (id, patient, created, status, tries) VALUES ($1, 'p', $2, $3, 0)";
        self.scene.client.execute(row, &[&format!("t{n}"), &n, &status]).await.expect("a row");
    }

    pub async fn open(&self, fence: bool) -> Arc<AdoptedTable> {
        self.open_as(mapping(fence)).await
    }

    pub async fn open_as(&self, mapping: Mapping) -> Arc<AdoptedTable> {
        let options = Options { clock: Some(Arc::new(self.clock.clone())), ..Options::default() };
        AdoptedTable::open(&self.scene.database.url(), options, mapping).await.expect("an adopted table")
    }

    pub async fn text(&self, n: i32, column: &str) -> Option<String> {
        let sql = format!("SELECT {column}::text FROM tours WHERE id = $1");
        self.scene.client.query_one(&sql, &[&format!("t{n}")]).await.expect("the row").get(0)
    }
}

pub async fn claim(table: &AdoptedTable, limit: u32) -> Vec<Leased> {
    table.claim(wish(limit)).await.expect("claim").leases
}

pub async fn end(table: &AdoptedTable, lease: LeaseRef, outcome: Outcome) -> Written {
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
        assert!(claim(&two, 1).await.is_empty(), "a claim takes nothing back");
        assert_eq!(one.renew(vec![lost]).await.expect("a late renewal").renewed, [lost.job_id]);
        run_out(&tours, &two, 1).await;
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

/// Lets locks run out, and takes them back as soon as that may be.
async fn run_out(tours: &Tours, table: &AdoptedTable, locks: usize) {
    tours.clock.advance(20_000);
    let looked = table.expire().await.expect("a first look");
    assert_eq!((looked.jobs.len(), looked.marked, looked.next_in_ms), (0, locks, Some(10_000)));
    tours.clock.advance(9_999);
    let looked = table.expire().await.expect("a look");
    assert_eq!((looked.jobs.len(), looked.marked, looked.next_in_ms), (0, 0, Some(1)));
    tours.clock.advance(1);
    assert_eq!(table.expire().await.expect("a second look").jobs.len(), locks);
}

/// A process that has seen no first look takes nothing; nor does one whose look is too long ago, or of another end.
#[tokio::test(flavor = "multi_thread")]
async fn two_looks_of_one_process() {
    let tours = Tours::new("timestamptz").await;
    tours.add(1, "READY").await;
    let (one, two) = (tours.open(true).await, tours.open(true).await);
    let lease = claim(&one, 1).await[0].lease_ref();
    tours.clock.advance(25_000);
    assert_eq!(one.expire().await.expect("a look").marked, 1);
    assert_eq!(one.renew(vec![lease]).await.expect("renew").renewed, [lease.job_id]);
    tours.clock.advance(30_000);
    assert_eq!(one.expire().await.expect("a look").marked, 1, "the mark was of another end");
    tours.clock.advance(20_001);
    assert_eq!(one.expire().await.expect("a look").marked, 1, "the mark was too old");
    tours.clock.advance(10_000);
    assert_eq!(two.expire().await.expect("a look").marked, 1, "another process looks for itself");
    assert_eq!(end(&one, lease, Outcome::DONE).await, Written::Done, "late, and nobody took it back");
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
        run_out(&tours, &table, 1).await;
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
        ("2028-02-29T00:00:00Z", false),
        // What is no moment counts as none, and does not make the claim fail.
        ("2026-02-29T00:00:00Z", true),
        ("2026-13-01", true),
        ("2026-06-31 10:00", true),
        ("2026-01-01T25:00:00Z", true),
        ("0000-01-01", true),
        ("2026-01-02T00:00:00+99", true),
        ("tomorrow", true),
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

/// A mapping with everything that an app may ask for beside the columns.
fn rich() -> Mapping {
    let mut mapping = mapping(true);
    mapping.request = Some("claim".into());
    mapping.release_ms = 60_000;
    mapping.cool_downs =
        Some(CoolDowns { table: "cooling".into(), budgets: vec!["api".parse().expect("a budget")] });
    mapping.beside = Beside {
        done: vec![assign("ended", "to_char(m.now AT TIME ZONE 'UTC', 'YYYY')")],
        failed: vec![assign("ended", "'not yet'")],
        carried: vec![
            "INSERT INTO lines SELECT id, wl_from, status, wl_outcome, wl_error FROM written".into(),
        ],
    };
    let fetch = StepColumn {
        name: "fetch".parse().expect("a step"),
        word: "FETCHED".into(),
        output: Output::Fields(vec![
            ("key".into(), "raw".into()),
            ("bytes".into(), "bytes".into()),
            ("more".into(), "plan".into()),
        ]),
        carried: vec![
            "INSERT INTO lines SELECT id, wl_from, stage, 'step', wl_output ->> 'key' FROM written".into(),
        ],
    };
    let plan = StepColumn {
        name: "plan".parse().expect("a step"),
        word: "PLANNED".into(),
        output: Output::None,
        carried: vec!["INSERT INTO papers SELECT id FROM written ON CONFLICT DO NOTHING".into()],
    };
    mapping.stage = Some(Stage { column: "stage".into(), steps: vec![fetch, plan] });
    mapping
}

fn assign(column: &str, value: &str) -> Assign {
    Assign { column: column.into(), value: value.into() }
}

impl Tours {
    async fn rich() -> Self {
        let tours = Self::new("text").await;
        let more = "ALTER TABLE tours ADD claim text, ADD bytes bigint, ADD ended text; \
                    CREATE TABLE cooling (name text PRIMARY KEY, until timestamptz); \
                    CREATE TABLE lines (id text, before text, after text, what text, detail text); \
                    CREATE TABLE papers (id text PRIMARY KEY)";
        tours.scene.client.batch_execute(more).await.expect("more tables");
        tours
    }

    async fn lines(&self) -> Vec<String> {
        let sql = "SELECT concat_ws(' ', id, before, after, what, detail) FROM lines";
        let rows = self.scene.client.query(sql, &[]).await.expect("lines");
        rows.iter().map(|row| row.get(0)).collect()
    }

    async fn papers(&self) -> i64 {
        let sql = "SELECT count(*) FROM papers";
        self.scene.client.query_one(sql, &[]).await.expect("papers").get(0)
    }
}

fn write(lease: LeaseRef, name: &str, output: &str) -> StepWrite {
    StepWrite { lease, name: name.parse().expect("a step"), output: Json::payload(output).expect("JSON") }
}

/// What is carried happens with the write, and not without it.
#[tokio::test(flavor = "multi_thread")]
async fn carried_statements_go_with_the_write() {
    let tours = Tours::rich().await;
    for n in 1..=2 {
        tours.add(n, "READY").await;
    }
    let table = tours.open_as(rich()).await;
    let leases: Vec<LeaseRef> = claim(&table, 2).await.iter().map(Leased::lease_ref).collect();
    let output = r#"{"key":"k","bytes":7,"more":{"a":[1]}}"#;
    let stale = LeaseRef { fence: leases[1].fence + 1, ..leases[1] };
    let steps = vec![
        write(leases[0], "fetch", output),
        write(stale, "fetch", output),
        write(leases[0], "plan", "null"),
    ];
    let written = table.store_steps(steps).await.expect("steps");
    assert_eq!(written, [Written::Done, Written::Lost, Written::Done]);
    assert_eq!(tours.lines().await, ["t1 FETCHED step k"], "the stale write carried nothing");
    assert_eq!(tours.papers().await, 1);
    assert_eq!(tours.text(1, "bytes").await.as_deref(), Some("7"));
    assert_eq!(tours.text(1, "plan").await.as_deref(), Some(r#"{"a": [1]}"#));
    let again = write(leases[0], "plan", "null");
    assert_eq!(table.store_steps(vec![again]).await.expect("a step"), [Written::Done]);
    assert_eq!(tours.papers().await, 1);
    run_out(&tours, &table, 2).await;
    let late = write(leases[1], "plan", "null");
    assert_eq!(table.store_steps(vec![late]).await.expect("a step"), [Written::Lost]);
    assert_eq!(tours.papers().await, 1, "a lock that was taken back carries nothing");
}

/// The ends of many attempts go in one statement, each with its own words.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_ends() {
    let tours = Tours::rich().await;
    for n in 1..=5 {
        tours.add(n, "READY").await;
    }
    let table = tours.open_as(rich()).await;
    let leases: Vec<LeaseRef> = claim(&table, 5).await.iter().map(Leased::lease_ref).collect();
    let outcomes = [
        Outcome::DONE,
        Outcome::Retry { error: "later".into(), when: None },
        Outcome::Failed { error: "person: who is it?".into() },
        Outcome::Released,
        Outcome::Parked { until: Start::At(Time::from_ms(START_MS + 5_000)) },
    ];
    let ends = leases
        .iter()
        .zip(&outcomes)
        .map(|(lease, outcome)| Settlement { lease: *lease, outcome: outcome.clone() });
    let ends: Vec<Settlement> = ends.collect();
    assert_eq!(table.settle(ends.clone()).await.expect("settle"), [Written::Done; 5]);
    let mut lines = tours.lines().await;
    lines.sort();
    assert_eq!(
        lines,
        [
            "t1 RUNNING DONE completed",
            "t2 RUNNING RETRY retry later",
            "t3 RUNNING WAITING failed person: who is it?",
            "t4 RUNNING RETRY released",
            "t5 RUNNING RETRY parked",
        ]
    );
    let at = |ms: i64| Some(Time::from_ms(START_MS + ms).to_string());
    assert_eq!(tours.text(2, "next_attempt_at").await, at(60_000));
    assert_eq!(
        tours.text(4, "next_attempt_at").await,
        at(60_000),
        "a release waits as long as the mapping says"
    );
    assert_eq!(tours.text(5, "next_attempt_at").await, at(5_000));
    for (n, tries, ended) in [(1, "1", Some("2026")), (2, "1", Some("not yet")), (4, "0", None)] {
        assert_eq!(tours.text(n, "tries").await.as_deref(), Some(tries));
        assert_eq!(tours.text(n, "ended").await.as_deref(), ended);
    }
    // Asked again, what is final is known, and nothing is carried twice.
    let repeated = table.settle(ends).await.expect("settle");
    assert_eq!(repeated, [Written::Done, Written::Lost, Written::Done, Written::Lost, Written::Lost]);
    assert_eq!(tours.lines().await.len(), 5);
}

/// A stage without its proof is done again, and the stage does not go back.
#[tokio::test(flavor = "multi_thread")]
async fn a_stage_without_proof_is_not_finished() {
    let tours = Tours::rich().await;
    tours.add(1, "READY").await;
    let set = "UPDATE tours SET stage = 'PLANNED'";
    tours.scene.client.execute(set, &[]).await.expect("a stage");
    let table = tours.open_as(rich()).await;
    let claimed = claim(&table, 1).await;
    let names: Vec<&str> = claimed[0].job.steps.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["plan"]);
    let fetch = write(claimed[0].lease_ref(), "fetch", r#"{"key":"k"}"#);
    assert_eq!(table.store_steps(vec![fetch]).await.expect("a step"), [Written::Done]);
    assert_eq!(tours.text(1, "stage").await.as_deref(), Some("PLANNED"));
}

/// Fault 2: a claim whose answer was lost gives the same rows, also with a fence.
#[tokio::test(flavor = "multi_thread")]
async fn fault_2_a_claim_that_is_asked_again() {
    let tours = Tours::rich().await;
    for n in 1..=4 {
        tours.add(n, "READY").await;
    }
    let table = tours.open_as(rich()).await;
    let wish = wish(2);
    let refs = |leases: &[Leased]| leases.iter().map(Leased::lease_ref).collect::<Vec<_>>();
    let first = table.claim(wish.clone()).await.expect("claim").leases;
    let second = table.claim(wish).await.expect("claim").leases;
    assert_eq!((refs(&first).len(), refs(&first)), (2, refs(&second)));
    assert_eq!(claim(&table, 10).await.len(), 2, "the others are free");
}

/// While a budget cools down no worker of the fleet claims a row.
#[tokio::test(flavor = "multi_thread")]
async fn cool_downs_hold_back_the_fleet() {
    let tours = Tours::rich().await;
    tours.add(1, "READY").await;
    let (one, two) = (tours.open_as(rich()).await, tours.open_as(rich()).await);
    one.cool_down("api".parse().expect("a budget"), 10_000).await.expect("a cool-down");
    one.cool_down("api".parse().expect("a budget"), 1_000).await.expect("a shorter one");
    one.cool_down("other".parse().expect("a budget"), 90_000).await.expect("another");
    tours.clock.advance(9_999);
    assert!(claim(&two, 1).await.is_empty());
    tours.clock.advance(1);
    assert_eq!(claim(&two, 1).await.len(), 1);
    assert!(tours.open(true).await.cool_down("api".parse().expect("a budget"), 1).await.is_err());
}

/// Rows that wait for a try which they do not have are closed.
#[tokio::test(flavor = "multi_thread")]
async fn exhausted_rows_are_closed() {
    let tours = Tours::rich().await;
    tours.add(1, "READY").await;
    tours.add(2, "RETRY").await;
    tours.scene.client.execute("UPDATE tours SET tries = 3 WHERE id = 't2'", &[]).await.expect("tries");
    let table = tours.open_as(rich()).await;
    assert!(table.expire().await.expect("expire").jobs.is_empty());
    assert_eq!(tours.text(1, "status").await.as_deref(), Some("READY"));
    assert_eq!(tours.text(2, "status").await.as_deref(), Some("FAILED"));
    assert_eq!(tours.lines().await, ["t2 RETRY FAILED exhausted exhausted: no try is left"]);
}

/// A statement that can never succeed is not taken for a store that is away: nobody tries it again for ever.
#[tokio::test(flavor = "multi_thread")]
async fn what_can_never_succeed_is_said() {
    for (spoil, code) in [
        // 42804: a value of another type. 23502: a column that nobody fills. 42703: a column that is gone.
        ("ALTER TABLE papers ALTER id TYPE int USING 1", "schema_mismatch"),
        ("ALTER TABLE papers ADD tenant text NOT NULL", "schema_mismatch"),
        ("ALTER TABLE tours DROP bytes", "schema_mismatch"),
        ("ALTER TABLE papers ADD CHECK (false)", "store_broken"),
        (
            "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'canary'; END $$; \
             CREATE TRIGGER no BEFORE INSERT ON papers FOR EACH ROW EXECUTE FUNCTION no()",
            "store_broken",
        ),
    ] {
        let tours = Tours::rich().await;
        tours.add(1, "READY").await;
        let table = tours.open_as(rich()).await;
        let lease = claim(&table, 1).await[0].lease_ref();
        tours.scene.client.batch_execute(spoil).await.expect(spoil);
        let mut answers = Vec::new();
        for (name, output) in [("fetch", r#"{"key":"k","bytes":7}"#), ("plan", "null")] {
            answers.push(table.store_steps(vec![write(lease, name, output)]).await);
        }
        let error = answers.into_iter().find_map(Result::err).unwrap_or_else(|| panic!("{spoil} is taken"));
        assert_eq!((error.code(), error.is_transient()), (code, false), "{spoil}: {error}");
        assert!(!error.to_string().contains("canary"), "what a trigger says may quote the row: {error}");
    }
}

/// Counts that somebody else wrote may be below nothing; a row that is over belongs to nobody where a fence tells
/// claims apart; and a table may count only what failed.
#[tokio::test(flavor = "multi_thread")]
async fn counts_and_owners_of_others() {
    let tours = Tours::new("timestamptz").await;
    tours.add(1, "READY").await;
    tours
        .scene
        .client
        .batch_execute("UPDATE tours SET tries = -4, fence = -9, crashes = -2")
        .await
        .expect("counts");
    let table = tours.open_as(Mapping { counts_failures: true, ..mapping(true) }).await;
    let first = claim(&table, 1).await;
    assert_eq!((first[0].job.attempt, (1..1 << 53).contains(&first[0].job.fence)), (1, true));
    let failed = Outcome::Retry { error: "e".into(), when: Some(windlass_core::job::Start::Now) };
    assert_eq!(end(&table, first[0].lease_ref(), failed).await, Written::Done);
    let second = claim(&table, 1).await;
    assert_eq!(end(&table, second[0].lease_ref(), Outcome::DONE).await, Written::Done);
    assert_eq!(end(&table, second[0].lease_ref(), Outcome::DONE).await, Written::Done, "asked again");
    assert_eq!(tours.text(1, "tries").await.as_deref(), Some("1"), "one try failed");
    assert_eq!(tours.text(1, "owner").await, None);
}
