//! 23, 24: batches of records, and how records are found.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use uuid::Uuid;
use windlass_core::error::StoreError;
use windlass_core::id::RecordKey;
use windlass_core::json::Json;
use windlass_core::record::{
    BATCH_MEMORY_MS, BatchAnswer, IfRev, Keep, Order, Put, READ_MAX, RECORD_BYTES_MAX, Record, RecordBatch,
    RecordWrite, SCAN_BYTES_MAX, Scan, WRITES_BYTES_MAX, WRITES_MAX,
};
use windlass_core::store::{Enqueued, LeaseRef, Store};
use windlass_core::transition::Outcome;

use super::scene::*;
use crate::eventually::eventually;
use crate::subject::Subject;

/// Writes of one batch, with nothing else said.
fn batch(number: u128, writes: Vec<RecordWrite>) -> RecordBatch {
    RecordBatch { writes, ..RecordBatch::new(Uuid::from_u128(number)) }
}

fn on(shelf_name: &str, key: &str, put: Option<Put>) -> RecordWrite {
    RecordWrite { shelf: shelf(shelf_name), key: record_key(key), if_rev: IfRev::Any, put }
}

fn says(text: &str) -> Put {
    Put { value: json(text), sort: 0, label: None, keep: Keep::Forever }
}

fn put(key: &str, text: &str) -> RecordWrite {
    on("s", key, Some(says(text)))
}

fn delete(key: &str) -> RecordWrite {
    on("s", key, None)
}

fn if_rev(if_rev: IfRev, write: RecordWrite) -> RecordWrite {
    RecordWrite { if_rev, ..write }
}

async fn write(store: &Arc<dyn Store>, batch: RecordBatch) -> BatchAnswer {
    store.records().expect("records").write(batch).await.expect("write")
}

/// Writes a batch that is taken; gives its revisions.
async fn written(store: &Arc<dyn Store>, batch: RecordBatch) -> Vec<u64> {
    match write(store, batch).await {
        BatchAnswer::Done { revs, .. } => revs,
        other => panic!("the batch was not written: {other:?}"),
    }
}

async fn refused(store: &Arc<dyn Store>, batch: RecordBatch) -> StoreError {
    store.records().expect("records").write(batch).await.expect_err("a refusal")
}

async fn read(store: &Arc<dyn Store>, keys: &[&str]) -> Vec<Option<Record>> {
    let keys = keys.iter().map(|key| record_key(key)).collect();
    store.records().expect("records").read(shelf("s"), keys).await.expect("read")
}

/// What the records under these keys say.
async fn said(store: &Arc<dyn Store>, keys: &[&str]) -> Vec<Option<String>> {
    let said = |record: Option<Record>| record.map(|record| record.value.as_str().to_owned());
    read(store, keys).await.into_iter().map(said).collect()
}

fn texts(texts: &[Option<&str>]) -> Vec<Option<String>> {
    texts.iter().map(|text| text.map(str::to_owned)).collect()
}

