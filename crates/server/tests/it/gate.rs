//! What is refused at the gate, and how.

use serde_json::json;

use crate::house::{House, send};

const JSON: (&str, &str) = ("content-type", "application/json");

/// Faults 56 and 58: the same JSON for every store; the rest is 400.
#[tokio::test]
async fn fault_56_58_strict_json() {
    let house = House::open().await;
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    for (payload, status) in [
        ("9223372036854775807".to_owned(), 201),
        ("9223372036854775808".to_owned(), 400),
        ("1e400".to_owned(), 400),
        (r#"{"a":1,"a":2}"#.to_owned(), 400),
        (r#""\u0000""#.to_owned(), 400),
        (r#""\ud800""#.to_owned(), 400),
        (deep(64), 201),
        (deep(65), 400),
        (deep(100_000), 400),
        ("nope".to_owned(), 400),
    ] {
        let body = format!(r#"{{"kind":"k","payload":{payload}}}"#);
        let reply = house.send("POST", "/v1/jobs", &[JSON], &body).await;
        let shown = &payload[..payload.len().min(40)];
        assert_eq!(reply.status, status, "{shown}: {}", reply.text);
    }
    for body in [
        &b"{\"kind\":\"k\",\"payload\":\"\xff\"}"[..],
        b"\xff",
        b"",
        b"{}",
        b"[]",
        b"{\"kind\":\"k\"} x",
        b"[null,\"k\"]",
        b"{\"kind\":\"k\",\"retry\":[\"1m\",1]}",
    ] {
        let reply = send(house.addr, "POST", "/v1/jobs", &[JSON], body).await;
        assert_eq!(reply.status, 400, "{body:?}: {}", reply.text);
    }
}

/// Fault 57: too much is refused with 413, or cut with a mark.
#[tokio::test]
async fn fault_57_sizes() {
    let house = House::open().await;
    let text = |bytes: usize| "x".repeat(bytes);
    assert_eq!(
        house.post("/v1/jobs", json!({"kind": "k", "payload": text(1024 * 1024 - 2)})).await.status,
        201
    );
    let large = house.post("/v1/jobs", json!({"kind": "k", "payload": text(1024 * 1024)})).await;
    assert_eq!((large.status, large.field().as_str()), (413, "payload"));
    assert_eq!(
        house.post("/v1/jobs", json!({"kind": "k", "payload": text(2 * 1024 * 1024)})).await.status,
        413
    );
    assert_eq!(house.post("/v1/jobs", json!({"kind": "k", "meta": text(20_000)})).await.status, 413);
    let lease = house.claim("w").await;
    let id = &lease["job"]["id"];
    let settle = |result| json!({"results": [{"job_id": id, "fence": lease["fence"], "outcome": "completed", "result": result}]});
    assert_eq!(house.post("/v1/leases/settle", settle(text(70_000))).await.status, 413);
    let failed = json!({"results": [{"job_id": id, "fence": lease["fence"], "outcome": "failed", "error": text(20_000)}]});
    assert_eq!(house.post("/v1/leases/settle", failed).await.json()["results"][0]["status"], "ok");
    let job = house.get(&format!("/v1/jobs/{}", id.as_str().unwrap())).await.json();
    let error = job["error"].as_str().unwrap();
    assert!(error.len() <= 8 * 1024 && error.ends_with("… (cut)"));
}

/// Unknown fields and wrong ones are refused by name.
#[tokio::test]
async fn fields_are_named() {
    let house = House::open().await;
    for (body, field, code) in [
        (json!({"kind": "k", "prioritty": 1}), "prioritty", "unknown_field"),
        (json!({"kind": "k", "retry": {"ladder": "1m", "max": 1}}), "retry.max", "unknown_field"),
        (json!({"queue": "q"}), "kind", "invalid"),
        (json!({"kind": 7}), "kind", "invalid"),
        (json!({"kind": ""}), "kind", "invalid"),
        (json!({"kind": "k", "priority": 40000}), "priority", "invalid"),
        (json!({"kind": "k", "delay": "5 minutes"}), "delay", "invalid"),
        (json!({"kind": "k", "delay": "5m", "run_at": "2026-01-01T00:00:00Z"}), "delay", "invalid"),
        (json!({"kind": "k", "timeout": "0s"}), "timeout", "invalid"),
        (json!({"kind": "k", "id": "7"}), "id", "invalid"),
        (
            json!({"kind": "k", "budgets": ["a", "b", "c", "d", "e", "f", "g", "h", "i"]}),
            "budgets",
            "invalid",
        ),
    ] {
        let reply = house.post("/v1/jobs", body.clone()).await;
        assert_eq!(
            (reply.status, reply.field().as_str(), reply.code().as_str()),
            (400, field, code),
            "{body}"
        );
    }
    let batch =
        house.post("/v1/jobs/batch", json!({"jobs": [{"kind": "k"}, {"kind": "k", "timeout": "0s"}]})).await;
    assert_eq!((batch.status, batch.field().as_str()), (400, "jobs[1].timeout"));
    for path in ["/v1/jobs?stat=failed", "/v1/stats?x=1", "/v1/queues?name=a"] {
        let reply = house.get(path).await;
        assert_eq!((reply.status, reply.code().as_str()), (400, "unknown_field"), "{path}");
    }
    let twice = house.send("POST", "/v1/jobs", &[JSON], r#"{"kind":"a","kind":"b"}"#).await;
    assert_eq!(twice.status, 400);
}

/// Fault 65: control characters stay out of names, and answers have no foreign headers.
#[tokio::test]
async fn fault_65_control_characters() {
    let house = House::open().await;
    for name in ["a\r\nset-cookie: x=1", "a\u{1b}[31m", "a\0"] {
        let reply = house.post("/v1/jobs", json!({"kind": name})).await;
        assert_eq!((reply.status, reply.field().as_str()), (400, "kind"));
        assert!(!reply.headers.contains_key("set-cookie"));
    }
    for path in ["/v1/queues/a%0d%0ab", "/v1/queues/%1b", "/v1/queues/%00", "/v1/queues/%ff"] {
        assert_eq!(house.get(path).await.status, 400, "{path}");
    }
}

/// Fault 66: filters are values, never parts of a question.
#[tokio::test]
async fn fault_66_filters_are_values() {
    let house = House::open().await;
    house.enqueue(json!({"kind": "k"})).await;
    for evil in ["%27%20OR%201%3D1--", "%7B%22%24gt%22%3A%22%22%7D", "%25", "k%27%3B%20DROP%20TABLE%20jobs"] {
        for name in ["queue", "kind", "key", "text"] {
            let reply = house.get(&format!("/v1/jobs?{name}={evil}")).await;
            assert_eq!(
                (reply.status, reply.json()["jobs"].as_array().unwrap().len()),
                (200, 0),
                "{name} {evil}"
            );
        }
    }
    for (query, field) in [
        ("state=done", "state"),
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=%2B5", "limit"),
        ("cursor=-1", "cursor"),
        ("cursor=x", "cursor"),
        ("since=yesterday", "since"),
        ("text=", "text"),
        ("text=a%00b", "text"),
        ("kind=", "kind"),
        ("kind=a&kind=b", "kind"),
    ] {
        let reply = house.get(&format!("/v1/jobs?{query}")).await;
        assert_eq!((reply.status, reply.field().as_str()), (400, field), "{query}");
    }
    let reply = house.post("/v1/claim", json!({"worker": {"$gt": ""}, "queues": ["q"], "limit": 1})).await;
    assert_eq!((reply.status, reply.field().as_str()), (400, "worker"));
    assert_eq!(house.get("/v1/jobs").await.json()["jobs"].as_array().unwrap().len(), 1);
}

/// Fault 67: what a job says is served as JSON and as nothing else.
#[tokio::test]
async fn fault_67_text_stays_text() {
    let house = House::open().await;
    let evil = "<script>alert(1)</script>";
    let id = house.enqueue(json!({"kind": evil, "payload": evil})).await;
    for path in [
        format!("/v1/jobs/{id}"),
        "/v1/jobs".to_owned(),
        "/v1/jobs?kind=%3Cscript%3Ealert(1)%3C%2Fscript%3E".to_owned(),
    ] {
        let reply = house.get(&path).await;
        assert_eq!(reply.headers["content-type"], "application/json");
        assert_eq!(reply.headers["x-content-type-options"], "nosniff");
        let policy = &reply.headers["content-security-policy"];
        assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    }
    let docs = house.get("/docs").await;
    assert!(docs.headers["content-type"].starts_with("text/html") && !docs.text.contains("<script>"));
    let refused = house.get("/v1/jobs?%3Cscript%3E=1").await;
    assert_eq!(refused.headers["content-type"], "application/json");
}

/// Fault 75: a page is bounded, whatever is asked for.
#[tokio::test]
async fn fault_75_pages_are_bounded() {
    let house = House::open().await;
    let jobs = vec![json!({"kind": "k"}); 300];
    assert_eq!(house.post("/v1/jobs/batch", json!({"jobs": jobs})).await.status, 201);
    assert_eq!(house.get("/v1/jobs").await.json()["jobs"].as_array().unwrap().len(), 50);
    let page = house.get("/v1/jobs?limit=200").await.json();
    assert_eq!(page["jobs"].as_array().unwrap().len(), 200);
    assert!(page["next_cursor"].is_string());
    let none: Vec<serde_json::Value> = Vec::new();
    assert_eq!(house.post("/v1/jobs/batch", json!({"jobs": none})).await.status, 400);
}
