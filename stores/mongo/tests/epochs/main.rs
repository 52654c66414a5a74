//! Histories that are cut, on real replica sets: an election that rolls back, a set that is forced on without its
//! majority, a store that is emptied, entries behind a history that is lost.

#[path = "../support/jobs.rs"]
mod jobs;

use std::collections::HashSet;
use std::sync::Arc;

use jobs::{claim, job, queue};
use mongodb::bson::oid::ObjectId;
use mongodb::bson::spec::BinarySubtype;
use mongodb::bson::{Binary, DateTime, Document, doc};
use mongodb::options::ClientOptions;
use mongodb::{Client, Collection};
use uuid::Uuid;
use windlass_core::eligible::{Explanation, Hold};
use windlass_core::error::StoreError;
use windlass_core::id::JobId;
use windlass_core::store::{Leased, Settlement, Source, Store, Written};
use windlass_core::transition::Outcome;
use windlass_mongo::{MongoStore, Options};
use windlass_testkit::eventually::eventually;
use windlass_testkit::mongo::{Options as SetOptions, ReplicaSet};

const STORE: &str = "store";

async fn open(url: &str) -> Arc<MongoStore> {
    // The set is away for a while in these tests, and waited for.
    let url = format!("{url}&serverSelectionTimeoutMS=20000");
    MongoStore::connect_with(&url, Options::default()).await.expect("a store")
}

/// One node's own idea of the journal, whatever the others say.
async fn journal_of(set: &ReplicaSet, node: usize) -> Collection<Document> {
    let uri =
        format!("mongodb://{}/?directConnection=true&serverSelectionTimeoutMS=1000", set.authority(node));
    let options = ClientOptions::parse(uri).await.expect("a URI of one node");
    let client = Client::with_options(options).expect("a client");
    client.database(STORE).collection("windlass_journal")
}

/// Number and mark of the last entry that a node has; nothing where it does not answer.
async fn last_of(journal: &Collection<Document>) -> Option<(i64, ObjectId)> {
    let last = journal.find_one(doc! {}).sort(doc! { "_id": -1 }).await.ok()??;
    Some((last.get_i64("_id").expect("a number"), last.get_object_id("mark").expect("a mark")))
}

fn fences(leases: &[Leased]) -> Vec<(JobId, u64)> {
    leases.iter().map(|leased| (leased.job.id, leased.job.fence)).collect()
}

/// A primary takes a claim that it can tell nobody of, and dies; the others go on, and it rolls back when it comes again.
/// Nothing that anybody was told is lost, so that it is the same epoch, and no fence is handed out twice.
#[tokio::test(flavor = "multi_thread")]
async fn an_election_that_rolls_back_takes_back_nothing_that_was_answered() {
    // Time enough to write before a primary that is alone steps down.
    let options = SetOptions { nodes: 3, election_timeout_ms: 6_000, ..SetOptions::default() };
    let set = Arc::new(ReplicaSet::with(options).await);
    // Its driver does not write again by itself what the first primary took with it.
    let first = open(&format!("{}&retryWrites=false", set.url(STORE))).await;
    let second = open(&set.url(STORE)).await;
    first.enqueue((0..100).map(job).collect()).await.expect("jobs");
    let mut given = fences(&first.claim(claim(1)).await.expect("a claim").leases);
    assert_eq!(given.len(), 50);
    let old = set.primary().await;
    let others: Vec<usize> = (0..3).filter(|node| *node != old).collect();
    let journal = journal_of(&set, old).await;
    let (before, _) = last_of(&journal).await.expect("an entry");
    for node in &others {
        set.kill(*node).await;
    }
    let asking = {
        let store = first.clone();
        tokio::spawn(async move { store.claim(claim(2)).await })
    };
    let (number, rolled_back) = eventually("the primary has the claim, alone", async || {
        last_of(&journal).await.filter(|(number, _)| *number > before)
    })
    .await;
    set.kill(old).await;
    for node in &others {
        set.start(*node).await;
    }
    eventually("another is the primary", async || (set.primary().await != old).then_some(())).await;
    let taken = eventually("the store answers", async || second.claim(claim(3)).await.ok()).await;
    given.extend(fences(&taken.leases));
    // What became of the claim that was under way: it was made again, or its caller does not know and asks again.
    let again = match asking.await.expect("a task") {
        Ok(answer) => answer,
        Err(_) => eventually("asked again", async || first.claim(claim(2)).await.ok()).await,
    };
    given.extend(fences(&again.leases));
    set.start(old).await;
    let newest = journal_of(&set, set.primary().await).await;
    eventually("the old primary has what the others have", async || {
        let (here, there) = (last_of(&journal).await?, last_of(&newest).await?);
        (here == there).then_some(())
    })
    .await;
    let entry = doc! { "_id": number, "mark": rolled_back };
    let kept = journal.find_one(entry.clone()).await.expect("an answer");
    let elsewhere = newest.find_one(entry).await.expect("an answer");
    assert_eq!(kept, elsewhere, "the entry that nobody else had is rolled back");
    let distinct: HashSet<_> = given.iter().copied().collect();
    assert_eq!(distinct.len(), given.len(), "a fence was handed out twice: {given:?}");
    assert_eq!(given.iter().map(|(id, _)| id).collect::<HashSet<_>>().len(), 100, "each job was given once");
    for store in [&first, &second, &open(&set.url(STORE)).await] {
        let epoch = store.epoch().await.expect("an epoch").epoch;
        assert_eq!((epoch.number, epoch.lossy), (1, false));
        assert!(epoch.floor > 0, "another primary lifts the floor");
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    }
}

