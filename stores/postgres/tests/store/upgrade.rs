//! Schemas of programs before this one, with what those programs left in them.

use std::sync::Arc;

use tokio_postgres::Client;
use uuid::Uuid;
use windlass_core::id::{BudgetName, DedupeKey, JobId, Key, RecordKey, ShelfName};
use windlass_core::job::{Job, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::query::{JobFilter, ListRequest};
use windlass_core::record::{BatchAnswer, IfRev, Keep, Put, RecordBatch, RecordWrite};
use windlass_core::state::StateName;
use windlass_core::store::{LeaseRef, Leased, Settlement, Source, Spent, StepWrite, Store, Written};
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;
use windlass_postgres::{Options, PostgresStore};
use windlass_testkit::clock::FakeClock;
use windlass_testkit::eventually::eventually;

use crate::scene::{Scene, client, job, queue, wish};

/// The tables of the fourth schema but for claims, with the columns that can be copied.
const TABLES: [(&str, &str); 13] = [
    ("queues", "*"),
    ("jobs", "*"),
    (
        "runs",
        "seq, fence, run_at_ms, started_ms, lease_ms, expires_ms, ended_ms, attempt, crashes, retries, steps_count, state, \
         failure, cancel_requested, deduped, label, key, worker, result, progress, history",
    ),
    ("ready", "gate, rank, seq, id, fence, run_at_ms, known, deduped, label, key, more_seqs, more_ids"),
    ("delayed", "*"),
    ("waiting", "*"),
    ("ended", "queue, ended_ms, jobs, seqs"),
    ("tally", "what, name, delta"),
    ("steps", "*"),
    ("keys", "*"),
    ("budgets", "name, slots, per_second, per_day, cooling_ms, second_window, day_window"),
    ("schedules", "name, doc"),
    ("workers", "name, queues, kinds, slots, running, started_ms, seen_ms"),
];

/// What programs of the thirteenth schema read of grants in the fourteenth, which has what older schemas stored.
fn claims_view() -> String {
    let shipped = include_str!("../../migrations/0014_grants.sql");
    let view = shipped.split("CREATE VIEW windlass.claims").nth(1).and_then(|rest| rest.split_once(';'));
    format!("CREATE VIEW windlass.claims{};", view.expect("the view of claims").0)
}

/// Puts what is in the database into the tables of an older schema, made by the files that have shipped.
async fn carry_back(scene: &Scene, version: i32) {
    let mut sql = claims_view() + "ALTER SCHEMA windlass RENAME TO model;";
    sql += windlass_core::named::named(include_str!("../../sql/schema.sql"), "begin");
    sql += include_str!("../../migrations/0004_init.sql");
    for (table, columns) in TABLES {
        let names = if columns == "*" { String::new() } else { format!("({columns})") };
        sql += &format!("INSERT INTO windlass.{table} {names} SELECT {columns} FROM model.{table};");
    }
    sql += "DELETE FROM windlass.tally WHERE what = 2;";
    sql += "INSERT INTO windlass.events (xid, at_ms, what, queue, jobs)
            SELECT pg_current_xact_id(), at_ms, what, queue, jobs FROM model.events ORDER BY pos;
            INSERT INTO windlass.claims
            SELECT r.request_id, row_number() OVER (PARTITION BY r.request_id ORDER BY c.number), r.at_ms, c.due_ms, c.seqs,
                   c.fences, c.open, c.open = cardinality(c.seqs), c.low, c.high, c.started_ms, c.lease_ms, c.worker, c.label
              FROM model.requests r JOIN model.claims c ON c.number = ANY (r.numbers);
            SELECT setval('windlass.job_seq', nextval('model.job_seq'));
            INSERT INTO windlass.migrations (version) VALUES (4);";
    if version >= 5 {
        sql += include_str!("../../migrations/0005_claims.sql");
        sql += "UPDATE windlass.claims c SET asked = m.asked FROM model.requests m WHERE m.request_id = c.request_id;
                INSERT INTO windlass.migrations (version) VALUES (5);";
    }
    if version >= 6 {
        sql += include_str!("../../migrations/0006_records.sql");
        sql += "INSERT INTO windlass.migrations (version) VALUES (6);";
    }
    if version >= 7 {
        sql += include_str!("../../migrations/0007_looks.sql");
        sql += "INSERT INTO windlass.migrations (version) VALUES (7);";
    }
    if version >= 8 {
        sql += include_str!("../../migrations/0008_rooms.sql");
        sql += "INSERT INTO windlass.migrations (version) VALUES (8);";
    }
    if version >= 9 {
        sql += include_str!("../../migrations/0009_epochs.sql");
        sql += "INSERT INTO windlass.epoch SELECT * FROM model.epoch;
                INSERT INTO windlass.migrations (version) VALUES (9);";
    }
    if version >= 10 {
        sql += include_str!("../../migrations/0010_delayed.sql");
        sql += "INSERT INTO windlass.migrations (version) VALUES (10);";
    }
    if version >= 12 {
        sql += include_str!("../../migrations/0011_pauses.sql");
        sql += "INSERT INTO windlass.migrations (version) VALUES (11), (12);";
    }
    if version >= 13 {
        sql += include_str!("../../migrations/0013_minutes_and_actions.sql");
        sql += "INSERT INTO windlass.migrations (version) VALUES (13);";
    }
    sql += "DROP SCHEMA model CASCADE;
            CREATE FUNCTION windlass.older_1() RETURNS integer LANGUAGE sql AS 'SELECT 1';";
    scene.client.batch_execute(&sql).await.expect("an older schema");
}

fn keyed(n: u128) -> NewJob {
    let mut job = job(n);
    job.spec.key = Some(Key::new("shop").expect("a key"));
    job
}

fn end(leased: &Leased, outcome: Outcome) -> Settlement {
    Settlement { lease: leased.lease_ref(), outcome }
}

/// Jobs in every state: held by their claim alone, with rows of their own, waiting, delayed, over.
pub async fn stocked(store: &PostgresStore) -> Vec<Leased> {
    let retry = Outcome::Retry { error: "later".into(), when: Some(Start::AfterMs(60_000)) };
    let mut once = job(8);
    once.spec.dedupe_key = Some(DedupeKey::new("once").expect("a key"));
    once.spec.budgets = vec![BudgetName::new("b").expect("a name")];
    store
        .put_budget(
            BudgetName::new("b").expect("a name"),
            BudgetPolicy { slots: Some(3), ..BudgetPolicy::default() },
        )
        .await
        .expect("a budget");
    store.enqueue((1..=5).map(job).collect()).await.expect("jobs");
    let first = store.claim(wish(5)).await.expect("a claim").leases;
    let ends = [Outcome::DONE, Outcome::Failed { error: "no".into() }, retry];
    let ends = first.iter().zip(ends).map(|(leased, outcome)| end(leased, outcome)).collect();
    store.settle(ends).await.expect("settlements");
    let step = StepWrite {
        lease: first[3].lease_ref(),
        name: windlass_core::id::StepName::new("fetch").expect("a name"),
        output: Json::payload("[1]").expect("JSON"),
    };
    assert_eq!(store.store_steps(vec![step]).await.expect("a step"), [Written::Done]);
    store.enqueue(vec![keyed(6), keyed(7), once]).await.expect("jobs");
    let second = store.claim(wish(2)).await.expect("a claim").leases;
    let later = NewJob { start: Start::AfterMs(60_000), ..job(9) };
    store.enqueue(vec![later, job(10)]).await.expect("jobs");
    first.into_iter().skip(3).chain(second).collect()
}

async fn jobs(store: &PostgresStore) -> Vec<Job> {
    let request = ListRequest { filter: JobFilter::default(), limit: 100, after: None };
    let ids: Vec<JobId> = store.list(request).await.expect("a page").jobs.iter().map(|job| job.id).collect();
    let mut found = Vec::new();
    for id in ids {
        found.push(store.get(id).await.expect("an answer").expect("the job"));
    }
    found
}

fn numbers(leases: &[Leased]) -> Vec<u128> {
    leases.iter().map(|leased| leased.job.id.0.as_u128()).collect()
}

/// Fault 22: what programs of the fourth to the thirteenth schema left is as it was, and goes on from there; there are
/// shelves, and leases are taken back in two looks.
#[tokio::test]
async fn fault_22_older_schemas_are_migrated_with_their_jobs() {
    for version in [4, 5, 6, 7, 8, 9, 10, 12, 13] {
        let scene = Scene::new().await;
        let clock = FakeClock::default();
        let store = scene.store(Some(clock.clone())).await;
        let held = stocked(&store).await;
        assert_eq!(numbers(&held), [4, 5, 6, 8]);
        let before = jobs(&store).await;
        let (queues, budgets) =
            (store.queues().await.expect("queues"), store.budgets().await.expect("budgets"));
        drop(store);
        carry_back(&scene, version).await;

        let store = scene.store(Some(clock.clone())).await;
        assert_eq!(jobs(&store).await, before, "version {version}");
        assert_eq!(store.queues().await.expect("queues"), queues);
        assert_eq!(store.budgets().await.expect("budgets"), budgets);
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
        let states = before.iter().rev().map(|job| job.state.name()).collect::<Vec<_>>();
        use StateName::{Completed, Failed, Queued, Running};
        assert_eq!(
            states,
            [Completed, Failed, Queued, Running, Running, Running, Queued, Running, Queued, Queued]
        );

        let leases: Vec<LeaseRef> = held.iter().map(Leased::lease_ref).collect();
        assert_eq!(store.renew(leases.clone()).await.expect("a renewal").renewed.len(), 4);
        assert_eq!(numbers(&store.claim(wish(9)).await.expect("a claim").leases), [10]);
        written(&store, 1, Some(leases[1])).await;
        let ends = held.iter().map(|leased| end(leased, Outcome::DONE)).collect();
        assert_eq!(store.settle(ends).await.expect("settlements"), [Written::Done; 4]);
        written(&store, 2, None).await;
        assert_eq!(numbers(&store.claim(wish(9)).await.expect("a claim").leases), [7], "the key is free");
        clock.advance(60_000);
        for (marked, taken) in [(2, 0), (0, 2)] {
            let looked = store.expire().await.expect("an expiry");
            assert_eq!((looked.marked, looked.jobs.len()), (marked, taken), "version {version}");
            clock.advance(10_000);
        }
        let rest = numbers(&store.claim(wish(9)).await.expect("a claim").leases);
        assert_eq!(rest.iter().filter(|n| [3, 9].contains(*n)).count(), 2, "{rest:?}");
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
        let older = scene.client.query("SELECT FROM pg_proc WHERE proname = 'older_1'", &[]).await;
        let older = older.expect("an answer").len();
        assert_eq!(older, usize::from(version >= 9), "from the ninth on, what running programs call stays");
    }
}

async fn open(url: &str, clock: FakeClock) -> Arc<PostgresStore> {
    let options = Options { clock: Some(Arc::new(clock)), ..Options::default() };
    PostgresStore::connect_with(url, options).await.expect("a store")
}

/// Until so many sessions wait for a lock of a table.
async fn until_waiting(client: &Client, sessions: i64) {
    let sql = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND locktype = 'relation'";
    eventually("sessions wait", async || {
        let waiting: i64 = client.query_one(sql, &[]).await.expect("locks").get(0);
        (waiting >= sessions).then_some(())
    })
    .await;
}

/// The thirteenth schema, where the fourteenth has grants: what is held there is in claims again.
fn thirteenth() -> String {
    let shape = include_str!("../../migrations/0009_epochs.sql");
    let view = shape
        .split("CREATE VIEW ")
        .nth(1)
        .and_then(|rest| rest.split_once(';'))
        .expect("the shape of a job")
        .0;
    format!(
        "{}
         ALTER TABLE windlass.grants RENAME TO given;
         ALTER VIEW windlass.claims RENAME TO claimed;
         CREATE TABLE windlass.claims (
             number bigint PRIMARY KEY DEFAULT nextval('windlass.claim_number'), request_id uuid NOT NULL, part smallint,
             at_ms bigint, due_ms bigint, seqs bigint[] NOT NULL, fences bigint[] NOT NULL, open integer NOT NULL,
             whole boolean NOT NULL, low bigint NOT NULL, high bigint NOT NULL, started_ms bigint NOT NULL,
             lease_ms bigint NOT NULL, worker text NOT NULL, label text COLLATE \"C\" NOT NULL, asked text,
             fence bigint NOT NULL);
         INSERT INTO windlass.claims
         SELECT c.number, r.request_id, CASE c.number WHEN r.numbers[1] THEN 1 END, r.at_ms, c.due_ms, c.seqs, c.fences,
                c.open, c.open = cardinality(c.seqs), c.low, c.high, c.started_ms, c.lease_ms, c.worker, c.label, r.asked,
                c.fence
           FROM windlass.requests r JOIN windlass.claimed c ON c.number = ANY (r.numbers);
         CREATE OR REPLACE VIEW {view};
         DROP VIEW windlass.claimed;
         DROP TABLE windlass.requests, windlass.given;
         DELETE FROM windlass.migrations WHERE version >= 14;",
        claims_view()
    )
}

/// A program goes on with what it holds while its claims become grants: by calls that wait for it and by those after it.
#[tokio::test]
async fn a_running_program_keeps_its_leases_while_claims_become_grants() {
    let scene = Scene::new().await;
    let clock = FakeClock::default();
    let store = scene.store(Some(clock.clone())).await;
    let held = stocked(&store).await;
    let before = jobs(&store).await;
    let request = wish(1);
    let last = store.claim(request.clone()).await.expect("a claim").leases;
    assert_eq!(numbers(&last), [10]);
    drop(store);
    scene.client.batch_execute(&thirteenth()).await.expect("the thirteenth schema");
    let store = scene.store(Some(clock.clone())).await;
    let (ended, mut now): (Vec<_>, Vec<_>) =
        jobs(&store).await.into_iter().partition(|job| job.id == last[0].job.id);
    assert_eq!(ended[0].state.name(), StateName::Running);
    now.extend(before.iter().filter(|job| job.id == last[0].job.id).cloned());
    now.sort_by_key(|job| std::cmp::Reverse(job.seq));
    assert_eq!(now, before);
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    // Asked again, the claim gives what it gave.
    assert_eq!(store.claim(request).await.expect("a claim").leases.len(), 1);
    let ends = held.iter().map(|leased| end(leased, Outcome::DONE)).collect();
    assert_eq!(store.settle(ends).await.expect("settlements"), [Written::Done; 4]);
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
}

/// A claim as programs of the fourteenth schema make it, of so many, at this time: the numbers of its jobs.
async fn claim_of_before(scene: &Scene, clock: &FakeClock, limit: i32) -> Vec<u128> {
    let sql = "SELECT id FROM windlass.claim_2($1, gen_random_uuid(), 'old', '{q}', NULL, $2, NULL, 1000, '', 33554432)
                WHERE id IS NOT NULL ORDER BY rank, seq";
    let rows = scene.client.query(sql, &[&clock.wall().ms(), &limit]).await.expect("a claim of before");
    rows.iter().map(|row| row.get::<_, Uuid>(0).as_u128()).collect()
}

/// Programs of the fourteenth schema claim beside those of this one: what bounds a claim bounds both, where jobs stand is
/// known to both, and what either has given is counted once.
#[tokio::test]
async fn a_program_of_the_fourteenth_schema_claims_beside_this_one() {
    let scene = Scene::new().await;
    let clock = FakeClock::default();
    let store = scene.store(Some(clock.clone())).await;
    let shipped = include_str!("fourteenth.sql").replace("{planned}", "SET enable_seqscan = off");
    scene.client.batch_execute(&shipped).await.expect("what programs of before call");
    let name = || BudgetName::new("b").expect("a name");
    let limit = QueuePolicy { limit: Some(9), ..QueuePolicy::default() };
    store.put_queue(queue(), limit).await.expect("a limit");
    let policy = BudgetPolicy { per_day: Some(3), ..BudgetPolicy::default() };
    // In turn with the budget, with one that nobody defines, with a key and the budget, and with nothing.
    let new = |n: u128| {
        let mut new = if n % 4 == 2 { keyed(n) } else { job(n) };
        new.spec.budgets = match n % 4 {
            1 => vec![BudgetName::new(format!("own{n}")).expect("a name")],
            0 => Vec::new(),
            _ => vec![name()],
        };
        new
    };
    store.enqueue((1..=8).map(new).collect()).await.expect("jobs");
    assert_eq!(claim_of_before(&scene, &clock, 1).await, [1]);
    store.put_budget(name(), policy).await.expect("a budget that is defined late");
    store.enqueue((9..=20).map(new).collect()).await.expect("jobs");
    assert_eq!(numbers(&store.claim(wish(2)).await.expect("a claim").leases), [2, 3]);
    let mut given = claim_of_before(&scene, &clock, 3).await;
    given.extend(numbers(&store.claim(wish(3)).await.expect("a claim").leases));
    given.extend(claim_of_before(&scene, &clock, 9).await);
    given.extend(numbers(&store.claim(wish(9)).await.expect("a claim").leases));
    let spent = given.iter().filter(|n| matches!(*n % 4, 2 | 3)).count();
    assert_eq!((given.len(), spent), (6, 1), "{given:?}: nine run, three of them by the budget");
    let budget = store.budgets().await.expect("budgets").remove(0);
    assert_eq!((budget.slots_used, budget.used.day), (3, 3));
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
}

/// What the twelfth schema was where the thirteenth differs.
const TWELFTH: &str = "DROP TRIGGER tally_fold ON windlass.tally;
    DROP FUNCTION windlass.fold_name_1();
    ALTER TABLE windlass.tally DROP COLUMN queued;
    DROP INDEX windlass.ready_due, windlass.waiting_due;
    DROP TABLE windlass.recount;
    DROP SEQUENCE windlass.news;
    DROP TYPE windlass.moved, windlass.gates, windlass.taken CASCADE;
    DROP TRIGGER spent_without_minutes ON windlass.budgets;
    DROP FUNCTION windlass.refuse_spend_1();
    ALTER TABLE windlass.budgets DROP COLUMN per_minute, DROP COLUMN minute_window, DROP COLUMN writes;
    ALTER TABLE windlass.workers DROP COLUMN version, DROP COLUMN host;
    ALTER TABLE windlass.events DROP COLUMN action;
    ALTER TABLE windlass.feed DROP COLUMN action;
    CREATE TABLE windlass.longest (queue text PRIMARY KEY, lease_ms bigint NOT NULL, at_ms bigint NOT NULL);
    CREATE FUNCTION windlass.claim_1() RETURNS integer LANGUAGE sql AS 'SELECT 1';
    CREATE FUNCTION windlass.claim_1(integer) RETURNS integer LANGUAGE sql AS 'SELECT 1';
    CREATE FUNCTION windlass.promote_1(bigint, integer) RETURNS void LANGUAGE sql AS '';
    DELETE FROM windlass.migrations WHERE version >= 13;";

/// As programs of the twelfth schema spend by hand, and as they set a budget.
const SPENDS: &str =
    "UPDATE windlass.budgets SET second_window = second_window, day_window = day_window WHERE name = 'b'";
const SETS: &str =
    "INSERT INTO windlass.budgets (name, slots, per_second, per_day) VALUES ('b', NULL, 9, NULL)
    ON CONFLICT (name) DO UPDATE
       SET slots = excluded.slots, per_second = excluded.per_second, per_day = excluded.per_day";

/// Programs that are running go on while the next schema is installed: their calls under way and those after it. They do not
/// pass over a bound that they do not know.
#[tokio::test]
async fn a_running_program_goes_on_while_the_schema_is_brought_up_to_date() {
    let scene = Scene::new().await;
    let clock = FakeClock::default();
    let running = scene.store(Some(clock.clone())).await;
    let name = BudgetName::new("b").expect("a name");
    let paid = |n| {
        let mut job = job(n);
        job.spec.budgets = vec![BudgetName::new("b").expect("a name")];
        job
    };
    running.enqueue((1..=9).map(paid).collect()).await.expect("enqueue");
    let twelfth = thirteenth() + TWELFTH;
    scene.client.batch_execute(&twelfth).await.expect("the twelfth schema");
    scene.client.batch_execute(SETS).await.expect("a budget");
    // A call of before that waits for the table while it is changed, and writes to it afterwards.
    let (holder, waiter) = (client(&scene.database.url()).await, client(&scene.database.url()).await);
    holder.batch_execute("BEGIN; LOCK TABLE windlass.budgets").await.expect("a lock");
    let opening = tokio::spawn({
        let (url, clock) = (scene.database.url(), clock.clone());
        async move { open(&url, clock).await }
    });
    until_waiting(&scene.client, 1).await;
    let older = tokio::spawn(async move { waiter.batch_execute(SPENDS).await });
    until_waiting(&scene.client, 2).await;
    holder.batch_execute("COMMIT").await.expect("the lock is let go");
    older.await.expect("no panic").expect("a call of before goes on");
    let newer = opening.await.expect("no panic");

    scene.client.batch_execute(SPENDS).await.expect("nobody has said anything of minutes");
    let policy = BudgetPolicy { per_minute: Some(3), ..BudgetPolicy::default() };
    newer.put_budget(name.clone(), policy).await.expect("a budget");
    scene.client.batch_execute(SETS).await.expect("a program of before sets a budget");
    let kept = newer.budgets().await.expect("budgets").remove(0).budget.policy;
    assert_eq!(kept, BudgetPolicy { per_second: Some(9), per_minute: Some(3), ..policy });
    let refused = scene.client.batch_execute(SPENDS).await.expect_err("a bound that it does not know");
    assert!(
        refused.as_db_error().is_some_and(|error| error.message().contains("use a newer one")),
        "{refused:?}"
    );
    assert_eq!(newer.spend(name, 1).await.expect("spend"), Spent::Granted);
    assert_eq!(numbers(&running.claim(wish(9)).await.expect("a claim").leases), [1, 2], "claims know it");
    assert_eq!(newer.audit().await.expect("an audit"), Vec::<String>::new());
    let gone = "SELECT FROM pg_proc p WHERE p.pronamespace = 'windlass'::regnamespace
        AND (p.proname = 'claim_1' OR p.proname = 'promote_1' AND p.pronargs = 2)";
    assert!(scene.client.query(gone, &[]).await.expect("functions").is_empty(), "nobody calls them any more");
}

/// What the tenth schema had where the eleventh fixes pauses: one lease of a queue, and when it was claimed.
const TENTH: &str = "DROP TABLE windlass.long_leases, windlass.pauses;
                     DELETE FROM windlass.migrations WHERE version >= 11;";

/// A pause that is under way when the schema is brought up to date stays as long as it was.
#[tokio::test]
async fn a_pause_under_way_is_fixed_by_a_later_schema() {
    let scene = Scene::new().await;
    let clock = FakeClock::default();
    let store = scene.store(Some(clock.clone())).await;
    store.enqueue(vec![job(1), job(2)]).await.expect("enqueue");
    let until = async |store: &PostgresStore| store.epoch().await.expect("epoch").paused_until;
    scene.client.batch_execute("UPDATE windlass.epoch SET history = '0/other'").await.expect("a cut");
    let began = clock.wall();
    assert_eq!(until(&store).await, Some(began.plus_ms(30_000)));
    let noted = format!(
        "INSERT INTO windlass.longest (queue, lease_ms, at_ms) SELECT DISTINCT queue, 45000, {} FROM windlass.jobs",
        began.ms()
    );
    scene
        .client
        .batch_execute(&format!("{}{TWELFTH}{TENTH}{noted}", thirteenth()))
        .await
        .expect("the tenth schema");
    drop(store);
    let store = scene.store(Some(clock.clone())).await;
    assert_eq!(until(&store).await, Some(began.plus_ms(45_000)));
    clock.advance(46_000);
    assert_eq!(numbers(&store.claim(wish(1)).await.expect("a claim").leases), [1]);
}

async fn written(store: &PostgresStore, number: u128, lease: Option<LeaseRef>) {
    let put = Put { value: Json::payload("[1]").expect("JSON"), sort: 0, label: None, keep: Keep::Forever };
    let write = RecordWrite {
        shelf: ShelfName::new("s").expect("a name"),
        key: RecordKey::new(number.to_string()).expect("a name"),
        if_rev: IfRev::Absent,
        put: Some(put),
    };
    let batch = RecordBatch { lease, writes: vec![write], ..RecordBatch::new(Uuid::from_u128(number)) };
    let answer = store.records().expect("records").write(batch).await.expect("an answer");
    assert!(matches!(answer, BatchAnswer::Done { .. }), "{answer:?}");
}
