//! Queues, budgets, schedules, workers, statistics, metrics, health.

use std::io::Write;

use serde_json::json;
use windlass_server::Settings;
use windlass_testkit::eventually::eventually;
use windlass_testkit::needs;
use windlass_testkit::small_disk::SmallDisk;

use crate::house::House;

#[tokio::test]
async fn queues() {
    let house = House::open().await;
    assert_eq!(house.get("/v1/queues/mail").await.status, 404);
    let policy =
        json!({"limit": 2, "ladder": "1m 5m", "lease_ms": 5000, "on_crash": "fail", "retention_days": 7});
    let put = house.put("/v1/queues/mail", policy).await;
    assert_eq!(put.status, 200, "{}", put.text);
    let policy = &put.json()["policy"];
    assert_eq!(
        (&policy["limit"], &policy["ladder"], &policy["on_crash"]),
        (&json!(2), &json!("1m 5m"), &json!("fail"))
    );
    house.enqueue(json!({"kind": "k", "queue": "mail"})).await;
    let queue = house.get("/v1/queues/mail").await.json();
    assert_eq!((&queue["depth"], &queue["running"], &queue["paused"]), (&json!(1), &json!(0), &json!(false)));
    assert!(queue["oldest_age_ms"].is_u64());
    assert_eq!(house.send("POST", "/v1/queues/mail/pause", &[], "").await.json()["paused"], true);
    let claim = json!({"worker": "w", "queues": ["mail"], "limit": 1});
    assert_eq!(house.post("/v1/claim", claim.clone()).await.json()["leases"], json!([]));
    assert_eq!(house.send("POST", "/v1/queues/mail/resume", &[], "").await.json()["paused"], false);
    assert_eq!(house.post("/v1/claim", claim).await.json()["leases"].as_array().unwrap().len(), 1);
    let zero = house.put("/v1/queues/mail", json!({"limit": 0})).await;
    assert_eq!((zero.status, zero.field().as_str()), (400, "limit"));
    assert_eq!(house.get("/v1/queues").await.json()["queues"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn budgets() {
    let house = House::open().await;
    let put = house
        .put("/v1/budgets/etsy", json!({"slots": 1, "per_second": 10, "per_minute": 60, "per_day": 100}))
        .await;
    assert_eq!(put.json()["used"], json!({"slots": 0, "second": 0, "minute": 0, "day": 0}));
    house.enqueue(json!({"kind": "k", "budgets": ["etsy"]})).await;
    house.claim("w").await;
    assert_eq!(house.get("/v1/budgets/etsy").await.json()["used"]["slots"], 1);
    let cooled = house.post("/v1/budgets/etsy/cool-down", json!({"for": "5m"})).await.json();
    assert!(cooled["cooling_until"].is_string() && cooled["free_at"].is_string());
    assert_eq!(house.post("/v1/budgets/etsy/cool-down", json!({})).await.status, 400);
    assert_eq!(house.get("/v1/budgets/none").await.status, 404);
    assert_eq!(house.get("/v1/budgets").await.json()["budgets"][0]["name"], "etsy");
}

#[tokio::test]
async fn schedules() {
    let house = House::open().await;
    let body = json!({"cron": "0 3 * * *", "zone": "Europe/Berlin", "missed": {"all": 3}, "job": {"kind": "report"}});
    let put = house.put("/v1/schedules/nightly", body.clone()).await;
    assert_eq!(put.status, 200, "{}", put.text);
    assert!(put.json()["next_run"].is_string());
    assert_eq!(put.json()["missed"], json!({"all": 3}));
    let run = house.send("POST", "/v1/schedules/nightly/run", &[], "").await;
    assert_eq!((run.status, &run.json()["deduplicated"]), (201, &json!(false)));
    let again = house.send("POST", "/v1/schedules/nightly/run", &[], "").await;
    assert_eq!(
        (again.status, &again.json()["job_id"]),
        (200, &run.json()["job_id"]),
        "the first is not over"
    );
    for (field, bad) in [("cron", "61 * * * *"), ("zone", "Mars/Base")] {
        let mut body = body.clone();
        body[field] = bad.into();
        let refused = house.put("/v1/schedules/nightly", body).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
    }
    assert_eq!(house.send("DELETE", "/v1/schedules/nightly", &[], "").await.status, 204);
    assert_eq!(house.send("DELETE", "/v1/schedules/nightly", &[], "").await.status, 404);
    assert_eq!(house.get("/v1/schedules").await.json(), json!({"schedules": []}));
}

#[tokio::test]
async fn what_happens_is_counted() {
    let house = House::open().await;
    let id = house.enqueue(json!({"kind": "k", "retry": {"ladder": "none"}})).await;
    let lease = house.claim("w").await;
    let failed = json!({"results": [{"job_id": id, "fence": lease["fence"], "outcome": "failed", "error": "row 17 is bad\nmore"}]});
    house.post("/v1/leases/settle", failed).await;
    let stats = eventually("the failure is counted", || async {
        Some(house.get("/v1/stats").await.json()).filter(|stats| stats["failures"][0]["count"] == 1)
    })
    .await;
    assert_eq!(stats["failures"][0]["error"], "row # is bad");
    assert_eq!(stats["throughput"]["failed"].as_array().unwrap().len(), 180);
    assert_eq!(stats["workers_alive"], 1, "a remote worker is known by its claims");
    assert_eq!(stats["workers"][0]["name"], "w");
    let metrics = house.get("/metrics").await;
    assert_eq!(metrics.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    for line in [
        "windlass_events_total{what=\"failed\",queue=\"default\"} 1",
        "windlass_http_requests_total{method=\"POST\",route=\"/v1/jobs\",status=\"201\"} 1",
        "process_resident_memory_bytes ",
    ] {
        assert!(metrics.text.contains(line), "{line} in {}", metrics.text);
    }
}

/// Whoever sends jobs here would be refused.
#[tokio::test]
async fn a_full_disk_is_not_ready() {
    if !needs::root() {
        return;
    }
    let disk = SmallDisk::mount(8 << 20);
    let folder = tempfile::TempDir::new_in(disk.path()).unwrap();
    let house = House::inside(folder, Settings::default(), |server| server).await;
    assert_eq!(house.get("/readyz").await.json(), json!({"status": "ready"}));
    let junk = disk.path().join("junk");
    let mut file = std::fs::File::create(&junk).unwrap();
    while file.write_all(&[1; 4_096]).is_ok() {}
    let reply = house.get("/readyz").await;
    assert_eq!((reply.status, reply.code()), (503, "store_cannot_write".to_owned()));
    assert_eq!(house.post("/v1/jobs", json!({"kind": "k", "payload": 1})).await.code(), "store_cannot_write");
    assert_eq!(house.get("/healthz").await.status, 200, "it is alive, and finishes what it has");
    drop(file);
    std::fs::remove_file(&junk).unwrap();
    assert_eq!(house.get("/readyz").await.status, 200);
    house.enqueue(json!({"kind": "k", "payload": 1})).await;
}

#[tokio::test]
async fn health_and_an_end_in_peace() {
    let mut house = House::open().await;
    assert_eq!(house.get("/healthz").await.json(), json!({"status": "ok"}));
    assert_eq!(house.get("/readyz").await.json(), json!({"status": "ready"}));
    let (addr, body) =
        (house.addr, json!({"worker": "w", "queues": ["q"], "limit": 1, "wait_ms": 60000}).to_string());
    let poll = tokio::spawn(async move {
        crate::house::send(
            addr,
            "POST",
            "/v1/claim",
            &[("content-type", "application/json")],
            body.as_bytes(),
        )
        .await
    });
    eventually("the poll is there", || async {
        let metrics = house.get("/metrics").await;
        metrics.text.contains("windlass_http_connections 2").then_some(())
    })
    .await;
    house.close().await;
    assert_eq!(poll.await.unwrap().json()["leases"], json!([]), "a poll is answered when the server stops");
}

/// A queue has a page of its own, with charts that go back as far as is wished for; so has the API.
#[tokio::test]
async fn a_queue_is_looked_at_over_hours() {
    let house = House::open().await;
    house.put("/v1/queues/mail", json!({"limit": 3, "ladder": "7m"})).await;
    for (span, points, step) in [("1h", 60, 60), ("6h", 72, 300), ("24h", 96, 900)] {
        let history = house.get(&format!("/v1/stats/history?queue=mail&span={span}")).await.json();
        assert_eq!(history["completed"].as_array().unwrap().len(), points, "{span}");
        assert_eq!(history["step_seconds"], step, "{span}");
        let page = house.get(&format!("/queues/mail?span={span}")).await;
        assert!(page.status == 200 && page.text.contains("Jobs per minute") && page.text.contains("7m"));
        let overview = house.get(&format!("/?span={span}")).await;
        assert_eq!(overview.status, 200, "{span}");
    }
    assert_eq!(house.get("/v1/stats/history").await.json()["wait_ms"].as_array().unwrap().len(), 60);
    for wrong in ["/v1/stats/history?span=2h", "/queues/mail?span=x", "/?span=1"] {
        let refused = house.get(wrong).await;
        assert!(refused.status == 400 && refused.text.contains("24h"), "{wrong}: {}", refused.text);
    }
    assert_eq!(house.get("/queues/nobody").await.status, 404);
}
