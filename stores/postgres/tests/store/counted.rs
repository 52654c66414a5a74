//! What is counted, and what moving many jobs at once costs: in rows and pages, never in time.

use windlass_core::id::{JobId, Key};
use windlass_core::job::{NewJob, Start};
use windlass_core::store::{CancelAnswer, Source, Store};
use windlass_testkit::clock::FakeClock;

use crate::scene::{Scene, job, queue, wish};

async fn count(scene: &Scene, sql: &str) -> i64 {
    scene.client.query_one(sql, &[]).await.expect(sql).get(0)
}

/// Writes down each row of "ready" that is written or taken away.
const WATCH: &str = "CREATE TABLE public.written (what text);
    CREATE FUNCTION public.note_row() RETURNS trigger LANGUAGE plpgsql AS
    'BEGIN INSERT INTO public.written VALUES (TG_OP); RETURN NULL; END';
    CREATE TRIGGER note_row AFTER INSERT OR DELETE ON windlass.ready
    FOR EACH ROW EXECUTE FUNCTION public.note_row()";

/// Jobs that came together share rows, and a cancel of many writes each of these once, however many of it go.
#[tokio::test]
async fn a_cancel_of_many_writes_each_shared_row_once() {
    let scene = Scene::new().await;
    let store = scene.store(Some(FakeClock::default())).await;
    let later = |n| NewJob { start: Start::AfterMs(60_000), ..job(n) };
    store.enqueue((1..=192).map(job).collect()).await.expect("jobs that share three rows");
    store.enqueue((201..=230).map(later).collect()).await.expect("jobs for later");
    assert_eq!(count(&scene, "SELECT count(*) FROM windlass.ready").await, 3);
    scene.client.batch_execute(WATCH).await.expect("a trigger");
    let some = |n: &u128| (1..=128).contains(n) && !n.is_multiple_of(4) || *n > 192;
    let ids: Vec<JobId> = (1..=230).filter(some).map(|n| job(n).id).collect();
    let answers = store.cancel_all(ids).await.expect("a cancel");
    assert_eq!(answers.iter().filter(|answer| **answer == CancelAnswer::Canceled).count(), 96 + 30);
    let written = |what: &str| format!("SELECT count(*) FROM public.written WHERE what = '{what}'");
    assert_eq!(count(&scene, &written("DELETE")).await, 2, "the third row has none of them");
    assert_eq!(count(&scene, &written("INSERT")).await, 2);
    assert_eq!(store.queues().await.expect("queues")[0].queued, 192 - 96);
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
}

/// How many pages it takes to say how queues stand.
async fn pages(scene: &Scene) -> i64 {
    let sql =
        windlass_core::named::named(include_str!("../../sql/queue.sql"), "all").replace("$1", "NULL::bigint");
    let mut least = i64::MAX;
    // What is dead is marked so by the first who meets it.
    for _ in 0..2 {
        let plan =
            scene.client.query(&format!("EXPLAIN (ANALYZE, BUFFERS) {sql}"), &[]).await.expect("a plan");
        let line =
            plan.iter().map(|row| row.get::<_, String>(0)).find(|line| line.contains("Buffers: shared"));
        let line = line.expect("the pages of all of it");
        let words = line.split([' ', '=']).map(str::parse::<i64>);
        least = least.min(words.filter_map(Result::ok).sum());
    }
    least
}

/// How queues stand costs what is asked, not what is stored.
#[tokio::test]
async fn how_queues_stand_costs_the_same_whatever_is_stored() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    let each = |n: u128| {
        let mut keyed = job(3 * n + 1);
        keyed.spec.key = Some(Key::new(format!("key{}", n % 7)).expect("a key"));
        // A time of its own keeps a job from sharing its row.
        let alone = NewJob { start: Start::AfterMs(0), ..job(3 * n + 2) };
        let later = NewJob { start: Start::AfterMs(600_000), ..job(3 * n + 3) };
        [keyed, alone, later]
    };
    store.enqueue((0..10).flat_map(each).collect()).await.expect("jobs");
    let few = pages(&scene).await;
    for batch in 1..=20 {
        store.enqueue((batch * 300..batch * 300 + 300).flat_map(each).collect()).await.expect("jobs");
    }
    scene
        .client
        .batch_execute("VACUUM ANALYZE windlass.ready, windlass.waiting, windlass.delayed")
        .await
        .expect("a vacuum");
    let many = pages(&scene).await;
    assert!(many <= few + 40, "{few} pages for 30 jobs, {many} for 18,000");
    let status = &store.queues().await.expect("queues")[0];
    assert_eq!((&status.name, status.queued, status.running), (&queue(), 18_030, 0));
    assert!(status.oldest_due.is_some());
}

