//! Places in line, and what is counted beside the jobs.

use std::sync::Arc;

use futures::future::join_all;
use windlass_core::error::StoreError;
use windlass_core::id::Key;
use windlass_core::json::Json;
use windlass_core::policy::queue::QueuePolicy;
use windlass_core::store::{CancelAnswer, LeaseRef, ProgressWrite, Source, Store, Written};
use windlass_core::transition::Outcome;
use windlass_postgres::{Options, PostgresStore};

use crate::scene::{Scene, ends, job, queue, wish};

async fn count(scene: &Scene, sql: &str) -> i64 {
    scene.client.query_one(sql, &[]).await.expect("a count").get(0)
}

/// What a transaction of the test's own has done to a table: rows inserted, updated, and updated on their page.
async fn writes(scene: &Scene, table: &str) -> (i64, i64, i64) {
    let counted = "SELECT n_tup_ins, n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_all_tables \
                   WHERE schemaname = 'windlass' AND relname = $1";
    let row = scene.client.query_one(counted, &[&table]).await.expect("counters");
    (row.get(0), row.get(1), row.get(2))
}

const COMPLETE: &str = "SELECT done FROM windlass.complete_3(NULL, $1, $3, NULL, $1, $2)";

/// A claim writes nothing for each job, and a settlement one row; the job itself is never written again.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_simply_ends_is_written_twice() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue((1..=200).map(job).collect()).await.expect("enqueue");
    // By a connection of the test's own, whose counters can be read at once.
    scene.client.batch_execute("BEGIN").await.expect("a transaction");
    let request = uuid::Uuid::from_u128(77);
    let claim =
        "SELECT id, fence, seq FROM windlass.claim_3(NULL, $1, 'w', '{q}', NULL, 200, NULL, 100, '', 1000000)
                 ORDER BY rank, seq";
    let rows = scene.client.query(claim, &[&request]).await.expect("claim");
    assert_eq!(writes(&scene, "runs").await, (0, 0, 0));
    scene.client.batch_execute("COMMIT; BEGIN").await.expect("another transaction");
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
    let ids: Vec<uuid::Uuid> = rows.iter().map(|row| row.get(0)).collect();
    let fences: Vec<i64> = rows.iter().map(|row| row.get(1)).collect();
    let seqs: Vec<i64> = rows.iter().map(|row| row.get(2)).collect();
    for some in [0..50, 50..200] {
        let given: [&(dyn tokio_postgres::types::ToSql + Sync); 3] =
            [&&ids[some.clone()], &&seqs[some.clone()], &&fences[some.clone()]];
        let done: i64 = scene.client.query_one(COMPLETE, &given).await.expect("complete").get(0);
        assert_eq!(done as usize, some.len());
    }
    assert_eq!(writes(&scene, "runs").await, (200, 0, 0));
    assert_eq!(writes(&scene, "jobs").await, (0, 0, 0));
    scene.client.batch_execute("COMMIT").await.expect("commit");
    assert_eq!(count(&scene, "SELECT count(*) FROM windlass.grants").await, 0);
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// One failure among many completions: each job gets its row once, and no part of the settlement is done twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_mixed_settlement_writes_each_row_once() {
    for keyed in [false, true] {
        let scene = Scene::new().await;
        let store = scene.store(None).await;
        let new = |n: u128| {
            let mut new = job(n);
            new.spec.key = keyed.then(|| Key::new(format!("key-{n}")).expect("a key"));
            new
        };
        store.enqueue((1..=50).map(new).collect()).await.expect("enqueue");
        let leases = store.claim(wish(50)).await.expect("claim").leases;
        let held: Vec<LeaseRef> = leases.iter().map(|leased| leased.lease_ref()).collect();
        let mut settlements = ends(&held, &Outcome::DONE);
        settlements[20].outcome = Outcome::Failed { error: "no".into() };
        let answers = store.settle(settlements).await.expect("settle");
        assert!(answers.iter().all(|written| *written == Written::Done));
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
        assert_eq!(count(&scene, "SELECT count(*) FROM windlass.jobs_1 WHERE state = 2").await, 49);
        // What a connection has counted is to be read when it has ended; a row that was taken back is counted, too.
        drop(store);
        let counted =
            "SELECT n_tup_ins FROM pg_stat_user_tables WHERE schemaname = 'windlass' AND relname = 'runs'";
        let ask = async || Some(count(&scene, counted).await).filter(|rows| *rows >= 50);
        let written = windlass_testkit::eventually::eventually("rows of runs are counted", ask).await;
        assert_eq!(written, 50, "keyed: {keyed}");
    }
}

