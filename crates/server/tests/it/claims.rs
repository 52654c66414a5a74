//! Claims by long poll.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use windlass_testkit::eventually::eventually;

use crate::house::{House, send};

fn claim(body: Value) -> String {
    let mut all = json!({"worker": "w", "queues": ["default"], "limit": 1});
    all.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    all.to_string()
}

/// Waits until so many connections are open beside the one that asks.
async fn waiting(house: &House, polls: usize) {
    let line = format!("windlass_http_connections {}", polls + 1);
    eventually("the polls are there", || async {
        house.get("/metrics").await.text.contains(&line).then_some(())
    })
    .await;
}

/// A poll that would wait for a minute is answered as soon as a job comes; the
/// test itself would take that minute if it were not.
#[tokio::test(flavor = "multi_thread")]
async fn a_poll_is_woken_by_work() {
    let house = Arc::new(House::open().await);
    let polls: Vec<_> = (0..10)
        .map(|_| {
            let addr = house.addr;
            let body = claim(json!({"wait_ms": 60_000}));
            tokio::spawn(async move {
                send(addr, "POST", "/v1/claim", &[("content-type", "application/json")], body.as_bytes())
                    .await
            })
        })
        .collect();
    waiting(&house, 10).await;
    let jobs = vec![json!({"kind": "k"}); 10];
    house.post("/v1/jobs/batch", json!({"jobs": jobs})).await;
    let mut seen = std::collections::BTreeSet::new();
    for poll in polls {
        let reply = poll.await.unwrap().json();
        assert_eq!(reply["leases"].as_array().unwrap().len(), 1);
        seen.insert(reply["leases"][0]["job"]["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen.len(), 10, "each job once");
}

/// A job that is held back by time alone ends the wait when its time comes,
/// long before the poll looks again by itself.
#[tokio::test]
async fn a_poll_is_woken_by_time() {
    let house = House::open().await;
    house.enqueue(json!({"kind": "k", "delay": "300ms"})).await;
    let reply = house
        .send(
            "POST",
            "/v1/claim",
            &[("content-type", "application/json")],
            &claim(json!({"wait_ms": 60_000})),
        )
        .await;
    let job = &reply.json()["leases"][0]["job"];
    let ms = |field: &str| job[field].as_str().unwrap().parse::<windlass_engine::core::time::Time>().unwrap();
    assert!(ms("started_at") >= ms("run_at"));
}

/// Promise 15: asked again with the same id, a claim gives the same leases.
#[tokio::test]
async fn a_request_id_gives_the_same_leases() {
    let house = House::open().await;
    house.enqueue(json!({"kind": "k"})).await;
    house.enqueue(json!({"kind": "k"})).await;
    let body = json!({"worker": "w", "queues": ["default"], "limit": 1, "request_id": "0198c0de-0000-7000-8000-000000000009"});
    let first = house.post("/v1/claim", body.clone()).await.json();
    let again = house.post("/v1/claim", body).await.json();
    assert_eq!(first["leases"][0]["job"]["id"], again["leases"][0]["job"]["id"]);
    assert_eq!(first["leases"][0]["fence"], again["leases"][0]["fence"]);
}

/// A worker that went away while it waited swallows nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_went_away_takes_nothing() {
    let house = House::open().await;
    let body = claim(json!({"wait_ms": 60_000}));
    for _ in 0..5 {
        let mut stream = TcpStream::connect(house.addr).await.unwrap();
        let head = format!(
            "POST /v1/claim HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            house.addr,
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        waiting(&house, 1).await;
        drop(stream);
        waiting(&house, 0).await;
    }
    let id = house.enqueue(json!({"kind": "k"})).await;
    let lease = house.claim("here").await;
    assert_eq!((lease["job"]["id"].as_str(), &lease["job"]["worker"]), (Some(id.as_str()), &json!("here")));
    assert_eq!(lease["job"]["attempt"], 1);
}

/// Fault 1 over HTTP: a remote worker that dies loses its lease, and the
/// server gives the job to another, with the steps that it has stored.
#[tokio::test]
async fn a_lost_worker_is_followed_by_another() {
    let house = House::open().await;
    let id = house.enqueue(json!({"kind": "k"})).await;
    let body = json!({"worker": "dies", "queues": ["default"], "limit": 1, "lease_ms": 400});
    let lease = house.post("/v1/claim", body).await.json()["leases"][0].clone();
    assert_eq!(
        house.put(&format!("/v1/jobs/{id}/steps/one"), json!({"fence": 1, "output": 1})).await.status,
        200
    );
    let next = house.claim("lives").await;
    assert_eq!(
        (&next["job"]["id"], &next["fence"], &next["job"]["crashes"]),
        (&lease["job"]["id"], &json!(2), &json!(1))
    );
    assert_eq!(next["job"]["steps"][0]["name"], "one");
    let late = house.put(&format!("/v1/jobs/{id}/progress"), json!({"fence": 1, "progress": 1})).await;
    assert_eq!((late.status, late.code().as_str()), (409, "lease_lost"));
}

#[tokio::test]
async fn claims_are_checked() {
    let house = House::open().await;
    for (change, field) in [
        (json!({"limit": 0}), "limit"),
        (json!({"limit": 1001}), "limit"),
        (json!({"queues": []}), "queues"),
        (json!({"wait_ms": 60_001}), "wait_ms"),
        (json!({"lease_ms": 99}), "lease_ms"),
        (json!({"worker": ""}), "worker"),
        (json!({"request_id": "x"}), "request_id"),
    ] {
        let reply =
            house.send("POST", "/v1/claim", &[("content-type", "application/json")], &claim(change)).await;
        assert_eq!((reply.status, reply.field().as_str()), (400, field), "{}", reply.text);
    }
}
