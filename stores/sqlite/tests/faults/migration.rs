//! Files of programs before this one.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::functions::FunctionFlags;
use uuid::Uuid;
use windlass_core::id::{DedupeKey, Key, RecordKey, ShelfName};
use windlass_core::json::Json;
use windlass_core::record::{BatchAnswer, IfRev, Keep, Put, RecordBatch, RecordWrite, Scan};
use windlass_core::state::{State, StateName};
use windlass_core::store::{LeaseRef, Settlement, Source, Store, Written};
use windlass_core::time::Clock;
use windlass_core::transition::Outcome;
use windlass_sqlite::SqliteStore;
use windlass_testkit::clock::FakeClock;

use crate::audit::audit;
use crate::scene::{claim, done, id, job, open, state};

/// What the clock of the tests says.
const NOW_MS: i64 = 1_767_225_600_000;
const APPLICATION_ID: i64 = 0x574E_444C;

/// A file of the second schema, with jobs in every state.
async fn second_schema(path: &Path, clock: &FakeClock) {
    // The row of the clock is the same in all of them.
    let model = path.with_extension("model");
    drop(open(&model, clock).await);
    let conn = Connection::open(path).expect("a file");
    conn.execute_batch(include_str!("../../migrations/0001_init.sql")).expect("the first schema");
    conn.execute_batch(include_str!("../../migrations/0002_due.sql")).expect("the second schema");
    conn.pragma_update(None, "application_id", APPLICATION_ID).expect("our mark");
    conn.execute("ATTACH ?1 AS model", [model.to_str()]).expect("a file of today");
    conn.execute_batch(
        "INSERT INTO head SELECT one, boot_id, offset_ms, seen_ms, next_seq, next_event, queues_rev FROM model.head",
    ).expect("a clock");
    let jobs = include_str!("../support/schema_2.sql").replace("?now?", &NOW_MS.to_string());
    conn.execute_batch(&jobs).expect("jobs");
}

/// The slots of the keys of that file; they never change.
fn slot(key: &str) -> i64 {
    match key {
        "shop" => 7_849_315_497_802_297_040,
        _ => -1,
    }
}

/// The same file, as a program of the third schema would have carried it over.
async fn third_schema(path: &Path, clock: &FakeClock) {
    second_schema(path, clock).await;
    let conn = Connection::open(path).expect("the file");
    let known = conn.create_scalar_function("windlass_slot", 2, FunctionFlags::SQLITE_UTF8, |call| {
        Ok(slot(call.get_raw(1).as_str()?))
    });
    known.expect("a function");
    conn.execute_batch(include_str!("../../migrations/0003_narrow.sql")).expect("the third schema");
    // As when another has come before those that wait: the one that runs is not in its line, and nobody was warned.
    conn.execute_batch("UPDATE holders SET warned = 0").expect("a key that is held");
    conn.pragma_update(None, "user_version", 3).expect("its number");
}

/// Completes whatever can be claimed, and answers the numbers of the jobs in their order.
async fn drain(store: &Arc<SqliteStore>, request: &mut u128) -> Vec<u128> {
    let mut ran = Vec::new();
    loop {
        *request += 1;
        let leases = claim(store, *request, 3).await;
        if leases.is_empty() {
            return ran;
        }
        ran.extend(leases.iter().map(|lease| lease.job.id.0.as_u128()));
        let written = store.settle(leases.iter().map(done).collect()).await.expect("a settlement");
        assert!(written.iter().all(|written| *written == Written::Done));
    }
}