/// A batch is all or nothing: its writes on whatever shelves, and its jobs.
pub async fn p23_a_batch_is_all_or_nothing<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    let writes = vec![put("a", "1"), on("t", "a", Some(says("2"))), delete("nothing")];
    let first = RecordBatch { jobs: vec![job(1)], ..batch(1, writes) };
    let answer = write(scene.store(), first).await;
    let BatchAnswer::Done { revs, jobs } = answer else { panic!("not written: {answer:?}") };
    assert_eq!(jobs, [Enqueued { id: id(1), deduplicated: false }]);
    assert!(revs.len() == 3 && revs.is_sorted_by(|a, b| a < b), "{revs:?}");
    let other = scene.second().await;
    assert_eq!(said(&other, &["a", "nothing"]).await, texts(&[Some("1"), None]));

    // A write that does not fit, a job that is another: nothing of the batch is there.
    let writes = vec![put("a", "9"), if_rev(IfRev::Absent, on("t", "a", Some(says("9")))), put("b", "9")];
    let clash = RecordBatch { jobs: vec![job(2)], ..batch(2, writes) };
    assert_eq!(write(&other, clash).await, BatchAnswer::Conflict { write: 1, rev: Some(revs[1]) });
    let mut taken = job(1);
    taken.spec.payload = json("\"another\"");
    let clash = RecordBatch { jobs: vec![job(2), taken], ..batch(3, vec![put("a", "9"), delete("b")]) };
    assert!(matches!(refused(&other, clash).await, StoreError::Conflict(_)));
    // What a batch says against itself is refused before anything is looked at.
    let (mut twin, writes) = (job(2), vec![if_rev(IfRev::Absent, put("a", "9"))]);
    twin.spec.payload = json("\"another\"");
    let clash = RecordBatch { jobs: vec![job(2), twin], ..batch(5, writes) };
    assert!(matches!(refused(&other, clash).await, StoreError::Conflict(of) if of == id(2)));
    let twice = batch(4, vec![put("a", "9"), put("b", "9"), delete("a")]);
    assert!(matches!(refused(&other, twice).await, StoreError::Invalid(_)));
    assert_eq!(said(scene.store(), &["a", "b"]).await, texts(&[Some("1"), None]));
    assert!(scene.find(2).await.is_none());
    drop(other);
    scene.reopen().await;
    let found = read(scene.store(), &["a"]).await.remove(0).expect("the record");
    assert_eq!((found.rev, found.written_at), (revs[0], windlass_core::time::Clock::wall(&scene.clock)));
    assert_eq!(scene.claimed(10).await, [1]);
}

/// A batch that brings jobs wakes who waits for their queues.
pub async fn p23_a_batch_with_jobs_wakes<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let woken = Arc::new(AtomicUsize::new(0));
    let seen = woken.clone();
    let _registration = scene.store().on_work(Arc::new(move |work| {
        seen.fetch_add(usize::from(work.concerns(&[queue("q")])), Ordering::SeqCst);
    }));
    let with_job = RecordBatch { jobs: vec![job(1)], ..batch(1, vec![put("a", "1")]) };
    written(scene.store(), with_job).await;
    let told = async || (woken.load(Ordering::SeqCst) > 0).then_some(());
    eventually("a wake for the job of a batch", told).await;
}

/// A write by revision is taken only as long as nobody has written since, by whichever handle.
pub async fn p23_a_revision_guards_a_write<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let (one, two) = (scene.store(), scene.second().await);
    let absent = |number, key| batch(number, vec![if_rev(IfRev::Absent, put(key, "1"))]);
    let is = |number, rev, write| batch(number, vec![if_rev(IfRev::Is(rev), write)]);
    let first = written(one, absent(1, "a")).await[0];
    assert_eq!(write(&two, absent(2, "a")).await, BatchAnswer::Conflict { write: 0, rev: Some(first) });
    let second = written(&two, is(3, first, put("a", "2"))).await[0];
    assert!(second > first, "revisions rise");
    let conflict = BatchAnswer::Conflict { write: 0, rev: Some(second) };
    assert_eq!(write(one, is(4, first, put("a", "3"))).await, conflict);
    assert_eq!(write(one, is(5, first, delete("a"))).await, conflict);
    assert_eq!(said(one, &["a"]).await, texts(&[Some("2")]));
    written(one, is(6, second, delete("a"))).await;
    let gone = BatchAnswer::Conflict { write: 0, rev: None };
    assert_eq!(write(&two, is(7, second, put("a", "4"))).await, gone);
    let again = written(&two, absent(8, "a")).await[0];
    assert!(again > second, "a revision is never given twice");
}

