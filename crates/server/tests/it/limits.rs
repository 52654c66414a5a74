//! Fault 70: too much, too slow, too many.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass_server::{Limits, Settings};

use crate::house::{House, read_reply, send};

async fn house(limits: Limits) -> House {
    House::with(Settings { limits, ..Settings::default() }).await
}

/// Sends some bytes and waits for the server to end the connection.
async fn sent(house: &House, bytes: &[u8]) -> Option<u16> {
    let mut stream = TcpStream::connect(house.addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    read_reply(&mut stream).await.map(|reply| reply.status)
}

/// Half a request line, half a header, half a body, and nothing at all: each
/// connection is ended by the server. The test would hang if it were not.
#[tokio::test]
async fn fault_70_slow_connections_are_ended() {
    let house = house(Limits { header_ms: 50, idle_ms: 150, body_idle_ms: 50, ..Limits::default() }).await;
    let host = format!("host: {}\r\n", house.addr);
    assert_eq!(sent(&house, b"GET /hea").await, None);
    assert_eq!(sent(&house, format!("GET /healthz HTTP/1.1\r\n{host}x-a: ").as_bytes()).await, None);
    assert_eq!(sent(&house, b"").await, None);
    let head = format!(
        "POST /v1/jobs HTTP/1.1\r\n{host}content-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    assert_eq!(sent(&house, head.as_bytes()).await, Some(408));
    let idle = format!("GET /healthz HTTP/1.1\r\n{host}\r\n");
    assert_eq!(sent(&house, idle.as_bytes()).await, Some(200), "answered, then ended when idle");
}

/// A client that sends a byte now and then does not hold its header open.
#[tokio::test]
async fn fault_70_a_dripping_header_is_ended() {
    let house = house(Limits { header_ms: 100, ..Limits::default() }).await;
    let mut stream = TcpStream::connect(house.addr).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nx-a: ").await.unwrap();
    let (mut read, mut write) = stream.into_split();
    let drip = async {
        let mut every = tokio::time::interval(std::time::Duration::from_millis(20));
        loop {
            every.tick().await;
            if write.write_all(b"a").await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    };
    let mut buffer = [0; 1024];
    tokio::select! {
        ended = read.read(&mut buffer) => assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}"),
        () = drip => {}
    }
}

#[tokio::test]
async fn fault_70_large_headers_and_bodies() {
    let house = house(Limits { body_bytes_max: 1_000, ..Limits::default() }).await;
    let long = "a".repeat(20_000);
    assert_eq!(send(house.addr, "GET", "/healthz", &[("x-long", &long)], b"").await.status, 431);
    let json_type = ("content-type", "application/json");
    let declared = send(house.addr, "POST", "/v1/jobs", &[json_type], &vec![b' '; 2_000]).await;
    assert_eq!(declared.status, 413);
    let chunked = format!(
        "POST /v1/jobs HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n7d0\r\n{}\r\n0\r\n\r\n",
        house.addr,
        " ".repeat(2_000)
    );
    assert_eq!(sent(&house, chunked.as_bytes()).await, Some(413), "undeclared, it is counted");
    let none = send(house.addr, "POST", "/v1/queues/q/pause", &[json_type], br#"{"x":1}"#).await;
    assert_eq!(none.status, 400, "a call without a body takes none");
}

#[tokio::test]
async fn fault_70_too_many_connections() {
    let house = house(Limits { loopback_connections_max: 3, ..Limits::default() }).await;
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = TcpStream::connect(house.addr).await.unwrap();
        stream
            .write_all(format!("GET /healthz HTTP/1.1\r\nhost: {}\r\n\r\n", house.addr).as_bytes())
            .await
            .unwrap();
        let mut first = [0; 12];
        stream.read_exact(&mut first).await.unwrap();
        assert_eq!(&first, b"HTTP/1.1 200");
        held.push(stream);
    }
    let mut stream = TcpStream::connect(house.addr).await.unwrap();
    let refused = read_reply(&mut stream).await.unwrap();
    assert_eq!((refused.status, refused.code().as_str()), (503, "busy"));
    assert_eq!(refused.headers["content-length"], refused.text.len().to_string());
    assert_eq!(refused.headers["retry-after"], "1");
    drop(held);
    windlass_testkit::eventually::eventually("there is a seat again", || async {
        let mut stream = TcpStream::connect(house.addr).await.ok()?;
        let ask = format!("GET /healthz HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", house.addr);
        stream.write_all(ask.as_bytes()).await.ok()?;
        read_reply(&mut stream).await.filter(|reply| reply.status == 200)
    })
    .await;
}

/// Long polls and listeners have seats of their own; others are told to come again.
#[tokio::test]
async fn fault_70_pressure_is_503() {
    let house = house(Limits { polls_max: 0, listeners_max: 0, batches_max: 0, ..Limits::default() }).await;
    let claim = house.post("/v1/claim", json!({"worker": "w", "queues": ["q"], "limit": 1})).await;
    let batch = house.post("/v1/jobs/batch", json!({"jobs": [{"kind": "k"}]})).await;
    for reply in [claim, batch, house.get("/v1/events").await] {
        assert_eq!((reply.status, reply.headers["retry-after"].as_str()), (503, "1"));
    }
    assert_eq!(house.get("/v1/jobs").await.status, 200);
}

/// The beginning of a request whose body never comes whole.
async fn half(house: &House, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(house.addr).await.unwrap();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{{",
        house.addr
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

/// Whoever sends slowly holds its own connection and nothing else: neither those who finish work nor those who
/// submit are refused for it.
#[tokio::test]
async fn fault_70_slow_bodies_hold_up_nobody() {
    let house = house(Limits { batches_max: 1, in_flight_max: 2, ..Limits::default() }).await;
    let mut slow = Vec::new();
    for at in 0..8 {
        slow.push(half(&house, ["/v1/jobs/batch", "/v1/leases/settle"][at % 2]).await);
    }
    // All of them are being read by now.
    windlass_testkit::eventually::eventually("they are there", || async {
        house.get("/metrics").await.text.contains("windlass_http_connections 9").then_some(())
    })
    .await;
    house.enqueue(json!({"kind": "k"})).await;
    let lease = house.claim("w").await;
    let batch = house.post("/v1/jobs/batch", json!({"jobs": [{"kind": "k"}]})).await;
    assert_eq!(batch.status, 201, "{}", batch.text);
    let settlement = json!({"job_id": lease["job"]["id"], "fence": lease["fence"], "outcome": "completed"});
    let settled = house.post("/v1/leases/settle", json!({"results": [settlement]})).await;
    assert_eq!(settled.status, 200, "{}", settled.text);
    drop(slow);
}

/// Settlements wait for their turn; they are not refused, however many come at once.
#[tokio::test]
async fn fault_70_settlements_are_not_refused() {
    let limits = Limits { settlements_max: 1, in_flight_max: 1, batches_max: 0, ..Limits::default() };
    let house = house(limits).await;
    for _ in 0..32 {
        house.enqueue(json!({"kind": "k"})).await;
    }
    let mut settlements = Vec::new();
    for _ in 0..32 {
        let lease = house.claim("w").await;
        settlements
            .push(json!({"job_id": lease["job"]["id"], "fence": lease["fence"], "outcome": "completed"}));
    }
    let all = settlements.into_iter().map(|settlement| {
        let house = &house;
        async move { house.post("/v1/leases/settle", json!({"results": [settlement]})).await.status }
    });
    assert_eq!(futures::future::join_all(all).await, [200; 32]);
}

/// Memory for large bodies is bounded, and what finishes work has some of its own.
#[tokio::test]
async fn fault_70_large_bodies_share_a_pool() {
    let house = house(Limits { bodies_bytes_max: 100 * 1024, ..Limits::default() }).await;
    let body = |bytes: usize| json!({"jobs": [{"kind": "k", "payload": "x".repeat(bytes)}]});
    let refused = house.post("/v1/jobs/batch", body(200_000)).await;
    assert_eq!((refused.status, refused.code().as_str()), (503, "busy"));
    assert_eq!(house.post("/v1/jobs/batch", body(100_000)).await.status, 201);
    assert_eq!(house.post("/v1/jobs/batch", body(100_000)).await.status, 201, "what was taken came back");
    let error = "x".repeat(200_000);
    let settlement = json!({"job_id": uuid::Uuid::nil(), "fence": 1, "outcome": "failed", "error": error});
    let settled = house.post("/v1/leases/settle", json!({"results": [settlement]})).await;
    assert_eq!(settled.status, 200, "{}", settled.text);
}

/// A client that never reads its answer is let go.
#[tokio::test]
async fn fault_70_unread_answers_are_dropped() {
    let house = house(Limits { write_stall_ms: 100, ..Limits::default() }).await;
    house.enqueue(json!({"kind": "k", "payload": "x".repeat(1_000_000)})).await;
    let id = house.get("/v1/jobs").await.json()["jobs"][0]["id"].as_str().unwrap().to_owned();
    let mut stream = TcpStream::connect(house.addr).await.unwrap();
    let ask = format!("GET /v1/jobs/{id} HTTP/1.1\r\nhost: {}\r\n\r\n", house.addr);
    stream.write_all(ask.repeat(40).as_bytes()).await.unwrap();
    windlass_testkit::eventually::eventually("the connection is given up", || async {
        house.get("/metrics").await.text.contains("windlass_http_connections 1").then_some(())
    })
    .await;
    drop(stream);
}