/// Fault 22: a file of the second schema is brought up to date, with jobs in
/// every state, and they go on from where they were.
#[tokio::test]
async fn fault_22_an_older_schema_is_migrated() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    second_schema(&path, &clock).await;
    let store = open(&path, &clock).await;
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    use StateName::{Canceled, Completed, Failed, Queued, Running};
    let states = [
        Queued, Queued, Running, Queued, Completed, Failed, Canceled, Queued, Queued, Queued, Queued,
        Completed, Running, Queued,
    ];
    for (number, expected) in (1..).zip(states) {
        assert_eq!(state(&store, id(number)).await, expected, "{number}");
    }
    let third = store.get(id(3)).await.expect("an answer").expect("the job");
    assert_eq!((third.fence, third.attempt, third.steps.len()), (4, 2, 1));
    let fifth = store.get(id(5)).await.expect("an answer").expect("the job");
    assert!(
        matches!(&fifth.state, State::Completed { result: Some(gave), .. } if gave.as_str() == "{\"gave\":5}")
    );
    let sixth = store.get(id(6)).await.expect("an answer").expect("the job");
    assert_eq!((sixth.fence, sixth.history.len()), (1, 1));

    let mut again = job(99, 1);
    again.spec.dedupe_key = Some(DedupeKey::new("once").expect("a key"));
    let answer = store.enqueue(vec![again]).await.expect("an answer");
    assert_eq!((answer[0].id, answer[0].deduplicated), (id(11), true));

    let mut request = 0;
    assert_eq!(drain(&store, &mut request).await, [1, 8, 9, 10, 11]);
    let eighth = store.get(id(8)).await.expect("an answer").expect("the job");
    assert_eq!((eighth.fence, eighth.attempt), (3, 2));
    // What was running is still held with the fence of before, and frees its key.
    let lease = |number, fence| LeaseRef::new(id(number), fence);
    let renewed = store.renew(vec![lease(3, 4), lease(13, 1)]).await.expect("a renewal");
    assert_eq!((renewed.renewed.len(), renewed.cancel_requested), (2, vec![id(13)]));
    let ends = [(3, 4, Outcome::DONE), (13, 1, Outcome::Canceled)];
    let ends = ends.map(|(number, fence, outcome)| Settlement { lease: lease(number, fence), outcome });
    assert_eq!(store.settle(ends.into()).await.expect("a settlement"), [Written::Done, Written::Done]);
    assert_eq!(drain(&store, &mut request).await, [4]);
    clock.advance(60_000);
    assert_eq!(drain(&store, &mut request).await, [2, 14]);
    clock.advance(365 * 86_400_000);
    assert_eq!(store.prune().await.expect("a pruning"), 14);
    drop(store);
    audit(&path);
}

/// Fault 22: a file of the first schema goes the whole way.
#[tokio::test]
async fn fault_22_the_oldest_schema_is_migrated() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    second_schema(&path, &clock).await;
    let conn = Connection::open(&path).expect("the file");
    conn.execute_batch(
        "DROP TABLE due; DROP INDEX jobs_ready;
         CREATE INDEX jobs_ready ON jobs (gate, rank, seq, run_at_ms) WHERE lane = 1; PRAGMA user_version = 1;",
    )
    .expect("the first version");
    drop(conn);
    let store = open(&path, &clock).await;
    assert!(store.queues().await.expect("the queues")[0].oldest_due.is_some());
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
}

/// Fault 22: a file of the third schema goes on with its keys: what runs frees its own, and one that comes
/// before it in line is not forgotten.
#[tokio::test]
async fn fault_22_keys_of_the_third_schema_go_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    third_schema(&path, &clock).await;
    let older = Connection::open(&path).expect("the file");
    let mut frees =
        older.prepare("DELETE FROM holders WHERE slot = 1").expect("a statement of the third schema");
    let store = open(&path, &clock).await;
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    let error = frees.execute([]).expect_err("another schema");
    assert!(error.to_string().contains("no such table"), "{error}");

    let mut request = 0;
    assert_eq!(drain(&store, &mut request).await, [1, 8, 9, 10, 11]);
    let mut first = job(50, 1);
    first.spec.key = Some(Key::new("shop").expect("a key"));
    first.spec.priority = 9;
    store.enqueue(vec![first]).await.expect("a job");
    assert_eq!(drain(&store, &mut request).await, Vec::<u128>::new(), "the key is held");
    let end = Settlement { lease: LeaseRef::new(id(3), 4), outcome: Outcome::DONE };
    assert_eq!(store.settle(vec![end]).await.expect("a settlement"), [Written::Done]);
    assert_eq!(drain(&store, &mut request).await, [50, 4]);
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
}

/// The same file, as a program of the fifth schema would have carried it over.
async fn fifth_schema(path: &Path, clock: &FakeClock) {
    third_schema(path, clock).await;
    let conn = Connection::open(path).expect("the file");
    conn.execute_batch(include_str!("../../migrations/0004_heirs.sql")).expect("the fourth schema");
    conn.execute_batch(include_str!("../../migrations/0005_asked.sql")).expect("the fifth schema");
    conn.pragma_update(None, "user_version", 5).expect("its number");
}