/// An attempt that has lost its lease writes nothing: a stale fence, a lease that ran out, a job that is over.
pub async fn p23_a_lost_lease_writes_nothing<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let (one, two) = (scene.store(), scene.second().await);
    let under = |number, lease: LeaseRef| RecordBatch {
        lease: Some(lease),
        jobs: vec![job(100 + number)],
        ..batch(number, vec![put("a", &number.to_string())])
    };
    scene.add(vec![job(1)]).await;
    let lease = scene.claim_one().await;
    written(&two, under(1, lease)).await;
    assert_eq!(write(one, under(2, with_fence(lease, lease.fence + 1))).await, BatchAnswer::LeaseLost);
    let ghost = LeaseRef::new(id(77), 1);
    assert_eq!(write(one, under(3, ghost)).await, BatchAnswer::LeaseLost);
    scene.clock.advance(30_000);
    written(&two, under(4, lease)).await;
    assert_eq!(scene.taken_back().await, [1]);
    assert_eq!(write(one, under(5, lease)).await, BatchAnswer::LeaseLost, "it was taken back");
    let leases = scene.claim(10).await;
    let again = leases.iter().find(|leased| leased.job.id == id(1)).expect("the job").lease_ref();
    assert_eq!(write(&two, under(6, lease)).await, BatchAnswer::LeaseLost, "another has it");
    written(one, under(7, again)).await;
    scene.end(again, Outcome::DONE).await;
    assert_eq!(write(&two, under(8, again)).await, BatchAnswer::LeaseLost, "it is over");
    // A lost lease comes before a conflict: whoever lost it has nothing to repeat.
    let both = RecordBatch { lease: Some(again), ..batch(9, vec![if_rev(IfRev::Absent, put("a", "9"))]) };
    assert_eq!(write(one, both).await, BatchAnswer::LeaseLost);
    assert_eq!(said(one, &["a"]).await, texts(&[Some("7")]));
    for (number, there) in [(1, true), (2, false), (4, true), (6, false), (7, true), (8, false)] {
        assert_eq!(scene.find(100 + number).await.is_some(), there, "the job of batch {number}");
    }
}

/// A batch that is written again, because its answer was lost, is answered as it was and changes nothing:
/// although its own conditions no longer hold, others have written since, its job is over and its lease gone.
pub async fn p23_a_repeated_batch_is_written_once<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    scene.policy(|policy| policy.delete_finished = true).await;
    scene.add(vec![job(1)]).await;
    let lease = scene.claim_one().await;
    let once = job_with(2, |spec| spec.dedupe_key = dedupe("once"));
    let twin = job_with(3, |spec| spec.dedupe_key = dedupe("once"));
    let first = RecordBatch {
        lease: Some(lease),
        jobs: vec![once, twin],
        ..batch(1, vec![if_rev(IfRev::Absent, put("a", "1")), delete("b")])
    };
    let answer = write(scene.store(), first.clone()).await;
    assert!(matches!(&answer, BatchAnswer::Done { jobs, .. } if jobs[1].deduplicated && jobs[1].id == id(2)));
    let other = scene.second().await;
    assert_eq!(write(&other, first.clone()).await, answer);
    written(&other, batch(2, vec![put("a", "2"), put("b", "2")])).await;
    scene.end(lease, Outcome::DONE).await;
    let second = scene.claim_one().await;
    scene.end(second, Outcome::DONE).await;
    drop(other);
    scene.reopen().await;
    scene.clock.advance(1_000);
    assert_eq!(write(scene.store(), first.clone()).await, answer);
    assert_eq!(said(scene.store(), &["a", "b"]).await, texts(&[Some("2"), Some("2")]));
    assert!(scene.claim(10).await.is_empty(), "its jobs are not there again");

    // What it is not: a way to write something else under the same id.
    let another = RecordBatch { jobs: vec![], ..first };
    assert!(matches!(refused(scene.store(), another).await, StoreError::Invalid(_)));
    // What was refused is not remembered.
    let absent = batch(3, vec![if_rev(IfRev::Absent, put("a", "3"))]);
    assert!(matches!(write(scene.store(), absent.clone()).await, BatchAnswer::Conflict { .. }));
    written(scene.store(), batch(4, vec![delete("a")])).await;
    written(scene.store(), absent.clone()).await;
    // And it is forgotten at last.
    scene.clock.advance(BATCH_MEMORY_MS.unsigned_abs());
    scene.store().prune().await.expect("prune");
    assert!(matches!(write(scene.store(), absent).await, BatchAnswer::Conflict { .. }));
}