/// Two of three nodes die with what a majority had acknowledged, and the third, which was away, is forced to go on alone.
/// Whoever has read what is lost begins a new epoch: fences and positions of the lost history are stale.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_forced_on_without_its_majority_is_a_new_epoch() {
    let set = Arc::new(ReplicaSet::three().await);
    let store = open(&set.url(STORE)).await;
    store.enqueue(vec![job(1), job(2)]).await.expect("jobs");
    let primary = set.primary().await;
    let behind = (0..3).find(|node| *node != primary).expect("another node");
    let (here, there) = (journal_of(&set, primary).await, journal_of(&set, behind).await);
    eventually("it has the jobs", async || (last_of(&here).await? == last_of(&there).await?).then_some(()))
        .await;
    set.kill(behind).await;
    let given = store.claim(claim(1)).await.expect("a claim").leases;
    assert_eq!(given.len(), 2);
    let position = store.events_end().await.expect("a position");
    for node in (0..3).filter(|node| *node != behind) {
        set.kill(node).await;
    }
    set.start(behind).await;
    force_alone(&set, behind).await;
    let epoch = eventually("the store answers", async || store.epoch().await.ok()).await.epoch;
    assert_eq!((epoch.number, epoch.lossy), (2, true));
    assert!(given.iter().all(|leased| leased.job.fence < epoch.floor));
    let refused = store.events(Some(position), 9).await;
    assert!(matches!(refused, Err(StoreError::AnotherEpoch(_))), "{refused:?}");
    let end = |leased: &Leased| Settlement { lease: leased.lease_ref(), outcome: Outcome::DONE };
    let ends = store.settle(given.iter().map(end).collect()).await.expect("an answer");
    assert_eq!(ends, [Written::Lost, Written::Lost]);
    // Whoever held them may hold them still; what is new starts at once, with a fence that nobody was ever given.
    let held = store.explain(job(1).id).await.expect("an answer");
    let Some(Explanation::Held { holds }) = &held else { panic!("{held:?}") };
    assert!(matches!(holds[..], [Hold::EpochPause { .. }]), "{holds:?}");
    let now = store.now().await.expect("a time").ms();
    let id = JobId(Uuid::from_u128(((now as u128 + 1) << 80) | (7 << 76) | (0b10 << 62) | 9));
    let other = open(&set.url(STORE)).await;
    other.enqueue(vec![windlass_core::job::NewJob { id, ..job(3) }]).await.expect("a job");
    let leases = other.claim(claim(2)).await.expect("a claim").leases;
    assert_eq!(fences(&leases), [(id, epoch.floor)]);
    assert_eq!(other.epoch().await.expect("an epoch").epoch, epoch, "one epoch for all");
    for store in [&store, &other] {
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    }
}

/// What an operator does when two of three nodes will not come back.
async fn force_alone(set: &ReplicaSet, node: usize) {
    let admin = journal_of(set, node).await.client().database("admin");
    eventually("it takes the configuration", async || {
        let answer = admin.run_command(doc! { "replSetGetConfig": 1 }).await.ok()?;
        let mut config = answer.get_document("config").ok()?.clone();
        let members = config.get_array("members").ok()?.clone();
        let version = config.get_i32("version").ok()?;
        config.insert("members", vec![members[node].clone()]);
        config.insert("version", version + 1);
        admin.run_command(doc! { "replSetReconfig": config, "force": true }).await.ok()
    })
    .await;
    eventually("it is the primary", async || {
        let hello = admin.run_command(doc! { "hello": 1 }).await.ok()?;
        hello.get_bool("isWritablePrimary").unwrap_or(false).then_some(())
    })
    .await;
}

/// Somebody empties the store under a program that runs: the same ids may come again, and get fences of their own.
#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_store_is_a_new_epoch_for_who_knew_it() {
    let database = ReplicaSet::shared().await.fresh_database().await;
    let store = open(&database.url()).await;
    store.enqueue(vec![job(1)]).await.expect("a job");
    let first = store.claim(claim(1)).await.expect("a claim").leases;
    for name in MongoStore::COLLECTIONS {
        database.open().collection::<Document>(name).drop().await.expect("a dropped collection");
    }
    assert_eq!(store.get(job(1).id).await.expect("an answer"), None);
    let epoch = store.epoch().await.expect("an epoch").epoch;
    assert_eq!(epoch.number, 2);
    assert!(epoch.floor > first[0].job.fence);
    let other = open(&database.url()).await;
    assert_eq!(other.epoch().await.expect("an epoch").epoch, epoch);
    assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
}