/// How many rows of "grants" are looked at when twenty of so many leases, each of a claim of its own, are renewed
/// for the first time.
async fn claims_looked_at(open: u128) -> i64 {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue((1..=open).map(job).collect()).await.expect("enqueue");
    let claims = "SELECT count(c.id) FROM generate_series(1, $1) AS n CROSS JOIN LATERAL windlass.claim_3(
                      NULL, gen_random_uuid(), 'w' || n, '{q}', NULL, 1, NULL, 100, '', 1000000) c";
    let claimed: i64 = scene.client.query_one(claims, &[&(open as i32)]).await.expect("claims").get(0);
    assert_eq!(claimed, open as i64);
    // Far apart, so that all of the others lie in between.
    let ids: Vec<uuid::Uuid> = (0..20).map(|n| job(1 + n * (open - 1) / 19).id.0).collect();
    scene.client.batch_execute("BEGIN").await.expect("a transaction");
    let renew =
        "SELECT id FROM windlass.renew_1(NULL, $1, array_fill(1::bigint, '{20}')) WHERE id IS NOT NULL";
    assert_eq!(scene.client.query(renew, &[&ids]).await.expect("renew").len(), 20);
    let looked = "SELECT (seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_all_tables \
                  WHERE schemaname = 'windlass' AND relname = 'grants'";
    let looked = count(&scene, looked).await;
    scene.client.batch_execute("COMMIT").await.expect("commit");
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
    looked
}

/// What a first renewal costs depends on how many leases are renewed, and not on how many claims are open.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_renewal_looks_at_its_own_claims() {
    // A lease is looked for among those of 64 numbers: each of the twenty is among others of its own.
    let (few, many) = (claims_looked_at(1_400).await, claims_looked_at(2_800).await);
    assert!(many <= few, "{few} rows with 1,400 open claims, {many} with 2,800");
}

/// What only a claim knows of is settled, renewed, reported on and canceled at the same time: every job ends
/// once, and what is counted is right at every moment.
#[tokio::test(flavor = "multi_thread")]
async fn open_leases_are_divided_without_loss() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    // Another program: it knows nothing of what the first one remembers.
    let other = scene.store(None).await;
    for round in 0..8_u128 {
        let ids = round * 100 + 1..=round * 100 + 90;
        store.enqueue(ids.map(job).collect()).await.expect("enqueue");
        let held: Vec<LeaseRef> = store
            .claim(wish(90))
            .await
            .expect("claim")
            .leases
            .iter()
            .map(|leased| leased.lease_ref())
            .collect();
        assert_eq!(held.len(), 90);
        let report = |lease: &LeaseRef| ProgressWrite {
            lease: *lease,
            progress: Json::new("progress", b"1", 10).expect("progress"),
        };
        let settle = |range: std::ops::Range<usize>| store.settle(ends(&held[range], &Outcome::DONE));
        let (first, second, by_other, renewed, reported, canceled, released) = tokio::join!(
            settle(0..30),
            settle(30..50),
            other.settle(ends(&held[50..60], &Outcome::DONE)),
            store.renew(held[20..70].to_vec()),
            other.progress(held[25..35].iter().map(report).collect()),
            other.cancel(held[40].job_id),
            store.settle(ends(&held[70..80], &Outcome::Released)),
        );
        for answers in [first, second, by_other, released] {
            assert!(answers.expect("settle").iter().all(|written| *written == Written::Done));
        }
        assert!(matches!(canceled.expect("cancel"), CancelAnswer::Requested | CancelAnswer::Final));
        assert!(renewed.expect("renew").renewed.len() >= 10, "those that nobody settles are held");
        reported.expect("progress");
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
        let rest = other.settle(ends(&held[60..90], &Outcome::DONE)).await.expect("settle");
        let lost = rest.iter().filter(|written| **written == Written::Lost).count();
        assert_eq!(lost, 10, "only what was given back is lost");
        let again = store.claim(wish(90)).await.expect("claim").leases;
        let again: Vec<LeaseRef> = again.iter().map(|leased| leased.lease_ref()).collect();
        assert_eq!(again.len(), 10);
        store.settle(ends(&again, &Outcome::DONE)).await.expect("settle");
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
    }
    assert_eq!(count(&scene, "SELECT count(*) FROM windlass.jobs_1 WHERE state <> 2").await, 0);
    assert_eq!(count(&scene, "SELECT count(*) FROM windlass.grants").await, 0);
}