/// Too many writes, or too large ones, are refused, and nothing changes.
pub async fn p23_batches_have_a_limit<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let many = |count: usize| (0..count).map(|n| put(&format!("k{n}"), "1")).collect::<Vec<_>>();
    assert!(matches!(refused(scene.store(), batch(1, many(WRITES_MAX + 1))).await, StoreError::Invalid(_)));
    let large =
        Json::new("value", format!("\"{}\"", "x".repeat(RECORD_BYTES_MAX - 2)).as_bytes(), RECORD_BYTES_MAX)
            .expect("a value of the largest size");
    let mut writes = many(WRITES_BYTES_MAX / RECORD_BYTES_MAX + 1);
    for write in &mut writes {
        write.put = Some(Put { value: large.clone(), ..says("1") });
    }
    assert!(matches!(refused(scene.store(), batch(2, writes)).await, StoreError::Invalid(_)));
    assert_eq!(said(scene.store(), &["k0"]).await, texts(&[None]));
    assert_eq!(written(scene.store(), batch(3, many(WRITES_MAX))).await.len(), WRITES_MAX);
    assert_eq!(said(scene.store(), &["k0", "k999"]).await, texts(&[Some("1"), Some("1")]));
}

/// A key, its sort and its label.
type Stock = (&'static str, i64, Option<&'static str>);

/// Keys that sort by bytes and by nothing else.
const SHELF: [Stock; 8] = [
    ("b", 2, None),
    ("a", 2, Some("x")),
    ("B", -5, Some("y")),
    ("a:1", 7, Some("x")),
    ("a:2", 7, None),
    ("ü", i64::MAX, Some("x")),
    ("z", i64::MIN, Some("y")),
    ("a;", 0, Some("x")),
];

async fn stocked<S: Subject>() -> Scene<S> {
    let scene = Scene::<S>::new().await;
    for (number, (key, sort, label)) in (1..).zip(SHELF) {
        let put = Put { sort, label: label.map(record_label), ..says(&number.to_string()) };
        // A neighbour on either side, which is no business of this shelf.
        let writes =
            vec![on("s", key, Some(put.clone())), on("r", key, Some(put.clone())), on("s ", key, Some(put))];
        written(scene.store(), batch(number, writes)).await;
    }
    scene
}

/// The keys of all pages of a scan.
async fn keys_of(store: &Arc<dyn Store>, mut scan: Scan) -> Vec<String> {
    let mut keys = Vec::new();
    loop {
        let page = store.records().expect("records").scan(scan.clone()).await.expect("scan");
        assert!(page.records.len() <= scan.limit as usize);
        keys.extend(page.records.iter().map(|record| record.key.to_string()));
        match page.next {
            Some(next) => scan.after = Some(next),
            None => return keys,
        }
    }
}

/// By key, by sort and by revision, from either end, of one label and of all, in pages of any size.
pub async fn p24_records_come_in_every_order<S: Subject>() {
    let scene = stocked::<S>().await;
    let other = scene.second().await;
    for order in [Order::Key, Order::Sort, Order::Rev] {
        for label in [None, Some("x"), Some("y"), Some("never")] {
            let mut expected: Vec<(usize, Stock)> = SHELF
                .into_iter()
                .enumerate()
                .filter(|(_, (_, _, found))| label.is_none() || *found == label)
                .collect();
            expected.sort_by(|(n, (key, sort, _)), (m, (other_key, other_sort, _))| match order {
                Order::Key => key.cmp(other_key),
                Order::Sort => (sort, key).cmp(&(other_sort, other_key)),
                Order::Rev => n.cmp(m),
            });
            let mut expected: Vec<&str> = expected.into_iter().map(|(_, (key, _, _))| key).collect();
            for descending in [false, true] {
                for limit in [1, 2, 3, 8, 100] {
                    let label = label.map(record_label);
                    let scan = Scan { order, descending, label, limit, ..Scan::of(shelf("s")) };
                    assert_eq!(keys_of(&other, scan.clone()).await, expected, "{scan:?}");
                }
                expected.reverse();
            }
        }
    }
}