/// Those who count fold what there is of a name now and then, so that it is never many rows.
#[tokio::test]
async fn a_name_has_few_rows_of_what_is_counted() {
    let scene = Scene::new().await;
    let _store = scene.store(None).await;
    let counts = "DO $$ BEGIN FOR n IN 1 .. 3000 LOOP
        INSERT INTO windlass.tally (what, name, delta, queued) VALUES (0, 'many', 1, -1); END LOOP; END $$";
    scene.client.batch_execute(counts).await.expect("counted");
    let sums = "SELECT sum(delta)::bigint - sum(queued)::bigint FROM windlass.tally WHERE name = 'many'";
    assert_eq!(count(&scene, sums).await, 6_000);
    // One in 64 folds: that none of 1,500 in a row does, nobody will live to see.
    let rows = count(&scene, "SELECT count(*) FROM windlass.tally WHERE name = 'many'").await;
    assert!(rows < 1_500, "{rows} rows");
    // Whoever keeps his snapshot does not fold, and is not refused for what others folded.
    let kept = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM windlass.tally";
    scene.client.batch_execute(kept).await.expect("a snapshot");
    let other = crate::scene::client(&scene.database.url()).await;
    other.batch_execute(counts).await.expect("others count");
    scene.client.batch_execute(counts).await.expect("counted beside them");
    scene.client.batch_execute("COMMIT").await.expect("a commit");
    assert_eq!(count(&scene, sums).await, 18_000);
}

/// A call of a program of before that was under way while the schema was installed has moved jobs without counting them.
#[tokio::test]
async fn what_a_program_of_before_moved_is_counted_later() {
    let scene = Scene::new().await;
    let store = scene.store(None).await;
    store.enqueue((1..=3).map(job).collect()).await.expect("jobs");
    scene.client.batch_execute("UPDATE windlass.tally SET queued = 1").await.expect("two were not counted");
    store.prune().await.expect("a prune");
    assert_eq!(store.queues().await.expect("queues")[0].queued, 1, "it may still be under way");
    assert_eq!(store.audit().await.expect("an audit"), ["queued jobs of q: 3, counted as 1"]);
    scene.client.batch_execute("UPDATE windlass.recount SET due_ms = 1").await.expect("a while later");
    store.prune().await.expect("a prune");
    assert_eq!(store.queues().await.expect("queues")[0].queued, 3);
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    // Once: what is counted wrongly later is for an audit to find.
    scene.client.batch_execute("UPDATE windlass.tally SET queued = 1").await.expect("wrong");
    store.prune().await.expect("a prune");
    assert_eq!(store.queues().await.expect("queues")[0].queued, 1);
}

/// Calls at the same time draw their numbers in turns. Their rows stand one behind the other all the same, so that jobs
/// start in the order of their numbers, and an audit finds nothing.
#[tokio::test]
async fn rows_of_calls_at_the_same_time_stand_behind_each_other() {
    let scene = Scene::new().await;
    let store = scene.store(Some(FakeClock::default())).await;
    // As if somebody else had drawn every second number, and then had his turn.
    let turns = "ALTER SEQUENCE windlass.job_seq INCREMENT BY 2";
    scene.client.batch_execute(turns).await.expect("numbers in turns");
    for (start, alike) in [(10, true), (10_010, false)] {
        for turn in [start, start + 1] {
            let from = format!("SELECT setval('windlass.job_seq', {turn}, false)");
            scene.client.query_one(&from, &[]).await.expect("a turn");
            let one = |n: u64| {
                let mut job = job(u128::from(turn + 2 * n));
                job.spec.timeout_ms = Some(if alike { 1_000 } else { 1_000 + n });
                job
            };
            store.enqueue((0..100).map(one).collect()).await.expect("jobs");
        }
    }
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    let leases = store.claim(wish(150)).await.expect("a claim").leases;
    let started: Vec<u64> = leases.iter().map(|leased| leased.job.seq).collect();
    assert!(started.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{started:?}");
}