/// Open leases of jobs with and without keys end in one call, whichever comes first in it.
#[tokio::test(flavor = "multi_thread")]
async fn open_leases_let_go_of_their_keys() {
    for keyed_first in [false, true] {
        let scene = Scene::new().await;
        let store = scene.store(None).await;
        let keyed = |n: u128| {
            let mut new = job(n);
            new.spec.key =
                ((n % 2 == 1) == keyed_first).then(|| Key::new(format!("key-{}", n % 4)).expect("a key"));
            new
        };
        store.enqueue((1..=12).map(keyed).collect()).await.expect("enqueue");
        let mut ended = 0;
        while ended < 12 {
            let leases = store.claim(wish(12)).await.expect("claim").leases;
            let held: Vec<LeaseRef> = leases.iter().map(|leased| leased.lease_ref()).collect();
            assert!(!held.is_empty(), "after {ended} of them");
            let answers = store.settle(ends(&held, &Outcome::DONE)).await.expect("settle");
            assert!(answers.iter().all(|written| *written == Written::Done));
            assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
            ended += held.len();
        }
        assert_eq!(count(&scene, "SELECT count(*) FROM windlass.runs WHERE state = 2").await, 12);
        assert_eq!(count(&scene, "SELECT count(*) FROM windlass.keys WHERE holder IS NOT NULL").await, 0);
    }
}

/// A batch of jobs that are alike, some of which are there: the others are accepted, and one that is there
/// with another content refuses them all.
#[tokio::test(flavor = "multi_thread")]
async fn a_batch_of_which_some_are_there() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue((1..=100).map(job).collect()).await.expect("enqueue");
    let answers = store.enqueue((90..=200).map(job).collect()).await.expect("enqueue");
    let there: Vec<u128> =
        answers.iter().filter(|answer| answer.deduplicated).map(|answer| answer.id.0.as_u128()).collect();
    assert_eq!(there, (90..=100).collect::<Vec<u128>>());
    let mut other = job(150);
    other.spec.payload = Json::payload("\"another\"").expect("a payload");
    let refused = store.enqueue(vec![job(300), other]).await;
    assert!(matches!(refused, Err(StoreError::Conflict(id)) if id == job(150).id), "{refused:?}");
    assert_eq!(count(&scene, "SELECT count(*) FROM windlass.jobs").await, 200);
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
    assert_eq!(store.claim(wish(500)).await.expect("claim").leases.len(), 200);
}

/// Calls that come in while others are under way go together.
#[tokio::test(flavor = "multi_thread")]
async fn concurrent_enqueues_share_a_commit() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    scene.watch_commits().await;
    let calls = (1..=64).map(|n| store.enqueue(vec![job(n)]));
    for answer in join_all(calls).await {
        let answer = answer.expect("enqueue");
        assert!(answer.len() == 1 && !answer[0].deduplicated);
    }
    assert_eq!(count(&scene, "SELECT count(*) FROM windlass.jobs").await, 64);
    let commits = scene.commits(Some(0)).await;
    assert!(commits < 32, "{commits} commits for 64 calls at once");
}

/// A call that is refused spoils nothing for those that went with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_enqueue_is_refused_alone() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue(vec![job(7)]).await.expect("enqueue");
    let mut other = job(7);
    other.spec.payload = Json::payload("\"another\"").expect("JSON");
    let jobs = (1..=20).map(|n| if n == 7 { other.clone() } else { job(n) });
    let answers = join_all(jobs.map(|job| store.enqueue(vec![job]))).await;
    for (n, answer) in (1..).zip(answers) {
        match answer {
            Err(StoreError::Conflict(id)) => assert_eq!((n, id), (7, other.id)),
            answer => assert!(n != 7 && answer.is_ok(), "job {n}: {answer:?}"),
        }
    }
    assert_eq!(count(&scene, "SELECT count(*) FROM windlass.jobs").await, 20);
}

