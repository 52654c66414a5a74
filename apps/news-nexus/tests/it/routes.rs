//! Every route, good and bad.

use serde_json::json;

use crate::ask::{ask, try_ask};
use crate::house::{House, RSS, SCORER, STATES};

const TWO: &str = r#"{"targetArticleThresholdDaysOld": 180, "targetArticleStateReviewCount": 10}"#;

#[tokio::test(flavor = "multi_thread")]
async fn every_route_when_all_is_well() {
    let house = House::new().await;
    let server = house.start().await;
    assert_eq!(server.get("/").await.body, json!({"service": "worker-node", "status": "up"}));
    assert_eq!(server.get("/health").await.body, json!({"status": "ok", "service": "worker-node"}));
    let empty = server.get("/queue-info/queue_status").await.body;
    let none = json!({"totalJobs": 0, "queued": 0, "running": 0, "completed": 0, "failed": 0, "canceled": 0});
    assert_eq!(empty, json!({"summary": none, "runningJob": null, "queuedJobs": []}));
    let latest = format!("/queue-info/latest-job?endpointName={}", STATES.replace('/', "%2F"));
    assert_eq!(server.get(&latest).await.body, json!({"job": null}));

    house.google.faults.push(windlass_standins::Fault::HoldHead);
    let first = server.job(RSS, r#"{"doNotRepeatRequestsWithinHours": "24"}"#).await;
    server.until(&first, "running").await;
    let second = server.job(STATES, TWO).await;
    let third = server.job(STATES, TWO).await;
    let status = server.get("/queue-info/queue_status").await.body;
    assert_eq!(status["summary"]["queued"], 2);
    assert_eq!(server.get("/readyz").await.body, json!({"status": "ready", "service": "worker-node"}));
    let metrics = try_ask(server.addr, "GET", "/metrics", "", "").await.unwrap();
    let counted = "news_nexus_jobs{state=\"queued\"} 2\nnews_nexus_jobs{state=\"running\"} 1\n";
    assert!(metrics.contains(counted), "{metrics}");
    assert_eq!(
        (&status["runningJob"]["jobId"], &status["runningJob"]["endpointName"]),
        (&json!(first), &json!(RSS))
    );
    let queued: Vec<&str> =
        status["queuedJobs"].as_array().unwrap().iter().map(|job| job["jobId"].as_str().unwrap()).collect();
    assert_eq!(queued, [&second, &third], "whoever waits longest is first");
    assert_eq!(server.get(&latest).await.body["job"]["jobId"], third);
    house.google.faults.release();
    let done = server.until(&first, "completed").await;
    assert_eq!(done["parameters"], json!({"doNotRepeatRequestsWithinHours": 24}));
    assert_eq!(done["result"]["endingReason"], "queries_exhausted");
    assert!(
        done["startedAt"].is_string() && done["endedAt"].is_string() && done.get("failureReason").is_none()
    );
    server.until(&third, "completed").await;
    let reply = server.cancel(&first).await;
    assert_eq!((reply.status, &reply.body["error"]["code"]), (409, &json!("CONFLICT")));
    assert_eq!(server.get("/queue-info/queue_status").await.body["summary"]["completed"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_when_something_is_wrong() {
    let house = House::new().await;
    let server = house.start().await;
    for (method, path, body, status, code, about) in [
        ("GET", "/nowhere", "", 404, "NOT_FOUND", "GET /nowhere"),
        ("GET", RSS, "", 404, "NOT_FOUND", RSS),
        ("DELETE", "/", "", 404, "NOT_FOUND", "DELETE /"),
        ("GET", "/queue-info/check-status/0001", "", 404, "NOT_FOUND", "0001"),
        ("GET", "/queue-info/check-status/%20", "", 400, "VALIDATION_ERROR", "jobId"),
        ("POST", "/queue-info/cancel_job/0001", "", 404, "NOT_FOUND", "0001"),
        ("GET", "/queue-info/latest-job", "", 400, "VALIDATION_ERROR", "endpointName"),
        ("GET", "/queue-info/latest-job?endpointName=%20", "", 400, "VALIDATION_ERROR", "endpointName"),
        ("POST", RSS, "{", 400, "VALIDATION_ERROR", "body"),
        ("POST", RSS, "[]", 400, "VALIDATION_ERROR", "body"),
        ("POST", RSS, "{\"a\": 1, \"a\": 2}", 400, "VALIDATION_ERROR", "body"),
        ("POST", RSS, "{\"doNotRepeatRequestsWithinHours\": -1}", 400, "VALIDATION_ERROR", "doNotRepeat"),
        ("POST", RSS, "{\"doNotRepeatRequestsWithinHours\": 1.5}", 400, "VALIDATION_ERROR", "doNotRepeat"),
        ("POST", RSS, "{\"startAfterRowId\": \"x\"}", 400, "VALIDATION_ERROR", "startAfterRowId"),
        ("POST", RSS, "{\"startAfterRow\": 7}", 400, "VALIDATION_ERROR", "startAfterRow"),
        ("POST", SCORER, "nonsense", 400, "VALIDATION_ERROR", "body"),
        ("POST", STATES, "", 400, "VALIDATION_ERROR", "targetArticleStateReviewCount"),
        (
            "POST",
            STATES,
            &TWO.replace("10", "\"10\""),
            400,
            "VALIDATION_ERROR",
            "targetArticleStateReviewCount",
        ),
        ("POST", STATES, &TWO.replace("180", "0"), 400, "VALIDATION_ERROR", "targetArticleThresholdDaysOld"),
        (
            "POST",
            STATES,
            &TWO.replace("180", "1.5"),
            400,
            "VALIDATION_ERROR",
            "targetArticleThresholdDaysOld",
        ),
    ] {
        let reply = ask(server.addr, method, path, "", body).await;
        let error = &reply.body["error"];
        assert_eq!(
            (reply.status, error["code"].as_str()),
            (status, Some(code)),
            "{method} {path} {body}: {reply:?}"
        );
        assert_eq!(error["status"], status, "the status is repeated");
        let text = error.to_string();
        assert!(text.contains(about), "{method} {path} {body}: {text} does not say {about}");
        assert!(reply.head.contains("application/json") && reply.head.contains("nosniff"));
    }
    let both = server.post(STATES, "{}").await.body["error"]["details"].as_array().unwrap().len();
    assert_eq!(both, 2, "one detail for each field");
    let large = format!("{{\"x\": \"{}\"}}", "x".repeat(200_000));
    assert_eq!(server.post(RSS, &large).await.status, 413);
    assert_eq!(house.queue_file(), json!({"jobs": []}), "nothing was accepted");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_files_are_404_without_their_paths() {
    let house = House::new().await;
    let server = house.start().await;
    std::fs::remove_file(house.path("queries.xlsx")).unwrap();
    std::fs::remove_file(house.path("scorer/NewsNexusSemanticScorerKeywords.xlsx")).unwrap();
    for (path, word) in [
        (RSS, "PATH_AND_FILENAME_FOR_QUERY_SPREADSHEET_AUTOMATED"),
        (SCORER, "NewsNexusSemanticScorerKeywords.xlsx"),
    ] {
        let reply = server.post(path, "").await;
        assert_eq!((reply.status, &reply.body["error"]["code"]), (404, &json!("NOT_FOUND")), "{reply:?}");
        let message = reply.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(word) && !message.contains("tmp"), "{message}");
    }
    std::fs::create_dir(house.path("queries.xlsx")).unwrap();
    let reply = server.post(RSS, "").await;
    assert_eq!((reply.status, &reply.body["error"]["code"]), (500, &json!("INTERNAL_ERROR")));
    assert_eq!(reply.body["error"]["message"], "Internal server error");
    assert!(reply.body["error"].get("details").is_none());
}

/// Fault 68: pages of other sites and names that only point here are refused.
#[tokio::test(flavor = "multi_thread")]
async fn fault_68_other_sites_cannot_start_jobs() {
    let house = House::new().await;
    let server = house.start().await;
    for headers in
        ["origin: https://evil.example\r\n", "sec-fetch-site: cross-site\r\n", "host: evil.example\r\n"]
    {
        let reply = ask(server.addr, "POST", RSS, headers, "").await;
        assert_eq!((reply.status, &reply.body["error"]["code"]), (403, &json!("FORBIDDEN")), "{headers}");
    }
    assert_eq!(house.queue_file(), json!({"jobs": []}));
}

/// Fault 69: beyond this machine only with a token.
#[tokio::test(flavor = "multi_thread")]
async fn fault_69_a_host_beyond_loopback_needs_a_token() {
    let house = House::new().await.with("HOST", "0.0.0.0");
    let (status, errors) = house.refused();
    assert!(status.code() == Some(1) && errors.contains("WINDLASS_TOKEN"), "{errors}");
    let house = house.with("WINDLASS_TOKEN", "a-long-random-text");
    let server = house.start().await;
    let addr = ([127, 0, 0, 1], server.addr.port()).into();
    for path in ["/health", "/readyz", "/metrics"] {
        assert_eq!(ask(addr, "GET", path, "", "").await.status, 401, "{path}");
    }
    assert_eq!(ask(addr, "GET", "/health", "authorization: Bearer wrong\r\n", "").await.status, 401);
    assert_eq!(
        ask(addr, "GET", "/health", "authorization: Bearer a-long-random-text\r\n", "").await.status,
        200
    );
    assert!(!house.read("logs/WorkerNode.log").contains("a-long-random-text"));
}

/// The document spells it `queue_status/`, and the program before this one took both.
#[tokio::test(flavor = "multi_thread")]
async fn a_slash_at_the_end_changes_nothing() {
    let house = House::new().await;
    let server = house.start().await;
    let id = server.post(&format!("{RSS}/"), "").await.body["jobId"].as_str().expect("a job").to_owned();
    server.until(&id, "completed").await;
    for path in ["/health/", "/queue-info/queue_status/", &format!("/queue-info/check-status/{id}/")] {
        assert_eq!(server.get(path).await.status, 200, "{path}");
    }
    let latest = format!("/queue-info/latest-job/?endpointName={RSS}/");
    assert_eq!(server.get(&latest).await.body["job"]["jobId"], id);
    assert_eq!(server.post(&format!("/queue-info/cancel_job/{id}/"), "").await.status, 409);
    let nowhere = server.get("/nowhere/").await;
    assert_eq!(nowhere.status, 404);
    assert_eq!(server.get("//").await.status, 200);
}

/// Whatever goes wrong, nobody outside learns where on the machine it was.
#[tokio::test(flavor = "multi_thread")]
async fn no_answer_names_a_path() {
    for mode in ["production", "development"] {
        let house = House::new().await.with("NODE_ENV", mode);
        let folder = house.path("").display().to_string();
        let house = house.with("PATH_TO_SEMANTIC_SCORER_DIR", &format!("{folder}scorer"));
        let server = house.start().await;
        let job = server.run(SCORER, "", "failed").await;
        let reason = job["failureReason"].as_str().unwrap();
        assert!(reason.contains("sentence-transformers/paraphrase-MiniLM-L6-v2"), "{reason}");
        assert!(
            reason.contains("config.json is missing") && reason.contains("PATH_TO_SEMANTIC_SCORER_DIR"),
            "{reason}"
        );
        assert!(!job.to_string().contains(folder.trim_end_matches('/')), "{job}");
        std::fs::remove_file(house.path("queries.xlsx")).unwrap();
        std::fs::create_dir(house.path("queries.xlsx")).unwrap();
        let reply = server.post(RSS, "").await;
        assert_eq!(reply.status, 500);
        assert!(!reply.body.to_string().contains(folder.trim_end_matches('/')), "{reply:?}");
    }
}