/// Keys that begin with a prefix are found by it, and none of the others.
pub async fn p24_a_prefix_finds_what_begins_so<S: Subject>() {
    let scene = stocked::<S>().await;
    for (prefix, expected) in [
        ("", vec!["B", "a", "a:1", "a:2", "a;", "b", "z", "ü"]),
        ("a", vec!["a", "a:1", "a:2", "a;"]),
        ("a:", vec!["a:1", "a:2"]),
        ("a:1", vec!["a:1"]),
        ("a:1x", vec![]),
        ("%", vec![]),
        ("_", vec![]),
        ("\u{10ffff}", vec![]),
    ] {
        for limit in [1, 100] {
            let scan = Scan { prefix: prefix.into(), limit, ..Scan::of(shelf("s")) };
            assert_eq!(keys_of(scene.store(), scan.clone()).await, expected, "{prefix:?}");
            let mut backwards = expected.clone();
            backwards.reverse();
            let down = Scan { descending: true, ..scan };
            assert_eq!(keys_of(scene.store(), down).await, backwards, "{prefix:?} from the end");
        }
    }
    let labeled = Scan { prefix: "a".into(), label: Some(record_label("x")), ..Scan::of(shelf("s")) };
    assert_eq!(keys_of(scene.store(), labeled).await, ["a", "a:1", "a;"]);
    let elsewhere = Scan { prefix: "a".into(), order: Order::Sort, ..Scan::of(shelf("s")) };
    let refused = scene.store().records().expect("records").scan(elsewhere).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))));
}

/// Records are counted by label.
pub async fn p24_records_are_counted_by_label<S: Subject>() {
    let scene = stocked::<S>().await;
    let count = async |shelf_name: &str, prefix: &str| {
        let counts = scene.store().records().expect("records").count(shelf(shelf_name), prefix.into()).await;
        counts
            .expect("count")
            .into_iter()
            .map(|(label, n)| (label.map(|l| l.to_string()), n))
            .collect::<Vec<_>>()
    };
    let label = |name: &str| Some(name.to_owned());
    assert_eq!(count("s", "").await, [(None, 2), (label("x"), 4), (label("y"), 2)]);
    assert_eq!(count("s", "a:").await, [(None, 1), (label("x"), 1)]);
    assert_eq!(count("empty", "").await, []);
}

