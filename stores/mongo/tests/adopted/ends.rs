//! How attempts end, and what the row shows then.

use mongodb::bson::{Bson, DateTime, doc};
use windlass_core::id::StepName;
use windlass_core::job::Start;
use windlass_core::json::Json;
use windlass_core::policy::ladder::RetryRule;
use windlass_core::store::{ProgressWrite, Source, StepWrite, Written};
use windlass_core::transition::Outcome;
use windlass_mongo::agenda::Options;

use crate::scene::{Scene, dates};

fn failed(error: &str) -> Outcome {
    Outcome::Failed { error: error.to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_succeeds_is_finished_and_free() {
    let scene = Scene::new(600_000).await;
    let id = scene.rows("mail", 1).await[0];
    scene.set(id, doc! { "shouldSaveResult": true, "failCount": 2 }).await;
    let leased = scene.claim_one().await;
    let result = Some(Json::payload(r#"{"sent":3}"#).unwrap());
    assert_eq!(scene.settle(&leased, Outcome::Completed { result }).await, Written::Done);
    let row = scene.row(id).await;
    assert_eq!(dates(&row), ["lastRunAt", "lastFinishedAt"]);
    assert_eq!(row.get_document("result").unwrap(), &doc! { "sent": 3 });
    assert_eq!(row.get_i32("failCount").unwrap(), 0);
    assert!(scene.claim(10).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_fails_shows_it_and_is_not_tried_again() {
    let scene = Scene::new(600_000).await;
    let id = scene.rows("mail", 1).await[0];
    let leased = scene.claim_one().await;
    let retry = Outcome::Retry { error: "no route".to_owned(), when: None };
    assert_eq!(scene.settle(&leased, retry).await, Written::Done, "Agenda retries nothing, so neither do we");
    let row = scene.row(id).await;
    assert_eq!(dates(&row), ["lastRunAt", "lastFinishedAt", "failedAt"]);
    assert_eq!(row.get("failedAt"), row.get("lastFinishedAt"), "by that Agendash knows a failure");
    assert_eq!((row.get_str("failReason").unwrap(), row.get_i32("failCount").unwrap()), ("no route", 1));
    assert!(scene.claim(10).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ladder_tries_again_and_keeps_the_steps() {
    let retry = RetryRule { ladder: "1ms 1h".parse().unwrap(), max_attempts: None };
    let scene = Scene::with(Options { retry, ..Options::default() }).await;
    let id = scene.rows("mail", 1).await[0];
    let leased = scene.claim_one().await;
    assert_eq!(leased.retry_delay_ms, Some(1));
    let step = |name: &str, output: &str| StepWrite {
        lease: leased.lease_ref(),
        name: StepName::new(name).unwrap(),
        output: Json::payload(output).unwrap(),
    };
    let steps = vec![step("read", "1"), step("read", "2"), step("write", "[3]")];
    assert_eq!(scene.agenda.store_steps(steps).await.unwrap(), [Written::Done; 3]);
    let report = ProgressWrite { lease: leased.lease_ref(), progress: Json::payload("40").unwrap() };
    assert_eq!(scene.agenda.progress(vec![report]).await.unwrap(), [Written::Done]);
    assert_eq!(scene.row(id).await.get("progress"), Some(&Bson::Int32(40)));
    scene.settle(&leased, Outcome::Retry { error: "once".to_owned(), when: None }).await;
    let second =
        windlass_testkit::eventually::eventually("it is due again", async || scene.claim(1).await.pop())
            .await;
    let steps: Vec<(&str, &str)> =
        second.job.steps.iter().map(|step| (step.name.as_str(), step.output.as_str())).collect();
    assert_eq!(steps, [("read", "1"), ("write", "[3]")]);
    assert_eq!(second.job.attempt, 2);
    scene.settle(&second, Outcome::Retry { error: "twice".to_owned(), when: None }).await;
    let row = scene.row(id).await;
    assert_eq!(row.get_i32("failCount").unwrap(), 2);
    let wait = row.get_datetime("nextRunAt").unwrap().timestamp_millis()
        - row.get_datetime("failedAt").unwrap().timestamp_millis();
    assert_eq!(wait, 3_600_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_released_row_is_where_it_was() {
    let scene = Scene::new(600_000).await;
    let id = scene.rows("mail", 1).await[0];
    let due = *scene.row(id).await.get_datetime("nextRunAt").unwrap();
    let leased = scene.claim_one().await;
    assert_eq!(scene.settle(&leased, Outcome::Released).await, Written::Done);
    assert_eq!(scene.row(id).await.get_datetime("nextRunAt").unwrap(), &due);
    let again = scene.claim_one().await;
    assert_eq!((again.job.attempt, again.job.crashes), (1, 0));
    let until = Start::At(windlass_core::time::Time::from_ms(4_000_000_000_000));
    assert_eq!(scene.settle(&again, Outcome::Parked { until }).await, Written::Done);
    assert_eq!(
        scene.row(id).await.get_datetime("nextRunAt").unwrap(),
        &DateTime::from_millis(4_000_000_000_000)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_repeats_has_its_next_run_from_the_start_of_this_one() {
    let scene = Scene::new(600_000).await;
    let ids = scene.rows("mail", 3).await;
    scene.set(ids[0], doc! { "type": "single", "repeatInterval": "3 minutes" }).await;
    scene
        .set(
            ids[1],
            doc! { "type": "single", "repeatInterval": "*/5 * * * *", "repeatTimezone": "Asia/Kolkata" },
        )
        .await;
    scene.set(ids[2], doc! { "type": "single", "repeatInterval": "now and then" }).await;
    let leases = scene.claim(10).await;
    assert_eq!(leases.len(), 3);
    for (at, leased) in leases.iter().enumerate() {
        let outcome = if at == 0 { failed("no") } else { Outcome::DONE };
        assert_eq!(scene.settle(leased, outcome).await, Written::Done);
    }
    let row = scene.row(ids[0]).await;
    let ms = |key: &str| row.get_datetime(key).unwrap().timestamp_millis();
    assert!((ms("nextRunAt") - ms("lastRunAt") - 180_000).abs() < 5_000, "{row}");
    assert_eq!(row.get_i32("failCount").unwrap(), 1);
    let row = scene.row(ids[1]).await;
    assert_eq!(row.get_datetime("nextRunAt").unwrap().timestamp_millis() % 300_000, 0, "{row}");
    let row = scene.row(ids[2]).await;
    assert!(row.get_str("failReason").unwrap().contains("invalid repeat interval"), "{row}");
    assert_eq!(row.get("nextRunAt"), Some(&Bson::Null));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_job_is_failed_with_the_reason() {
    let scene = Scene::new(600_000).await;
    let ids = scene.rows("mail", 2).await;
    let mut deep = Bson::Int32(1);
    for _ in 0..80 {
        deep = Bson::Document(doc! { "x": deep });
    }
    scene.set(ids[0], doc! { "data": deep }).await;
    let leases = scene.claim(10).await;
    assert_eq!(leases.len(), 1, "the other is not held up");
    let row = scene.row(ids[0]).await;
    assert!(row.get_str("failReason").unwrap().contains("payload"), "{row}");
}

/// Agenda's `stop`, a unique re-save of version 6, or a person: whoever writes the lock has taken the row.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_that_somebody_else_wrote_is_a_lost_lease() {
    let scene = Scene::new(600_000).await;
    let ids = scene.rows("mail", 2).await;
    for (id, theirs) in [(ids[0], Bson::Null), (ids[1], Bson::DateTime(DateTime::from_millis(7)))] {
        let leased = scene.claim(1).await.remove(0);
        scene.set(id, doc! { "lockedAt": theirs, "data": "theirs" }).await;
        let before = scene.row(id).await;
        let step = StepWrite {
            lease: leased.lease_ref(),
            name: StepName::new("read").unwrap(),
            output: Json::payload("1").unwrap(),
        };
        assert_eq!(scene.agenda.store_steps(vec![step]).await.unwrap(), [Written::Lost]);
        assert!(!scene.is_held(leased.lease_ref()).await);
        assert_eq!(scene.settle(&leased, Outcome::DONE).await, Written::Lost);
        assert_eq!(scene.row(id).await, before, "nothing is written over it");
        scene.set(id, doc! { "lockedAt": Bson::Null, "nextRunAt": DateTime::from_millis(7) }).await;
        let again = scene.claim(1).await.remove(0);
        assert_eq!(again.job.crashes, 0, "a lease that was taken away is no crash");
        assert_eq!(scene.settle(&again, Outcome::DONE).await, Written::Done);
    }
}
