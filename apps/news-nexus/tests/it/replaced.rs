//! What is replaced or deleted under the running server.

use serde_json::json;
use windlass_standins::{Fault, Reply};
use windlass_testkit::eventually::eventually;

use crate::house::{House, RSS, STATES};
use crate::tables::Tables;

/// A database put in the place of the one that a job works with gets what the job still finds.
#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_database_gets_what_comes_after() {
    let house = House::new().await;
    house.searches(&[["1", "fire", "", "", "", ""], ["2", "flood", "", "", "", ""]]);
    house.google.faults.push_ok();
    house.google.faults.push(Fault::HoldHead);
    let server = house.start().await;
    let id = server.job(RSS, "").await;
    eventually("the second search is asked", async || (house.google.asked().len() == 2).then_some(())).await;
    assert_eq!(house.tables().number("SELECT count(*) FROM Articles"), 5);
    Tables::open(&house.path("db/new.db")).seed();
    std::fs::rename(house.path("db/new.db"), house.path("db/news.db")).unwrap();
    house.google.faults.release();
    let job = server.until(&id, "completed").await;
    assert_eq!(job["result"]["counts"]["succeeded"], 2);
    assert_eq!(house.tables().number("SELECT count(*) FROM Articles"), 5, "those of the second search");
    assert!(house.read("logs/WorkerNode.log").contains("database file was replaced"));
}

/// An answer that was paid for is written into the new file where the article is the same, and nothing is asked twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_database_is_selected_from_anew() {
    let house = House::new().await;
    for id in 1..=3 {
        house.tables().article(id, &format!("Fire {id}"), Some("In Texas"));
    }
    let said = r#"{"occuredInTheUS": true, "reasoning": "It says so.", "state": "Texas"}"#;
    for _ in 0..4 {
        house.openai.reply(Reply::Text(said.to_owned()));
    }
    house.openai.faults.push(Fault::HoldHead);
    let server = house.start().await;
    let body = r#"{"targetArticleThresholdDaysOld": 180, "targetArticleStateReviewCount": 10}"#;
    let id = server.job(STATES, body).await;
    eventually("the first article is asked about", async || (house.openai.asked().len() == 1).then_some(()))
        .await;
    let other = Tables::open(&house.path("db/new.db"));
    other.seed();
    other.article(3, "Fire 3", Some("In Texas"));
    other.article(9, "Flood 9", Some("In Texas"));
    drop(other);
    std::fs::rename(house.path("db/new.db"), house.path("db/news.db")).unwrap();
    house.openai.faults.release();
    let job = server.until(&id, "completed").await;
    let rows = house.tables().rows("SELECT articleId FROM ArticleStateContracts02 ORDER BY articleId");
    assert_eq!(rows, ["3", "9"], "{job}");
    assert_eq!(house.openai.asked().len(), 2, "one of before, one of the new file");
}

/// A database that is deleted between two jobs is made anew, empty, and that is said.
#[tokio::test(flavor = "multi_thread")]
async fn a_database_deleted_between_two_jobs() {
    let house = House::new().await;
    let server = house.start().await;
    server.run(RSS, "", "completed").await;
    let said = || house.read("logs/WorkerNode.log").matches("The database file was not there").count();
    assert_eq!(said(), 0);
    std::fs::remove_file(house.path("db/news.db")).unwrap();
    server.run(RSS, "", "completed").await;
    assert_eq!(said(), 1);
    std::fs::remove_dir_all(house.path("db")).unwrap();
    server.run(RSS, "", "completed").await;
    assert_eq!(said(), 2);
    server.run(RSS, "", "completed").await;
    assert_eq!(said(), 2, "one that is there is nothing to speak of");
    assert!(server.stop().success());
}

/// The folder of the queue is deleted: the server says so, has lost nothing, and goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_runtime_folder_is_made_again() {
    let house = House::new().await;
    house.google.faults.push_ok();
    house.google.faults.push(Fault::HoldHead);
    let server = house.start().await;
    let first = server.run(RSS, "", "completed").await["jobId"].as_str().unwrap().to_owned();
    let running = server.job(RSS, "").await;
    eventually("it asks", async || (house.google.asked().len() == 2).then_some(())).await;
    std::fs::remove_dir_all(house.path("runtime")).unwrap();
    house.google.faults.release();
    let done = server.until(&running, "completed").await;
    assert!(done["result"].is_object(), "the result has a place again: {done}");
    let file = house.queue_file();
    assert_eq!(file["jobs"][0]["jobId"], json!(first));
    std::fs::remove_dir_all(house.path("runtime")).unwrap();
    // While nothing happens it is noticed as well, within the time of a heartbeat.
    eventually("the queue file is there again", async || {
        house.path("runtime/queue-jobs.json").exists().then_some(())
    })
    .await;
    server.run(RSS, "", "completed").await;
    let log = house.read("logs/WorkerNode.log");
    assert!(log.contains("[ERROR]") && log.contains("was deleted; it is written again"), "{log}");
    let (status, errors) = house.refused();
    assert!(status.code() == Some(1) && errors.contains("in use by another process"), "{errors}");
    assert!(server.stop().success());
}