/// A record that has expired is not there: not by its key, not in a page, not in a count, not for a write. The
/// moment counts by the store's clock, and a record that is written again has the time of its last writing.
pub async fn p24_records_expire<S: Subject>() {
    let mut scene = Scene::<S>::new().await;
    let now = windlass_core::time::Clock::wall(&scene.clock);
    let kept =
        |key: &str, keep| on("s", key, Some(Put { keep, label: Some(record_label("x")), ..says("1") }));
    let writes = vec![
        kept("for", Keep::ForMs(1_000)),
        kept("until", Keep::Until(now.plus_ms(2_000))),
        kept("ever", Keep::Forever),
        kept("never", Keep::Until(now)),
    ];
    let revs = written(scene.store(), batch(1, writes)).await;
    let all = ["for", "until", "ever", "never"];
    let there = async |scene: &Scene<S>, expected: &[&str]| {
        let found = read(scene.store(), &all).await;
        let asked: Vec<bool> = all.iter().map(|key| expected.contains(key)).collect();
        assert_eq!(found.iter().map(Option::is_some).collect::<Vec<_>>(), asked);
        let scan = Scan { order: Order::Rev, ..Scan::of(shelf("s")) };
        assert_eq!(keys_of(scene.store(), scan).await, expected);
        let scan = Scan { label: Some(record_label("x")), order: Order::Sort, ..Scan::of(shelf("s")) };
        assert_eq!(keys_of(scene.store(), scan).await.len(), expected.len());
        let counts = scene.store().records().expect("records").count(shelf("s"), String::new()).await;
        let total: u64 = counts.expect("count").iter().map(|(_, count)| count).sum();
        assert_eq!(total as usize, expected.len());
    };
    there(&scene, &["for", "until", "ever"]).await;
    assert_eq!(
        read(scene.store(), &["for"]).await[0].as_ref().and_then(|record| record.expires_at),
        Some(now.plus_ms(1_000))
    );
    scene.clock.advance(999);
    there(&scene, &["for", "until", "ever"]).await;
    scene.clock.advance(1);
    there(&scene, &["until", "ever"]).await;
    let absent = |rev| BatchAnswer::Conflict { write: 0, rev };
    let is = batch(2, vec![if_rev(IfRev::Is(revs[0]), put("for", "2"))]);
    assert_eq!(write(scene.store(), is).await, absent(None), "what has expired has no revision");
    written(scene.store(), batch(3, vec![if_rev(IfRev::Absent, kept("for", Keep::ForMs(5_000)))])).await;
    there(&scene, &["until", "ever", "for"]).await;
    for pruned in [false, true] {
        if pruned {
            scene.store().prune().await.expect("prune");
            scene.reopen().await;
        }
        there(&scene, &["until", "ever", "for"]).await;
    }
    scene.clock.advance(1_000);
    scene.store().prune().await.expect("prune");
    there(&scene, &["ever", "for"]).await;
    scene.clock.advance(100_000);
    there(&scene, &["ever"]).await;
    scene.store().prune().await.expect("prune");
    there(&scene, &["ever"]).await;
}

/// A read names a bounded number of keys, a page has a bounded number of bytes and at least one record; and what
/// comes back is byte for byte what was written.
pub async fn p24_reads_are_bounded_and_exact<S: Subject>() {
    let scene = Scene::<S>::new().await;
    let keys: Vec<RecordKey> = (0..=READ_MAX).map(|n| record_key(&n.to_string())).collect();
    let refused = scene.store().records().expect("records").read(shelf("s"), keys).await;
    assert!(matches!(refused, Err(StoreError::Invalid(_))));

    let text = "{\"b\":1.10,\"a\":[\"\\u00fc\",\"ü\",-0.0,-9223372036854775808]}";
    written(scene.store(), batch(1, vec![put("exact", text)])).await;
    assert_eq!(said(scene.store(), &["exact", "exact"]).await, texts(&[Some(text), Some(text)]));

    let large = format!("\"{}\"", "ü".repeat(RECORD_BYTES_MAX / 2 - 1));
    let large = Json::new("value", large.as_bytes(), RECORD_BYTES_MAX).expect("a value of the largest size");
    let fit = SCAN_BYTES_MAX / RECORD_BYTES_MAX;
    let put = |number: usize| {
        let put = Put { value: large.clone(), ..says("0") };
        on("large", &format!("{number:03}"), Some(put))
    };
    written(scene.store(), batch(2, (0..fit).map(put).collect())).await;
    written(scene.store(), batch(3, (fit..fit + 2).map(put).collect())).await;
    let page = scene.store().records().expect("records").scan(Scan::of(shelf("large"))).await.expect("scan");
    assert_eq!(page.records.len(), fit);
    assert!(page.records[0].value == large && page.next.is_some());
    let rest = Scan { after: page.next, ..Scan::of(shelf("large")) };
    assert_eq!(keys_of(scene.store(), rest).await.len(), 2);
}
