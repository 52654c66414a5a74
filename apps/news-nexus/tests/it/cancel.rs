//! Cancel: of what waits, of what runs, of what does not listen.

use std::os::unix::process::CommandExt;

use serde_json::json;
use windlass_standins::Fault;
use windlass_testkit::eventually::eventually;

use crate::house::{House, RSS, kill, lives};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_is_canceled_at_once() {
    let house = House::new().await;
    house.google.faults.push(Fault::HoldHead);
    let server = house.start().await;
    let running = server.job(RSS, "").await;
    server.until(&running, "running").await;
    let waiting = server.job(RSS, "").await;
    let reply = server.cancel(&waiting).await;
    assert_eq!((reply.status, reply.body), (200, json!({"jobId": waiting, "outcome": "canceled"})));
    let job = server.status(&waiting).await;
    assert_eq!(
        (&job["status"], &job["failureReason"]),
        (&json!("canceled"), &json!("canceled_before_start"))
    );
    assert!(job.get("startedAt").is_none() && job["endedAt"].is_string());
    assert_eq!(server.cancel(&waiting).await.status, 409);
    house.google.faults.release();
    server.until(&running, "completed").await;
    assert_eq!(house.google.asked().len(), 1, "the canceled job never asked");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_leaves_politely() {
    let house = House::new().await.with("MILISECONDS_IN_BETWEEN_REQUESTS", "10000");
    house.searches(&[
        ["1", "fire", "", "", "", ""],
        ["2", "smoke", "", "", "", ""],
        ["3", "heat", "", "", "", ""],
    ]);
    let server = house.start().await;
    let id = server.job(RSS, "").await;
    let tables = house.tables();
    eventually("the first row is stored", async || {
        (tables.number("SELECT count(*) FROM NewsApiRequests") == 1).then_some(())
    })
    .await;
    let reply = server.cancel(&id).await;
    assert_eq!(reply.body, json!({"jobId": id, "outcome": "cancel_requested"}));
    // The pause of 10 s is cut short, and nothing had to be killed.
    let job = server.until(&id, "canceled").await;
    assert_eq!(job["failureReason"], "canceled_by_request");
    assert_eq!(job["result"]["endingReason"], "canceled");
    assert_eq!(
        job["result"]["counts"],
        json!({"selected": 3, "succeeded": 1, "skipped": 0, "failed": 0, "notAttempted": 2})
    );
    assert_eq!(job["result"]["startAfterRowId"], 1);
    assert_eq!(tables.number("SELECT countOfArticlesSavedToDbFromRequest FROM NewsApiRequests"), 5);
    assert_eq!(server.cancel(&id).await.status, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_under_way_is_let_go() {
    let house = House::new().await;
    house.google.faults.push(Fault::HoldBody { after: 10 });
    let server = house.start().await;
    let id = server.job(RSS, "").await;
    eventually("Google is asked", async || (!house.google.asked().is_empty()).then_some(())).await;
    server.cancel(&id).await;
    let job = server.until(&id, "canceled").await;
    assert_eq!(job["result"]["counts"]["notAttempted"], 1);
    assert_eq!(
        house.tables().number("SELECT count(*) FROM NewsApiRequests"),
        0,
        "nothing is known of that request"
    );
}

/// A process that is stopped hears no SIGTERM: it is killed after 10 s, and
/// with it whatever is in its group.
#[tokio::test(flavor = "multi_thread")]
async fn fault_48_49_a_deaf_job_is_killed_with_its_children() {
    let house = House::new().await;
    house.google.faults.push(Fault::HoldHead);
    let server = house.start().await;
    let id = server.job(RSS, "").await;
    server.until(&id, "running").await;
    let process = server.job_process().await;
    let deaf = ["-c", "trap '' TERM; sleep 600; true"];
    let mut relative = std::process::Command::new("sh").args(deaf).process_group(process).spawn().unwrap();
    eventually("the relative is deaf", async || ignores_sigterm(relative.id()).then_some(())).await;
    kill(process, libc::SIGSTOP);
    // Of two signals that wait the smaller number is heard first, and that is SIGTERM.
    eventually("the job is stopped", async || is_stopped(process).then_some(())).await;
    let asked = server.cancel(&id).await;
    assert_eq!(asked.body["outcome"], "cancel_requested");
    assert_eq!(server.cancel(&id).await.body["outcome"], "cancel_requested", "a second cancel says the same");
    let job = server.until(&id, "canceled").await;
    let ms = |field: &str| job[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
    let took_ms = ms("endedAt") - ms("startedAt");
    assert!((10_000..20_000).contains(&took_ms), "it ended after {took_ms} ms");
    assert!(!lives(process));
    let ended = relative.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&ended), Some(libc::SIGKILL));
    // The queue goes on.
    house.google.faults.release();
    server.run(RSS, "", "completed").await;
}

fn ignores_sigterm(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    ignored & (1 << (libc::SIGTERM - 1)) != 0
}

fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}
