//! Claims, by Agenda's rule and never twice.

use std::collections::HashSet;

use mongodb::bson::oid::ObjectId;
use mongodb::bson::{Bson, DateTime, doc};
use windlass_core::store::{Source, Written};
use windlass_core::transition::Outcome;
use windlass_mongo::agenda::{Options, index_keys};
use windlass_testkit::eventually::eventually;

use crate::scene::{Scene, dates, kind, request, row_of_lease};

#[tokio::test(flavor = "multi_thread")]
async fn many_claimers_take_each_row_once() {
    const ROWS: usize = 1_500;
    let scene = Scene::new(600_000).await;
    scene.rows("mail", ROWS).await;
    let claimers = (1..=8).map(|worker| {
        let agenda = scene.agenda.clone();
        tokio::spawn(async move {
            let mut taken: Vec<ObjectId> = Vec::new();
            let mut empty = 0;
            // Two that overlap may both find nothing left of what they looked at.
            while empty < 3 {
                let leases = agenda.claim(request(worker, 37)).await.expect("a claim").leases;
                empty = if leases.is_empty() { empty + 1 } else { 0 };
                taken.extend(leases.iter().map(row_of_lease));
            }
            taken
        })
    });
    let mut taken = Vec::new();
    for claimer in claimers.collect::<Vec<_>>() {
        taken.extend(claimer.await.expect("a claimer"));
    }
    taken.extend(scene.claim(10_000).await.iter().map(row_of_lease));
    let distinct: HashSet<ObjectId> = taken.iter().copied().collect();
    assert_eq!((taken.len(), distinct.len()), (ROWS, ROWS));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_gives_what_is_due_in_agendas_order() {
    let scene = Scene::new(600_000).await;
    let ids = scene.rows("mail", 6).await;
    let same = *scene.row(ids[0]).await.get_datetime("nextRunAt").unwrap();
    let later = DateTime::from_millis(scene.now().await.timestamp_millis() + 60_000);
    scene.set(ids[1], doc! { "nextRunAt": same, "priority": 10 }).await;
    scene.set(ids[2], doc! { "disabled": true }).await;
    scene.set(ids[3], doc! { "nextRunAt": later }).await;
    scene.set(ids[4], doc! { "lockedAt": scene.now().await }).await;
    let answer = scene.agenda.claim(request(1, 10)).await.unwrap();
    let given: Vec<ObjectId> = answer.leases.iter().map(row_of_lease).collect();
    assert_eq!(given, [ids[1], ids[0], ids[5]]);
    let due_in = answer.next_due_in_ms.expect("one is due in a minute");
    assert!((50_000..=60_000).contains(&due_in), "{due_in}");
    let job = &answer.leases[0].job;
    assert_eq!((job.spec.kind.as_str(), job.spec.priority), ("mail", 10));
    assert_eq!(job.spec.payload.as_str(), r#"{"n":1}"#);
    let row = scene.row(ids[1]).await;
    assert_eq!(dates(&row), ["lockedAt", "lastRunAt"], "as Agenda's row of a run: {row}");
    assert_eq!(row.get("nextRunAt"), Some(&Bson::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_are_names() {
    let scene =
        Scene::with(Options { names: Some(vec![kind("mail"), kind("fax")]), ..Options::default() }).await;
    for name in ["mail", "fax", "telex"] {
        scene.rows(name, 2).await;
    }
    let mut wish = request(1, 10);
    wish.kinds = Some(vec![kind("fax"), kind("telex")]);
    let names: Vec<String> = scene
        .agenda
        .claim(wish)
        .await
        .unwrap()
        .leases
        .iter()
        .map(|leased| leased.job.spec.kind.to_string())
        .collect();
    assert_eq!(names, ["fax", "fax"]);
    let rest: HashSet<String> =
        scene.claim(10).await.iter().map(|leased| leased.job.spec.kind.to_string()).collect();
    assert_eq!(rest, HashSet::from(["mail".to_owned()]), "telex is nobody's here");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_is_asked_again_gives_the_same() {
    let scene = Scene::new(600_000).await;
    scene.rows("mail", 5).await;
    let wish = request(1, 2);
    let first = scene.agenda.claim(wish.clone()).await.unwrap().leases;
    assert_eq!(scene.settle(&first[0], Outcome::DONE).await, Written::Done);
    let again = scene.agenda.claim(wish.clone()).await.unwrap().leases;
    assert_eq!(again.iter().map(|leased| leased.lease_ref()).collect::<Vec<_>>(), [first[1].lease_ref()]);
    let mut other = wish;
    other.kinds = Some(vec![kind("fax")]);
    assert!(scene.agenda.claim(other).await.is_err(), "a request id belongs to one request");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fence_rises_and_a_stale_one_writes_nothing() {
    let scene = Scene::new(400).await;
    let id = scene.rows("mail", 1).await[0];
    let first = scene.claim_one().await;
    scene.take_back(id).await;
    let second = scene.claim_one().await;
    assert!(second.job.fence > first.job.fence);
    assert_eq!(second.job.crashes, 1, "the first was never settled");
    let before = scene.row(id).await;
    assert!(!scene.is_held(first.lease_ref()).await);
    assert_eq!(scene.settle(&first, Outcome::DONE).await, Written::Lost);
    assert_eq!(scene.row(id).await, before);
    assert_eq!(scene.settle(&second, Outcome::DONE).await, Written::Done);
    assert_eq!(scene.settle(&second, Outcome::DONE).await, Written::Done, "asked again");
    assert_eq!(scene.settle(&second, Outcome::Released).await, Written::Lost);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_is_touched_is_not_taken_back() {
    let scene = Scene::new(1_500).await;
    let id = scene.rows("mail", 1).await[0];
    let leased = scene.claim_one().await;
    let locked = async || scene.row(id).await.get_datetime("lockedAt").unwrap().timestamp_millis();
    let first = locked().await;
    eventually("renewals go on for twice the lifetime", async || {
        assert!(scene.is_held(leased.lease_ref()).await);
        assert!(scene.agenda.expire().await.unwrap().jobs.is_empty());
        (locked().await > first + 3_000).then_some(())
    })
    .await;
    assert_eq!(scene.settle(&leased, Outcome::DONE).await, Written::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_nobody_survives_is_failed() {
    let scene = Scene::new(150).await;
    let id = scene.rows("mail", 1).await[0];
    for crashes in 0..3 {
        assert_eq!(scene.claim_one().await.job.crashes, crashes);
        scene.take_back(id).await;
    }
    assert!(scene.claim(10).await.is_empty());
    let row = scene.row(id).await;
    assert!(row.get_str("failReason").unwrap().starts_with("quarantined"), "{row}");
    assert_eq!(dates(&row), ["lastRunAt", "lastFinishedAt", "failedAt"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn check_says_what_is_missing() {
    let scene = Scene::new(5_000).await;
    let words = async || {
        let found = scene.agenda.check().await.unwrap();
        found
            .iter()
            .map(|finding| format!("{} | {}", finding.what, finding.then))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let sound = words().await;
    assert!(!sound.contains("Index"), "{sound}");
    assert!(sound.contains("LOCK_LIFETIME_SECONDS") && sound.contains("5 s"), "{sound}");
    scene.rows.drop_indexes().await.unwrap();
    let bare = words().await;
    assert!(bare.contains("no index findAndLockNextJobIndex"), "{bare}");
    assert!(bare.contains(&index_keys().to_string()) && bare.contains("windlassLockedIndex"), "{bare}");
    scene.rows.insert_one(doc! { "_id": "text", "name": "old" }).await.unwrap();
    assert!(words().await.contains("no ObjectId"));
    assert!(scene.claim(10).await.is_empty());
}