/// An insert that was under way when the history was cut arrives behind it, under a number that is far ahead or one that
/// was just given to another. It does nothing, and nobody stumbles over it.
#[tokio::test(flavor = "multi_thread")]
async fn an_entry_behind_a_lost_history_is_void() {
    let database = ReplicaSet::shared().await.fresh_database().await;
    let store = open(&database.url()).await;
    store.enqueue(vec![job(1)]).await.expect("a job");
    let journal = database.open().collection::<Document>("windlass_journal");
    let (last, _) = last_of(&journal).await.expect("an entry");
    let ops = format!(r#"[{{"PauseQueue":["{}",true]}}]"#, queue());
    let body = Binary { subtype: BinarySubtype::Generic, bytes: ops.into_bytes() };
    for ahead in [1, 3] {
        let stray = doc! {
            "_id": last + ahead, "mark": ObjectId::new(), "after": ObjectId::new(), "at": DateTime::from_millis(0),
            "by": ObjectId::new(), "meaning": 4, "body": body.clone(), "parts": 0,
        };
        journal.insert_one(stray).await.expect("an entry");
    }
    let other = open(&database.url()).await;
    for number in 2..6 {
        store.enqueue(vec![job(number)]).await.expect("a job");
    }
    for store in [&store, &other] {
        assert!(store.queues().await.expect("queues").iter().all(|queue| !queue.paused));
        assert_eq!(store.epoch().await.expect("an epoch").epoch.number, 1);
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    }
    assert_eq!(other.claim(claim(1)).await.expect("a claim").leases.len(), 5);
}

/// Jobs are written without a look at the journal before. When that is not the one that the program knows, they are
/// written again where everybody reads them.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_were_written_behind_a_lost_history_are_there_all_the_same() {
    let database = ReplicaSet::shared().await.fresh_database().await;
    let store = open(&database.url()).await;
    for number in 1..4 {
        store.enqueue(vec![job(number)]).await.expect("a job");
    }
    for name in MongoStore::COLLECTIONS {
        database.open().collection::<Document>(name).drop().await.expect("a dropped collection");
    }
    for number in 4..12 {
        let answer = store.enqueue(vec![job(number)]).await.expect("a job");
        assert!(!answer[0].deduplicated, "{answer:?}");
    }
    let other = open(&database.url()).await;
    for store in [&store, &other] {
        assert_eq!(store.get(job(1).id).await.expect("an answer"), None);
        for number in 4..12 {
            assert!(store.get(job(number).id).await.expect("an answer").is_some(), "{number}");
        }
        assert_eq!(store.epoch().await.expect("an epoch").epoch.number, 2);
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    }
}

/// A program that has not looked for so long that the journal was cut behind it writes where the others are.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_who_is_far_behind_are_there() {
    let database = ReplicaSet::shared().await.fresh_database().await;
    let idle = open(&database.url()).await;
    idle.enqueue(vec![job(1)]).await.expect("a job");
    let options = Options { snapshot_bytes_min: 2_000, ..Options::default() };
    let busy = MongoStore::connect_with(&database.url(), options).await.expect("a store");
    for turn in 0..1_200 {
        busy.pause_queue(queue(), turn % 2 == 0).await.expect("an entry");
    }
    let journal = database.open().collection::<Document>("windlass_journal");
    eventually("the journal is cut", async || {
        let first = journal.find_one(doc! {}).sort(doc! { "_id": 1 }).await.ok()??;
        (first.get_i64("_id").ok()? > 10).then_some(())
    })
    .await;
    let answer = idle.enqueue(vec![job(2)]).await.expect("a job");
    assert!(!answer[0].deduplicated, "{answer:?}");
    for store in [&idle, &busy] {
        assert!(store.get(job(2).id).await.expect("an answer").is_some());
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
        assert_eq!(store.epoch().await.expect("an epoch").epoch.number, 1);
    }
}

/// Two programs that write by turns are each behind at each turn; nothing is lost, and time does not go back.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_two_programs_that_take_turns_are_all_there() {
    let database = ReplicaSet::shared().await.fresh_database().await;
    let stores = [open(&database.url()).await, open(&database.url()).await];
    let (mut last, mut number) = (None, 0);
    for turn in 0..60 {
        // Some turns are two in a row: the second finds nothing new.
        for _ in 0..1 + turn % 2 {
            number += 1;
            let answer = stores[turn % 2].enqueue(vec![job(number)]).await.expect("a job");
            assert!(!answer[0].deduplicated, "{answer:?}");
        }
        let job = stores[turn % 2].get(job(number).id).await.expect("an answer").expect("the job");
        assert!(last <= Some(job.created_at), "{last:?} and then {:?}", job.created_at);
        last = Some(job.created_at);
    }
    for store in &stores {
        for number in 1..=number {
            assert!(store.get(job(number).id).await.expect("an answer").is_some(), "{number}");
        }
        assert_eq!(store.audit().await.expect("an audit"), Vec::<String>::new());
    }
}
