//! Jobs over HTTP.

use serde_json::json;
use windlass_testkit::eventually::eventually;

use crate::house::House;

/// The span of a caller goes with the job; one that cannot be read is as none.
#[tokio::test]
async fn the_span_of_the_caller_is_carried() {
    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let house = House::open().await;
    let json = ("content-type", "application/json");
    let id = "0197a3c0-0000-7000-8000-000000000001";
    let body = format!(r#"{{"id": "{id}", "kind": "k", "meta": {{"by": "me"}}}}"#);
    let first = house.send("POST", "/v1/jobs", &[json, ("traceparent", PARENT)], &body).await;
    assert_eq!(first.json()["meta"], json!({"by": "me", "traceparent": PARENT}));
    let again = house.send("POST", "/v1/jobs", &[json, ("traceparent", "nonsense")], &body).await;
    assert_eq!((again.status, &again.json()["deduplicated"]), (200, &json!(true)), "from another span");
    let jobs = r#"{"jobs": [{"kind": "b"}]}"#;
    let batch = house.send("POST", "/v1/jobs/batch", &[json, ("traceparent", PARENT)], jobs).await;
    let id = batch.json()["jobs"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(house.get(&format!("/v1/jobs/{id}")).await.json()["meta"], json!({"traceparent": PARENT}));
}

#[tokio::test]
async fn a_life_over_the_wire() {
    let house = House::open().await;
    let body = r#"{"kind": "resize", "payload": {"b": 1, "a": [1.10, 1e2]}, "priority": 3, "key": "k",
        "dedupe_key": "d", "budgets": ["etsy"], "retry": {"ladder": "1m 5m", "max_attempts": 2},
        "timeout": "90s", "meta": {"by": "me"}}"#;
    let enqueued = house.send("POST", "/v1/jobs", &[("content-type", "application/json")], body).await;
    assert_eq!(enqueued.status, 201, "{}", enqueued.text);
    let id = enqueued.json()["id"].as_str().unwrap().to_owned();
    let lease = house.claim("w1").await;
    assert_eq!(lease["job"]["id"], id.as_str());
    assert_eq!(lease["job"]["state"], "running");
    assert_eq!((&lease["fence"], &lease["retry_delay_ms"]), (&json!(1), &json!(60_000)));
    let step =
        house.put(&format!("/v1/jobs/{id}/steps/fetch"), json!({"fence": 1, "output": {"n": 7}})).await;
    assert_eq!((step.status, step.json()), (200, json!({"status": "stored"})));
    let progress = house.put(&format!("/v1/jobs/{id}/progress"), json!({"fence": 1, "progress": 0.5})).await;
    assert_eq!(progress.status, 200);
    let renewed = house.post("/v1/leases/renew", json!({"leases": [{"job_id": id, "fence": 1}]})).await;
    let mut renewed = renewed.json();
    let instance = renewed.as_object_mut().and_then(|renewed| renewed.remove("instance"));
    assert!(instance.is_some_and(|instance| instance.is_string()), "which store it is, in which epoch");
    assert_eq!(renewed, json!({"renewed": [id], "lost": [], "cancel_requested": []}));
    let results = json!({"results": [
        {"job_id": id, "fence": 2, "outcome": "completed"},
        {"job_id": id, "fence": 1, "outcome": "completed", "result": {"ok": true}},
    ]});
    let settled = house.post("/v1/leases/settle", results.clone()).await;
    let expected = json!({"results": [{"job_id": id, "status": "lost"}, {"job_id": id, "status": "ok"}]});
    assert_eq!(settled.json(), expected);
    assert_eq!(house.post("/v1/leases/settle", results).await.json(), expected, "asked again");

    let reply = house.get(&format!("/v1/jobs/{id}")).await;
    assert!(reply.text.contains(r#""payload":{"b":1,"a":[1.10,1e2]}"#), "kept exactly: {}", reply.text);
    let job = reply.json();
    for (field, expected) in [
        ("state", json!("completed")),
        ("queue", json!("default")),
        ("attempt", json!(1)),
        ("crashes", json!(0)),
        ("failure_reason", json!(null)),
        ("progress", json!(0.5)),
        ("result", json!({"ok": true})),
        ("timeout", json!("90s")),
        ("retry", json!({"ladder": "1m 5m", "max_attempts": 2})),
        ("worker", json!("w1")),
        ("lease", json!(null)),
        ("folded", json!([])),
    ] {
        assert_eq!(job[field], expected, "{field}");
    }
    for moment in ["created_at", "run_at", "started_at", "ended_at"] {
        let text = job[moment].as_str().unwrap();
        assert!(text.len() == 24 && text.ends_with('Z'), "{moment} {text}");
    }
    assert_eq!(job["steps"][0]["name"], "fetch");
    assert_eq!(job["attempts"][0]["outcome"], "completed");
    let timeline: Vec<&str> =
        job["timeline"].as_array().unwrap().iter().map(|entry| entry["what"].as_str().unwrap()).collect();
    assert_eq!(timeline, ["enqueued", "claimed", "step", "completed"]);
}

/// Promise 9 and 15: asking again is harmless, another content is refused.
#[tokio::test]
async fn ids_and_dedupe_keys() {
    let house = House::open().await;
    let id = "0198c0de-0000-7000-8000-000000000001";
    let body = json!({"id": id, "kind": "k", "payload": 1});
    let first = house.post("/v1/jobs", body.clone()).await;
    assert_eq!((first.status, &first.json()["deduplicated"]), (201, &json!(false)));
    let again = house.post("/v1/jobs", body).await;
    assert_eq!((again.status, &again.json()["deduplicated"]), (200, &json!(true)));
    let other = house.post("/v1/jobs", json!({"id": id, "kind": "k", "payload": 2})).await;
    assert_eq!((other.status, other.code().as_str()), (409, "id_conflict"));
    let batch =
        house.post("/v1/jobs/batch", json!({"jobs": [{"kind": "k"}, {"id": id, "kind": "other"}]})).await;
    assert_eq!(batch.status, 409, "all or none");
    let kept = house.enqueue(json!({"kind": "k", "dedupe_key": "d"})).await;
    let batch = house
        .post("/v1/jobs/batch", json!({"jobs": [{"kind": "k"}, {"kind": "k", "dedupe_key": "d"}]}))
        .await;
    assert_eq!(batch.status, 201);
    assert_eq!(batch.json()["jobs"][1], json!({"id": kept, "deduplicated": true}));
    assert_eq!(house.get("/v1/jobs").await.json()["jobs"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn lists_are_pages() {
    let house = House::open().await;
    for at in 0..5 {
        house
            .enqueue(json!({"kind": format!("k{at}"), "key": "shop", "payload": "x".repeat(at * 2_000)}))
            .await;
    }
    let first = house.get("/v1/jobs?state=queued,running&key=shop&limit=2").await.json();
    let kinds = |page: &serde_json::Value| -> Vec<String> {
        page["jobs"].as_array().unwrap().iter().map(|job| job["kind"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(kinds(&first), ["k4", "k3"]);
    assert_eq!(first["jobs"][0]["folded"], json!(["payload"]), "long JSON is folded");
    assert_eq!(first["jobs"][0]["payload"], json!(null));
    let cursor = first["next_cursor"].as_str().unwrap();
    let second =
        house.get(&format!("/v1/jobs?state=queued&state=running&limit=3&cursor={cursor}")).await.json();
    assert_eq!(kinds(&second), ["k2", "k1", "k0"]);
    assert_eq!(second["next_cursor"], json!(null));
    assert_eq!(kinds(&house.get("/v1/jobs?text=K1").await.json()), ["k1"]);
    assert_eq!(kinds(&house.get("/v1/jobs?state=failed").await.json()), [""; 0]);
    assert_eq!(kinds(&house.get("/v1/jobs?since=2999-01-01T00:00:00Z").await.json()), [""; 0]);
}

#[tokio::test]
async fn cancel_retry_explain() {
    let house = House::open().await;
    let id = house.enqueue(json!({"kind": "k", "delay": "1h"})).await;
    let explain = house.get(&format!("/v1/jobs/{id}/explain")).await.json();
    assert_eq!(explain["explanation"]["status"], "held");
    assert_eq!(explain["explanation"]["holds"][0]["reason"], "not_due");
    let retry = house.post(&format!("/v1/jobs/{id}/retry"), json!({})).await;
    assert_eq!((retry.status, retry.code().as_str()), (409, "not_final"));
    let cancel = format!("/v1/jobs/{id}/cancel");
    assert_eq!(house.send("POST", &cancel, &[], "").await.json(), json!({"outcome": "canceled"}));
    let again = house.send("POST", &cancel, &[], "").await;
    assert_eq!((again.status, again.code().as_str()), (409, "final"));
    assert_eq!(
        house.post(&format!("/v1/jobs/{id}/retry"), json!({})).await.json(),
        json!({"outcome": "retried"})
    );
    let lease = house.claim("w").await;
    assert_eq!(lease["job"]["id"], id.as_str());
    assert_eq!(house.send("POST", &cancel, &[], "").await.json(), json!({"outcome": "cancel_requested"}));
    let held = json!({"leases": [{"job_id": id, "fence": lease["fence"]}]});
    let before = house.get(&format!("/v1/jobs/{id}")).await.json();
    let told = house.post("/v1/leases/cancels", held.clone()).await;
    assert_eq!(told.json(), json!({"cancel_requested": [id]}));
    assert_eq!(house.get(&format!("/v1/jobs/{id}")).await.json(), before, "whoever asks holds on to nothing");
    let stale = json!({"leases": [{"job_id": id, "fence": 99}]});
    assert_eq!(house.post("/v1/leases/cancels", stale).await.json(), json!({"cancel_requested": []}));
    let renewed = house.post("/v1/leases/renew", held).await;
    assert_eq!(renewed.json()["cancel_requested"], json!([id]));
    for path in [
        "/v1/jobs/0198c0de-0000-7000-8000-00000000ffff",
        "/v1/jobs/0198c0de-0000-7000-8000-00000000ffff/explain",
    ] {
        assert_eq!(house.get(path).await.status, 404);
    }
}

#[tokio::test]
async fn many_are_retried_at_a_pace() {
    let house = House::open().await;
    for _ in 0..5 {
        house.enqueue(json!({"kind": "k", "retry": {"ladder": "none"}})).await;
    }
    house.enqueue(json!({"kind": "other"})).await;
    let claim = json!({"worker": "w", "queues": ["default"], "kinds": ["k"], "limit": 10});
    let leases = house.post("/v1/claim", claim.clone()).await.json();
    let fail = |lease: &serde_json::Value| json!({"job_id": lease["job"]["id"], "fence": lease["fence"], "outcome": "retry", "error": "row 17"});
    let results: Vec<_> = leases["leases"].as_array().unwrap().iter().map(fail).collect();
    assert_eq!(house.post("/v1/leases/settle", json!({"results": results})).await.status, 200);

    let dry = house.post("/v1/jobs/retry", json!({"filter": {"kind": "k"}, "dry_run": true})).await;
    assert_eq!((dry.status, &dry.json()["matched"], &dry.json()["capped"]), (200, &json!(5), &json!(false)));
    assert_eq!(dry.json()["sample"].as_array().unwrap().len(), 5);
    let run = house.post("/v1/jobs/retry", json!({"filter": {"kind": "k"}, "pace": 1000})).await;
    assert_eq!(run.status, 202, "{}", run.text);
    let path = format!("/v1/retries/{}", run.json()["id"].as_str().unwrap());
    let done = eventually("the run ends", || async {
        Some(house.get(&path).await.json()).filter(|run| run["state"] != "running")
    })
    .await;
    assert_eq!((&done["state"], &done["done"], &done["refused"]), (&json!("done"), &json!(5), &json!(0)));
    let leases = house.post("/v1/claim", claim).await.json();
    assert_eq!(leases["leases"].as_array().unwrap().len(), 5);
    let listed = house.get("/v1/retries").await.json();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn many_are_canceled_after_a_look() {
    let house = House::open().await;
    for _ in 0..5 {
        house.enqueue(json!({"kind": "k"})).await;
    }
    let other = house.enqueue(json!({"kind": "other"})).await;
    let running = house.claim("w").await;
    let dry = house.post("/v1/jobs/cancel", json!({"filter": {"kind": "k"}, "dry_run": true})).await;
    assert_eq!((dry.status, &dry.json()["matched"]), (200, &json!(5)));
    let all = house.get("/v1/jobs?state=queued").await.json();
    assert_eq!(all["jobs"].as_array().unwrap().len(), 5, "a dry run changes nothing");
    let run = house.post("/v1/jobs/cancel", json!({"filter": {"kind": "k"}, "pace": 1000})).await;
    assert_eq!((run.status, &run.json()["does"]), (202, &json!("cancel")), "{}", run.text);
    let path = format!("/v1/retries/{}", run.json()["id"].as_str().unwrap());
    let done = eventually("the run ends", || async {
        Some(house.get(&path).await.json()).filter(|run| run["state"] != "running")
    })
    .await;
    assert_eq!((&done["done"], &done["refused"]), (&json!(5), &json!(0)));
    let job = house.get(&format!("/v1/jobs/{}", running["job"]["id"].as_str().unwrap())).await.json();
    assert_eq!((&job["state"], &job["lease"]["cancel_requested"]), (&json!("running"), &json!(true)));
    assert_eq!(house.get(&format!("/v1/jobs/{other}")).await.json()["state"], "queued");
    let refused = house.post("/v1/jobs/cancel", json!({"filter": {"state": ["failed"]}})).await;
    assert_eq!(refused.status, 400, "what is over cannot be canceled");
}

/// A caller may wait for a job to be over: it is answered then and not before, or when its wait has ended.
#[tokio::test]
async fn waiting_for_a_job() {
    let house = House::open().await;
    let id = house.enqueue(json!({"kind": "k"})).await;
    let early = house.get(&format!("/v1/jobs/{id}?wait=1ms")).await;
    assert_eq!((early.status, &early.json()["state"]), (200, &json!("queued")));
    let (waited, ()) = tokio::join!(async { house.get(&format!("/v1/jobs/{id}?wait=30s")).await }, async {
        let lease = house.claim("w1").await;
        let result = json!({"job_id": id, "fence": lease["fence"], "outcome": "completed", "result": 7});
        house.post("/v1/leases/settle", json!({"results": [result]})).await;
    },);
    assert_eq!((&waited.json()["state"], &waited.json()["result"]), (&json!("completed"), &json!(7)));
    for wrong in ["61s", "soon", "", "-1s"] {
        let refused = house.get(&format!("/v1/jobs/{id}?wait={wrong}")).await;
        assert_eq!(refused.status, 400, "{wrong}: {}", refused.text);
    }
    assert_eq!(house.get("/v1/jobs/00000000-0000-7000-8000-000000000000?wait=1s").await.status, 404);
}
