//! One queue, first come, first served, one at a time.

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass_standins::Fault;

use crate::house::{House, RSS, SCORER, STATES};

const TWO: &str = r#"{"targetArticleThresholdDaysOld": 180, "targetArticleStateReviewCount": 10}"#;

#[tokio::test(flavor = "multi_thread")]
async fn first_come_first_served_over_all_kinds() {
    let house = House::new().await;
    house.google.faults.push(Fault::HoldHead);
    let server = house.start().await;
    let mut ids = Vec::new();
    for (path, body) in [(RSS, ""), (STATES, TWO), (SCORER, ""), (RSS, ""), (STATES, TWO), (RSS, "")] {
        ids.push(server.job(path, body).await);
    }
    server.until(&ids[0], "running").await;
    let status = server.get("/queue-info/queue_status").await.body;
    assert_eq!((&status["summary"]["running"], &status["summary"]["queued"]), (&json!(1), &json!(5)));
    house.google.faults.release();
    // Without a model the scorer fails, and the queue goes on.
    server.until(&ids[5], "completed").await;
    let file = house.queue_file();
    let jobs = file["jobs"].as_array().unwrap();
    let order: Vec<&str> = jobs.iter().map(|job| job["jobId"].as_str().unwrap()).collect();
    assert_eq!(order, ids, "the file is in the order of creation");
    for pair in jobs.windows(2) {
        let (before, after) = (pair[0]["endedAt"].as_str().unwrap(), pair[1]["startedAt"].as_str().unwrap());
        assert!(before <= after, "two ran at once, or out of order: {pair:?}");
    }
    assert_eq!(jobs[2]["status"], "failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_starts_at_once_give_two_hundred_ids() {
    let house = House::new().await;
    house.google.faults.push(Fault::HoldHead);
    let server = house.start().await;
    let starts = (0..200).map(|_| server.job(RSS, ""));
    let ids: HashSet<String> = futures::future::join_all(starts).await.into_iter().collect();
    assert_eq!(ids.len(), 200);
    let file = house.queue_file();
    let kept: HashSet<&str> =
        file["jobs"].as_array().unwrap().iter().map(|job| job["jobId"].as_str().unwrap()).collect();
    assert_eq!(kept, ids.iter().map(String::as_str).collect(), "every accepted job is in the file");
    assert_eq!(server.get("/queue-info/queue_status").await.body["summary"]["totalJobs"], 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_file_has_exactly_its_form() {
    let house = House::new().await;
    let server = house.start().await;
    let done = server.run(RSS, "", "completed").await;
    let id = done["jobId"].as_str().unwrap();
    let text = |field: &str| done[field].as_str().unwrap().to_owned();
    let expected = format!(
        "{{\n  \"jobs\": [\n    {{\n      \"jobId\": \"{id}\",\n      \"endpointName\": \"{RSS}\",\n      \
         \"status\": \"completed\",\n      \"createdAt\": \"{}\",\n      \"startedAt\": \"{}\",\n      \
         \"endedAt\": \"{}\"\n    }}\n  ]\n}}\n",
        text("createdAt"),
        text("startedAt"),
        text("endedAt")
    );
    assert_eq!(house.read("runtime/queue-jobs.json"), expected);
    let beside = |what: &str| -> Value {
        serde_json::from_str(&house.read(&format!("runtime/queue-jobs/{id}.{what}.json"))).unwrap()
    };
    assert_eq!(beside("parameters"), done["parameters"]);
    assert_eq!(beside("result"), done["result"]);
    let names: Vec<String> = std::fs::read_dir(house.path("runtime"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.iter().all(|name| !name.contains("tmp")), "{names:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_job_is_tried_once() {
    let house = House::new().await;
    house.tables().0.execute_batch("DELETE FROM Prompts").unwrap();
    let server = house.start().await;
    let job = server.run(STATES, TWO, "failed").await;
    let reason = job["failureReason"].as_str().unwrap();
    assert!(reason.starts_with("the table Prompts is empty: run `windlass news-nexus init`"), "{reason}");
    assert_eq!(job["result"]["endingReason"], "error");
    let log = house.read("logs/WorkerNode.log");
    assert_eq!(log.matches("Job started").count(), 1, "{log}");
}
