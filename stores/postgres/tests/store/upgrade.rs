//! Schemas of programs before this one, with what those programs left in them.

use std::sync::Arc;

use tokio_postgres::Client;
use uuid::Uuid;
use windlass_core::id::{BudgetName, DedupeKey, JobId, Key, RecordKey, ShelfName};
use windlass_core::job::{Job, NewJob, Start};
use windlass_core::json::Json;
use windlass_core::policy::budget::BudgetPolicy;
use windlass_core::query::{JobFilter, ListRequest};
use windlass_core::record::{BatchAnswer, IfRev, Keep, Put, RecordBatch, RecordWrite};
use windlass_core::state::StateName;
use windlass_core::store::{LeaseRef, Leased, Settlement, Source, StepWrite, Store, Written};
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;
use windlass_postgres::{Options, PostgresStore};
use windlass_testkit::clock::FakeClock;
use windlass_testkit::eventually::eventually;

use crate::scene::{Scene, client, job, wish};

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
    ("tally", "*"),
    ("steps", "*"),
    ("keys", "*"),
    ("budgets", "*"),
    ("schedules", "name, doc"),
    ("workers", "*"),
];

/// Puts what is in the database into the tables of an older schema, made by the files that have shipped.
async fn carry_back(scene: &Scene, version: i32) {
    let mut sql = String::from("ALTER SCHEMA windlass RENAME TO model;");
    sql += include_str!("../../sql/migrate_begin.sql");
    sql += include_str!("../../migrations/0004_init.sql");
    for (table, columns) in TABLES {
        let names = if columns == "*" { String::new() } else { format!("({columns})") };
        sql += &format!("INSERT INTO windlass.{table} {names} SELECT {columns} FROM model.{table};");
    }
    sql += "DELETE FROM windlass.tally WHERE what = 2;";
    sql += "INSERT INTO windlass.events (xid, at_ms, what, queue, jobs)
            SELECT pg_current_xact_id(), at_ms, what, queue, jobs FROM model.events ORDER BY pos;
            INSERT INTO windlass.claims
            SELECT request_id, row_number() OVER (PARTITION BY request_id ORDER BY number), at_ms, due_ms, seqs, fences,
                   open, whole, low, high, started_ms, lease_ms, worker, label FROM model.claims;
            SELECT setval('windlass.job_seq', nextval('model.job_seq'));
            INSERT INTO windlass.migrations (version) VALUES (4);";
    if version >= 5 {
        sql += include_str!("../../migrations/0005_claims.sql");
        sql += "UPDATE windlass.claims c SET asked = m.asked FROM model.claims m WHERE m.request_id = c.request_id;
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

/// Fault 22: what programs of the fourth to the tenth schema left is as it was, and goes on from there; there are
/// shelves, and leases are taken back in two looks.
#[tokio::test]
async fn fault_22_older_schemas_are_migrated_with_their_jobs() {
    for version in [4, 5, 6, 7, 8, 9, 10] {
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

/// A program that is running goes on while the next schema is installed: its calls under way and those after it.
#[tokio::test]
async fn a_running_program_goes_on_while_the_schema_is_brought_up_to_date() {
    let scene = Scene::new().await;
    let clock = FakeClock::default();
    let running = scene.store(Some(clock.clone())).await;
    let late = |n| NewJob { start: Start::AfterMs(1_000), ..job(n) };
    running.enqueue(vec![job(1), job(2), late(3), late(4)]).await.expect("enqueue");
    let held = running.claim(wish(1)).await.expect("a claim").leases;
    let back = "ALTER TABLE windlass.delayed DROP CONSTRAINT delayed_pkey, ADD PRIMARY KEY (run_at_ms, seq);
                DROP TRIGGER delayed_more ON windlass.delayed;
                DROP TRIGGER delayed_fewer ON windlass.delayed;
                DROP FUNCTION windlass.count_delayed_1();
                DELETE FROM windlass.tally WHERE what = 2;
                DROP TABLE windlass.long_leases, windlass.pauses;
                DELETE FROM windlass.migrations WHERE version >= 10;
                -- As the functions of the ninth schema write, whichever they had read.
                CREATE FUNCTION public.older(late boolean) RETURNS void LANGUAGE plpgsql AS $$
                BEGIN
                    PERFORM FROM windlass.delayed FOR UPDATE;
                    INSERT INTO windlass.delayed (run_at_ms, seq, queue) SELECT d.run_at_ms, d.seq, 'older' FROM windlass.delayed d WHERE late;
                    PERFORM windlass.promote_1(0, 10);
                    DELETE FROM windlass.delayed WHERE queue = 'older' AND late;
                END $$;";
    scene.client.batch_execute(back).await.expect("the ninth schema");
    // A call of before that waits for the table while it is changed, and writes to it afterwards.
    let (holder, waiter) = (client(&scene.database.url()).await, client(&scene.database.url()).await);
    holder
        .batch_execute("BEGIN; LOCK TABLE windlass.delayed IN ACCESS EXCLUSIVE MODE")
        .await
        .expect("a lock");
    let opening = tokio::spawn({
        let (url, clock) = (scene.database.url(), clock.clone());
        async move { open(&url, clock).await }
    });
    until_waiting(&scene.client, 1).await;
    let older = tokio::spawn(async move { waiter.batch_execute("SELECT public.older(true)").await });
    until_waiting(&scene.client, 2).await;
    holder.batch_execute("COMMIT").await.expect("the lock is let go");
    older.await.expect("no panic").expect("a call of before goes on");
    let newer = opening.await.expect("no panic");
    running.settle(vec![end(&held[0], Outcome::DONE)]).await.expect("a settlement");
    running.enqueue(vec![late(5)]).await.expect("enqueue");
    clock.advance(2_000);
    assert_eq!(numbers(&running.claim(wish(9)).await.expect("a claim").leases), [2, 3, 4, 5]);
    newer.enqueue(vec![late(6), job(7)]).await.expect("enqueue");
    assert_eq!(running.queues().await.expect("queues")[0].queued, 2);
    assert_eq!(newer.audit().await.expect("an audit"), Vec::<String>::new());
}

/// A program of the tenth schema claims and completes by functions that remain, and names what it remembers, right or wrong.
#[tokio::test]
async fn what_the_tenth_schema_calls_stays() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue((1..=4).map(job).collect()).await.expect("enqueue");
    let claim = "SELECT id, fence, seq, pack FROM windlass.claim_1(NULL, $1, 'w', '{q}', NULL, 4, NULL, 100, '', 1000000)";
    let rows = scene.client.query(claim, &[&Uuid::from_u128(1)]).await.expect("a claim");
    let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let fences: Vec<i64> = rows.iter().map(|row| row.get(1)).collect();
    let (seqs, packs): (Vec<i64>, Vec<i64>) =
        rows.iter().map(|row| (row.get::<_, i64>(2), row.get::<_, i64>(3))).unzip();
    let complete = "SELECT done FROM windlass.complete_1(NULL, $1, $2, $3, NULL, false, true, $4, NULL)";
    let wrong = vec![seqs[2], seqs[3]];
    let ask = async |at: std::ops::Range<usize>, seqs: &[i64]| -> i64 {
        let (ids, fences) = (&ids[at.clone()], &fences[at]);
        scene.client.query_one(complete, &[&ids, &seqs, &fences, &&packs[..1]]).await.expect("done").get(0)
    };
    assert_eq!(ask(0..2, &wrong).await, 2, "by their ids");
    assert_eq!(ask(0..2, &seqs[..2]).await, 0, "once");
    assert_eq!(ask(2..4, &seqs[2..]).await, 2);
    assert!(jobs(&store).await.iter().all(|job| job.state.name() == StateName::Completed));
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
}

/// What the tenth schema had where the eleventh fixes pauses: one lease of a queue, and when it was claimed.
const TENTH: &str = "DROP TABLE windlass.long_leases, windlass.pauses;
                     DELETE FROM windlass.migrations WHERE version >= 11;";

/// A pause that is under way when the schema is brought up to date stays as long as it was, and what a program of before notes
/// afterwards is known to the next epoch.
#[tokio::test]
async fn a_pause_under_way_is_fixed_by_the_next_schema() {
    let scene = Scene::new().await;
    let clock = FakeClock::default();
    let store = scene.store(Some(clock.clone())).await;
    store.enqueue(vec![job(1), job(2)]).await.expect("enqueue");
    let until = async |store: &PostgresStore| store.epoch().await.expect("epoch").paused_until;
    let cut = async || {
        scene.client.batch_execute("UPDATE windlass.epoch SET history = '0/other'").await.expect("a cut");
    };
    cut().await;
    let began = clock.wall();
    assert_eq!(until(&store).await, Some(began.plus_ms(30_000)));
    let noted = |lease_ms: i64| {
        let at_ms = clock.wall().ms();
        let queue = "INSERT INTO windlass.longest (queue, lease_ms, at_ms) SELECT DISTINCT queue";
        format!(
            "{queue}, {lease_ms}, {at_ms} FROM windlass.jobs ON CONFLICT (queue) DO UPDATE SET lease_ms = excluded.lease_ms;"
        )
    };
    scene.client.batch_execute(&format!("{TENTH}{}", noted(45_000))).await.expect("the tenth schema");
    drop(store);
    let store = scene.store(Some(clock.clone())).await;
    assert_eq!(until(&store).await, Some(began.plus_ms(45_000)));
    // As programs of the tenth schema ask, and as a call of theirs writes that waited for the migration.
    let asks = "SELECT windlass.pause_until_1(e, '') FROM windlass.epoch e, windlass.longest l WHERE l.queue IS NOT NULL";
    scene.client.query_one(asks, &[]).await.expect("a statement of before");
    scene.client.batch_execute(&noted(70_000)).await.expect("a call of before");
    assert_eq!(until(&store).await, Some(began.plus_ms(45_000)));
    clock.advance(46_000);
    assert_eq!(numbers(&store.claim(wish(1)).await.expect("a claim").leases), [1]);
    cut().await;
    assert_eq!(until(&store).await, Some(clock.wall().plus_ms(70_000)));
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