/// Waiting for others counts: a call ends when its time is over, and is not begun after that.
#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_waits_no_longer_than_a_call_may_take() {
    let mut scene = Scene::new().await;
    // Its schema is made without a limit of time.
    drop(scene.store(None).await);
    let store = scene.store_with(Options { call_ms: 1_000, ..Options::default() }).await;
    let lock = scene.client.transaction().await.expect("a transaction");
    lock.batch_execute("LOCK TABLE windlass.jobs IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
    // Each batch waits for the lock until the server ends it, and there are more batches than fit into the time.
    let calls = (0..100).map(|call| store.enqueue((1..=99).map(|n| job(call * 100 + n)).collect()));
    let mut late = 0;
    for answer in join_all(calls).await {
        match answer {
            Err(StoreError::Unavailable(why)) => late += usize::from(why.contains("in time")),
            other => panic!("an enqueue behind the lock: {other:?}"),
        }
    }
    assert!(late > 0, "calls that waited for their turn beyond their time");
    lock.rollback().await.expect("rollback");
    store.enqueue(vec![job(1_000_000)]).await.expect("enqueue");
    // One batch of ten calls may have been under way when the lock went.
    let written = count(&scene, "SELECT count(*) FROM windlass.jobs").await;
    assert!(written <= 990 + 1, "{written} of 9,901 jobs were written");
}

/// What runs is counted by adding; the sum stays right, and the rows few.
#[tokio::test(flavor = "multi_thread")]
async fn the_tally_is_added_up() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    // Those who write fold now and then, by chance.
    let unfolded = "ALTER TABLE windlass.tally DISABLE TRIGGER tally_fold";
    scene.client.batch_execute(unfolded).await.expect("nobody folds");
    let policy = QueuePolicy { limit: Some(3), ..QueuePolicy::default() };
    store.put_queue(queue(), policy).await.expect("a limit");
    store.enqueue((1..=40).map(job).collect()).await.expect("enqueue");
    let mut held: Vec<LeaseRef> = Vec::new();
    for _ in 0..20 {
        let leases = store.claim(wish(10)).await.expect("claim").leases;
        held.extend(leases.iter().map(|leased| leased.lease_ref()));
        assert_eq!(held.len(), 3, "the limit");
        let ended = held.split_off(2);
        store.settle(ends(&ended, &Outcome::DONE)).await.expect("settle");
    }
    assert!(count(&scene, "SELECT count(*) FROM windlass.tally").await > 20);
    store.prune().await.expect("prune");
    assert_eq!(count(&scene, "SELECT count(*) FROM windlass.tally").await, 1);
    assert_eq!(count(&scene, "SELECT sum(delta)::bigint FROM windlass.tally").await, 2);
    assert_eq!(store.queues().await.expect("queues")[0].running, 2);
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
}

/// A place in line whose job has gone on is dropped by the claim that meets it, and counted nowhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_place_without_its_job_holds_up_nobody() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue((1..=3).map(job).collect()).await.expect("enqueue");
    let held = store.claim(wish(10)).await.expect("claim").leases;
    let held: Vec<LeaseRef> = held.iter().map(|leased| leased.lease_ref()).collect();
    store.settle(ends(&held, &Outcome::Released)).await.expect("release");
    let stale = "UPDATE windlass.runs r SET state = 4, ended_ms = 1 FROM windlass.jobs j \
                 WHERE j.seq = r.seq AND j.id = '00000000-0000-0000-0000-000000000002'";
    scene.client.batch_execute(stale).await.expect("a job that went on");
    let leases = store.claim(wish(10)).await.expect("claim").leases;
    let taken: Vec<u128> = leases.iter().map(|leased| leased.job.id.0.as_u128()).collect();
    assert_eq!(taken, [1, 3]);
    assert_eq!(count(&scene, "SELECT count(*) FROM windlass.ready").await, 0);
    assert_eq!(count(&scene, "SELECT sum(delta)::bigint FROM windlass.tally").await, 2);
}

