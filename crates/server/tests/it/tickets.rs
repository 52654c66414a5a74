//! Tickets of leases over HTTP, with two servers on one Postgres: the store that gives them.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::house::{House, Reply, send, serving};

async fn post(addr: SocketAddr, path: &str, body: Value) -> Reply {
    send(addr, "POST", path, &[("content-type", "application/json")], body.to_string().as_bytes()).await
}

async fn settled(addr: SocketAddr, results: &[Value]) -> Vec<String> {
    let reply = post(addr, "/v1/leases/settle", json!({ "results": results })).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let results = reply.json()["results"].as_array().unwrap().clone();
    results.iter().map(|result| result["status"].as_str().unwrap().to_owned()).collect()
}

fn end(lease: &Value, ticket: &Value) -> Value {
    json!({"job_id": lease["job"]["id"], "fence": lease["fence"], "outcome": "completed", "ticket": ticket})
}

/// A worker claims through one server and ends through the other; whatever ticket it names, what counts is the fence.
#[tokio::test(flavor = "multi_thread")]
async fn a_ticket_is_handed_back_and_gives_no_right() {
    let server = windlass_testkit::postgres::Server::shared().await;
    let database = server.fresh_database().await;
    let folder = tempfile::tempdir().unwrap();
    let (_one, one) = serving(&database.url(), None, &folder.path().join("one")).await;
    let (_other, other) = serving(&database.url(), None, &folder.path().join("other")).await;
    let jobs: Vec<Value> = (0..8).map(|_| json!({"kind": "k", "payload": null})).collect();
    assert_eq!(post(one, "/v1/jobs/batch", json!({ "jobs": jobs })).await.status, 201);
    let claim = |limit: u32| json!({"worker": "w", "queues": ["default"], "limit": limit});
    let leases = post(one, "/v1/claim", claim(6)).await.json()["leases"].as_array().unwrap().clone();
    let tickets: Vec<&str> = leases.iter().map(|lease| lease["ticket"].as_str().expect("a ticket")).collect();
    assert!(tickets.iter().all(|ticket| ticket.len() <= 64), "{tickets:?}");
    let shown =
        send(one, "GET", &format!("/v1/jobs/{}", leases[0]["job"]["id"].as_str().unwrap()), &[], b"").await;
    assert!(!tickets.iter().any(|ticket| shown.text.contains(ticket)), "it is shown to nobody else");

    let right = end(&leases[0], &leases[0]["ticket"]);
    let renewal =
        json!({"job_id": leases[1]["job"]["id"], "fence": leases[1]["fence"], "ticket": tickets[1]});
    let renewed = post(other, "/v1/leases/renew", json!({"leases": [renewal]})).await.json();
    assert_eq!(renewed["renewed"], json!([leases[1]["job"]["id"]]));
    let mut stale = end(&leases[2], &leases[2]["ticket"]);
    stale["fence"] = json!(leases[2]["fence"].as_u64().unwrap() + 1);
    assert_eq!(settled(other, &[right.clone(), stale]).await, ["ok", "lost"]);
    assert_eq!(settled(one, std::slice::from_ref(&right)).await, ["ok"], "asked again elsewhere");
    assert_eq!(settled(other, &[right]).await, ["ok"]);
    // Of another job, of one that was renewed, of nobody, and none.
    let rest = [
        end(&leases[1], &leases[1]["ticket"]),
        end(&leases[2], &leases[3]["ticket"]),
        end(&leases[3], &leases[2]["ticket"]),
        end(&leases[4], &json!("AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")),
        end(&leases[5], &Value::Null),
    ];
    assert_eq!(settled(other, &rest).await, ["ok"; 5]);
    let audit = send(one, "GET", "/v1/audit", &[], b"").await.json();
    assert_eq!(audit["findings"], json!([]), "{audit}");
    let left = post(other, "/v1/claim", claim(9)).await.json()["leases"].as_array().unwrap().len();
    assert_eq!(left, 2);
}

/// What cannot be a ticket is refused; a store that gives none takes any, and passes it over.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_ticket_is_refused() {
    let house = House::open().await;
    let id = house.enqueue(json!({"kind": "k", "payload": null})).await;
    let lease = house.claim("w").await;
    assert!(lease.get("ticket").is_none(), "{lease}");
    for wrong in ["", "a b", "ab==", &"A".repeat(65)] {
        let named = json!({"leases": [{"job_id": id, "fence": 1, "ticket": wrong}]});
        let refused = house.post("/v1/leases/renew", named).await;
        assert_eq!((refused.status, refused.field()), (400, "ticket".to_owned()), "{wrong:?}");
    }
    let renewal = json!({"leases": [{"job_id": id, "fence": 1, "ticket": "AQID"}]});
    assert_eq!(house.post("/v1/leases/renew", renewal).await.json()["renewed"], json!([id]));
    let step = json!({"fence": 1, "ticket": "AQID", "output": 1});
    assert_eq!(house.put(&format!("/v1/jobs/{id}/steps/s"), step).await.status, 200);
    let progress = json!({"fence": 1, "ticket": "AQID", "progress": 1});
    assert_eq!(house.put(&format!("/v1/jobs/{id}/progress"), progress).await.status, 200);
    assert_eq!(
        house.post("/v1/leases/settle", json!({"results": [end(&lease, &json!("AQID"))]})).await.status,
        200
    );
}