/// Fault 22: a file of the fifth schema has shelves after it was opened, and its jobs go on; a program of that
/// schema that still runs beside this one changes nothing about them.
#[tokio::test]
async fn fault_22_the_fifth_schema_gets_shelves() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    fifth_schema(&path, &clock).await;
    let older = Connection::open(&path).expect("the file");
    let mut ticks = older
        .prepare(
            "INSERT INTO head (one, boot_id, offset_ms, seen_ms, next_seq, next_event, queues_rev)
             SELECT one, boot_id, offset_ms, seen_ms, next_seq, next_event, queues_rev FROM head WHERE one = 1
             ON CONFLICT (one) DO UPDATE SET next_event = excluded.next_event",
        )
        .expect("a statement of the fifth schema");
    let store = open(&path, &clock).await;
    let first = store_page(&store, 1).await;
    ticks.execute([]).expect("a write of the older program");
    let second = store_page(&store, 2).await;
    assert!(second > first, "no revision is given twice");
    let mut request = 0;
    assert_eq!(drain(&store, &mut request).await, [1, 8, 9, 10, 11]);
    drop(store);
    audit(&path);
    let store = open(&path, &clock).await;
    let records = store.records().expect("records");
    let page = records.scan(Scan::of(ShelfName::new("pages").expect("a name"))).await.expect("a page");
    assert_eq!(page.records.iter().map(|record| record.rev).collect::<Vec<_>>(), [first, second]);
}

/// Writes a record; answers its revision.
async fn store_page(store: &SqliteStore, number: u128) -> u64 {
    let value = Json::payload("[1]").expect("JSON");
    let write = RecordWrite {
        shelf: ShelfName::new("pages").expect("a name"),
        key: RecordKey::new(number.to_string()).expect("a name"),
        if_rev: IfRev::Absent,
        put: Some(Put { value, sort: 0, label: None, keep: Keep::Forever }),
    };
    let batch = RecordBatch { writes: vec![write], ..RecordBatch::new(Uuid::from_u128(number)) };
    match store.records().expect("records").write(batch).await.expect("an answer") {
        BatchAnswer::Done { revs, .. } => revs[0],
        other => panic!("not written: {other:?}"),
    }
}

/// Fault 22: a pause that is under way when a file of the ninth schema is brought up to date stays as long as it was.
#[tokio::test]
async fn fault_22_a_pause_under_way_is_fixed_by_the_next_schema() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    let store = open(&path, &clock).await;
    store.enqueue(vec![job(1, 1), job(2, 1)]).await.expect("jobs");
    drop(store);
    let began = clock.wall();
    let ninth = format!(
        "DROP TABLE long_leases; DROP TABLE pauses;
         ALTER TABLE events DROP COLUMN action;
         CREATE TABLE longest (
           queue TEXT PRIMARY KEY, lease_ms INTEGER NOT NULL, at_ms INTEGER NOT NULL
         ) STRICT, WITHOUT ROWID;
         INSERT INTO longest SELECT DISTINCT queue, 45000, {at_ms} FROM jobs;
         UPDATE epoch SET lossy = 1, began_ms = {at_ms}, number = 2, first_seq = 99;
         UPDATE head SET epoch_rev = epoch_rev + 1;
         PRAGMA user_version = 9;",
        at_ms = began.ms()
    );
    Connection::open(&path).and_then(|conn| conn.execute_batch(&ninth)).expect("the ninth schema");
    let store = open(&path, &clock).await;
    let until = store.epoch().await.expect("epoch").paused_until;
    assert_eq!(until, Some(began.plus_ms(45_000)));
    clock.advance(45_000);
    assert_eq!(claim(&store, 1, 9).await.len(), 2);
    drop(store);
    audit(&path);
}

/// Fault 22: a program of the second schema that is still running beside this
/// one is refused by the file, and changes nothing.
#[tokio::test]
async fn fault_22_an_older_program_beside_a_newer_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let clock = FakeClock::default();
    second_schema(&path, &clock).await;
    let older = Connection::open(&path).expect("the file");
    let mut claims = older
        .prepare("UPDATE jobs SET state = 1, lane = NULL, fence = fence + 1 WHERE seq = 1")
        .expect("a statement of the second schema");
    let store = open(&path, &clock).await;
    let error = claims.execute([]).expect_err("another schema");
    assert!(error.to_string().contains("no such column"), "{error}");
    assert_eq!(claim(&store, 1, 1).await[0].job.id, id(1));
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
}

/// Fault 22: a program of the seventh schema that is still running can add nothing, neither what is ready nor what waits:
/// it would make no gate, and nobody would ever claim it.
#[tokio::test]
async fn fault_22_an_older_program_adds_nothing_to_the_gates() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("w.db");
    let store = open(&path, &FakeClock::default()).await;
    let older = Connection::open(&path).expect("the file");
    let insert =
        "INSERT INTO jobs (seq, id, gate, rank, run_at_ms, created_ms, priority, kind, queue, payload)
                  VALUES (1, x'01', 7, 0, 0, 0, 0, 'k', 'q', '1')";
    let error = older.execute(insert, []).expect_err("another schema");
    assert!(error.to_string().contains("no column named gate"), "{error}");
    drop(store);
}
