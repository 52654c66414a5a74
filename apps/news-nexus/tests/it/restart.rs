//! What a start finds: unfinished jobs, old jobs, broken files, a second start.

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass_standins::Fault;
use windlass_testkit::eventually::eventually;

use crate::ask::try_ask;
use crate::house::{House, RSS, lives};

fn record(id: &str, status: &str, days_ago: i64) -> Value {
    let at = jiff::Timestamp::from_millisecond(now_ms() - days_ago * 86_400_000).unwrap();
    let mut record = json!({
        "jobId": id, "endpointName": RSS, "status": status, "createdAt": format!("{at:.3}"),
    });
    if !matches!(status, "queued" | "running") {
        record["endedAt"] = json!(format!("{:.3}", jiff::Timestamp::from_millisecond(now_ms()).unwrap()));
    }
    record
}

fn now_ms() -> i64 {
    use windlass_engine::core::time::Clock;
    windlass_engine::world::RealWorld::new().wall().ms()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_leaves_failed_jobs_and_no_process() {
    let house = House::new().await;
    house.google.faults.push(Fault::HoldHead);
    let server = house.start().await;
    let running = server.job(RSS, "").await;
    server.until(&running, "running").await;
    let waiting = server.job(RSS, "").await;
    let process = server.job_process().await;
    server.kill();
    let file = house.queue_file();
    assert_eq!(
        (&file["jobs"][0]["status"], &file["jobs"][1]["status"]),
        (&json!("running"), &json!("queued"))
    );
    eventually("the job's process is gone", async || (!lives(process)).then_some(())).await;
    house.google.faults.clear();
    let server = house.start().await;
    for id in [&running, &waiting] {
        let job = server.status(id).await;
        assert_eq!((&job["status"], &job["failureReason"]), (&json!("failed"), &json!("worker_restart")));
        assert!(job["endedAt"].is_string());
    }
    assert!(server.status(&running).await["startedAt"].is_string());
    server.run(RSS, "", "completed").await;
    assert_eq!(house.queue_file()["jobs"].as_array().unwrap().len(), 3);
}

/// Promise 1: whatever was answered with 202 is in the file after kill -9.
#[tokio::test(flavor = "multi_thread")]
async fn an_accepted_job_is_there_after_a_kill() {
    let house = House::new().await;
    house.google.faults.always(Fault::HoldHead);
    let mut accepted = Vec::new();
    for round in 1..=5_usize {
        let server = house.start().await;
        let addr = server.addr;
        let mut starts = tokio::task::JoinSet::new();
        for _ in 0..40 {
            starts.spawn(async move { try_ask(addr, "POST", RSS, "", "").await });
        }
        // Killed after some were answered, in the middle of the others.
        for _ in 0..round * 6 {
            accepted.extend(starts.join_next().await.and_then(Result::ok).and_then(accepted_id));
        }
        server.kill();
        while let Some(ended) = starts.join_next().await {
            accepted.extend(ended.ok().and_then(accepted_id));
        }
        let file = house.queue_file();
        let kept: HashSet<&str> =
            file["jobs"].as_array().unwrap().iter().map(|job| job["jobId"].as_str().unwrap()).collect();
        for id in &accepted {
            assert!(kept.contains(id.as_str()), "round {round}: {id} was accepted and is gone");
        }
    }
    assert!(accepted.len() >= 60, "{}", accepted.len());
}

fn accepted_id(answer: std::io::Result<String>) -> Option<String> {
    let answer = answer.ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let body: Value = serde_json::from_str(body).ok()?;
    head.contains(" 202 ").then(|| body["jobId"].as_str().expect("an id").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_ends_its_job_within_its_grace() {
    let house = House::new().await;
    house.google.faults.push(Fault::HoldHead);
    let server = house.start().await;
    let id = server.job(RSS, "").await;
    server.until(&id, "running").await;
    let process = server.job_process().await;
    let waiting = server.job(RSS, "").await;
    assert!(server.stop().success());
    assert!(!lives(process));
    // At once, and not only when it is started the next time.
    let file = house.queue_file();
    for (job, id) in file["jobs"].as_array().unwrap().iter().zip([&id, &waiting]) {
        assert_eq!((&job["jobId"], &job["status"]), (&json!(id), &json!("failed")), "{file}");
        assert_eq!(job["failureReason"], "worker_restart");
        assert!(job["endedAt"].is_string());
    }
    house.google.faults.clear();
    let server = house.start().await;
    assert_eq!(server.status(&id).await["failureReason"], "worker_restart");
}

#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_thirty_days_after_they_were_created() {
    let house = House::new().await;
    let jobs = [
        record("0001", "completed", 31),
        record("0002", "queued", 31),
        record("0003", "failed", 29),
        record("0004", "running", 1),
    ];
    house.write("runtime/queue-jobs.json", json!({ "jobs": jobs }).to_string().as_bytes());
    let server = house.start().await;
    let file = house.queue_file();
    let ids: Vec<&str> =
        file["jobs"].as_array().unwrap().iter().map(|job| job["jobId"].as_str().unwrap()).collect();
    assert_eq!(ids, ["0003", "0004"]);
    assert_eq!(server.status("0004").await["failureReason"], "worker_restart");
    assert_eq!(server.get("/queue-info/check-status/0001").await.status, 404);
    assert_eq!(server.cancel("0003").await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn fault_6_a_broken_queue_file_is_set_aside() {
    let house = House::new().await;
    house.write("runtime/queue-jobs.json", b"{\"jobs\": [{\"jobId\": \"0001\", ");
    let server = house.start().await;
    assert_eq!(house.queue_file(), json!({"jobs": []}));
    server.run(RSS, "", "completed").await;
    let names: Vec<String> = std::fs::read_dir(house.path("runtime"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let aside = names.iter().find(|name| name.starts_with("queue-jobs.corrupt-") && name.ends_with(".json"));
    let aside = aside.unwrap_or_else(|| panic!("{names:?}"));
    assert_eq!(house.read(&format!("runtime/{aside}")), "{\"jobs\": [{\"jobId\": \"0001\", ");
    let log = house.read("logs/WorkerNode.log");
    assert!(log.contains("[ERROR]") && log.contains("set aside"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_start_on_the_same_file_is_refused() {
    let house = House::new().await;
    let server = house.start().await;
    let id = server.job(RSS, "").await;
    let (status, errors) = house.refused();
    assert!(status.code() == Some(1) && errors.contains("in use by another process"), "{errors}");
    server.until(&id, "completed").await;
}

/// One odd record costs nobody the others.
#[tokio::test(flavor = "multi_thread")]
async fn odd_records_are_kept_and_the_others_stay_readable() {
    let house = House::new().await;
    let mut extra = record("0002", "completed", 2);
    extra["result"] = json!({"articlesAddedCount": 7});
    let mut timeless = record("0003", "failed", 2);
    timeless.as_object_mut().unwrap().remove("createdAt");
    timeless.as_object_mut().unwrap().remove("endedAt");
    let jobs = [record("0001", "completed", 3), extra, timeless, record("0001", "canceled", 1), json!(null)];
    house.write("runtime/queue-jobs.json", json!({ "jobs": jobs }).to_string().as_bytes());
    let server = house.start().await;
    assert_eq!(server.get("/queue-info/queue_status").await.body["summary"]["totalJobs"], 5);
    assert_eq!(server.status("0001").await["status"], "completed");
    assert_eq!(server.status("0001-2").await["status"], "canceled");
    assert_eq!(server.status("0002").await["result"]["articlesAddedCount"], 7);
    assert!(server.status("0003").await["createdAt"].is_string());
    server.run(RSS, "", "completed").await;
    let file = house.queue_file();
    assert_eq!(file["jobs"].as_array().unwrap().len(), 6);
    assert_eq!(file["jobs"][1]["result"]["articlesAddedCount"], 7, "what others wrote is written back");
    assert!(house.read("logs/WorkerNode.log").contains("odd records"));
    let names = std::fs::read_dir(house.path("runtime")).unwrap();
    assert!(!names.flatten().any(|entry| entry.file_name().to_string_lossy().contains("corrupt")));
}