/// A cancel and a claim that reach for one job never both have it.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_and_a_claim_never_both_win() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    for n in 1..=60 {
        store.enqueue(vec![job(n)]).await.expect("enqueue");
        let (claimer, canceler) = (Arc::clone(&store), Arc::clone(&store));
        let claiming = tokio::spawn(async move { claimer.claim(wish(1)).await.expect("claim").leases });
        let canceling = tokio::spawn(async move { canceler.cancel(job(n).id).await.expect("cancel") });
        let (leases, _) = (claiming.await.expect("a claimer"), canceling.await.expect("a canceler"));
        let held: Vec<LeaseRef> = leases.iter().map(|leased| leased.lease_ref()).collect();
        store.settle(ends(&held, &Outcome::DONE)).await.expect("settle");
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new(), "after job {n}");
    }
    assert_eq!(count(&scene, "SELECT count(*) FROM windlass.jobs_1 WHERE state < 2").await, 0);
}

/// Jobs that came together share a row of the line: claims and cancels that reach into it at the same time
/// each get their own, and nobody another's.
#[tokio::test(flavor = "multi_thread")]
async fn a_shared_place_is_divided_without_loss() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue((1..=300).map(job).collect()).await.expect("enqueue");
    assert!(count(&scene, "SELECT count(*) FROM windlass.ready").await < 10, "rows are shared");
    let claimers = (0..4).map(|_| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut held = Vec::new();
            loop {
                let leases = store.claim(wish(7)).await.expect("claim").leases;
                // Nothing may also say that others hold it all at this moment.
                if leases.is_empty()
                    && store.queues().await.expect("queues").iter().all(|queue| queue.queued == 0)
                {
                    return held;
                }
                held.extend(leases.iter().map(|leased| leased.lease_ref()));
            }
        })
    });
    let claimers: Vec<_> = claimers.collect();
    let cancelers = (0..3).map(|nth| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut canceled = 0;
            for n in (1..=300).rev().skip(nth).step_by(9) {
                let answer = store.cancel(job(n).id).await.expect("cancel");
                canceled += usize::from(answer == CancelAnswer::Canceled);
            }
            canceled
        })
    });
    let cancelers: Vec<_> = cancelers.collect();
    let mut canceled = 0;
    for canceler in cancelers {
        canceled += canceler.await.expect("a canceler");
    }
    let mut held = Vec::new();
    for claimer in claimers {
        held.extend(claimer.await.expect("a claimer"));
    }
    let different: std::collections::HashSet<_> = held.iter().map(|lease| lease.job_id).collect();
    assert_eq!((different.len(), held.len() + canceled), (held.len(), 300));
    assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
    store.settle(ends(&held, &Outcome::DONE)).await.expect("settle");
    assert_eq!(count(&scene, "SELECT count(*) FROM windlass.jobs_1 WHERE state < 2").await, 0);
}

/// A claim takes the first of a shared row and leaves the others in order.
#[tokio::test(flavor = "multi_thread")]
async fn a_shared_place_keeps_its_order() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue((1..=100).map(job).collect()).await.expect("enqueue");
    store.cancel(job(1).id).await.expect("cancel");
    store.cancel(job(50).id).await.expect("cancel");
    let mut taken = Vec::new();
    for limit in [1, 5, 64, 3, 100] {
        let leases = store.claim(wish(limit)).await.expect("claim").leases;
        assert!(leases.len() <= limit as usize);
        taken.extend(leases.iter().map(|leased| leased.job.id.0.as_u128()));
        assert_eq!(store.audit().await.expect("audit"), Vec::<String>::new());
    }
    let expected: Vec<u128> = (2..=100).filter(|n| *n != 50).collect();
    assert_eq!(taken, expected);
}

/// A schema from before the first release is refused, with what to do.
#[tokio::test(flavor = "multi_thread")]
async fn an_unreleased_schema_is_refused() {
    for version in [1, 2, 3] {
        let scene = Scene::new().await;
        let old = format!(
            "CREATE SCHEMA windlass; CREATE TABLE windlass.migrations (version integer PRIMARY KEY, applied_at \
             timestamptz NOT NULL DEFAULT now()); INSERT INTO windlass.migrations VALUES ({version})"
        );
        scene.client.batch_execute(&old).await.expect("an old schema");
        match PostgresStore::connect_with(&scene.database.url(), Options::default()).await {
            Err(StoreError::Schema(why)) => assert!(why.contains("DROP SCHEMA windlass CASCADE"), "{why}"),
            other => panic!("version {version} was taken: {:?}", other.err()),
        }
    }
}
