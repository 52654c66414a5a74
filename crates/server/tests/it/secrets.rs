//! Faults 71 and 72: what must not be said is not said, neither in an answer nor in a log.

use std::io::Write;
use std::sync::{Arc, Mutex};

use serde_json::json;
use windlass_engine::core::id::Kind;
use windlass_server::{Limits, Role, Secret, Settings, Token};
use windlass_testkit::eventually::eventually;

use crate::house::{House, TOKEN, send};

const CANARY: &str = "canary-patient-4711";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Fault 71: a token is in no answer and no log. Fault 72: the inside of a
/// sensitive job is in no list, no statistics and no log, and a search does
/// not tell of it; only an admin sees it, one job at a time.
#[tokio::test]
async fn fault_71_72_canaries() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let reader = Token {
        name: "reader".into(),
        hash: Secret::new("reader").hash(),
        role: Role::Read,
        expires_at: None,
    };
    let house = House::with(Settings {
        token: Some(Secret::new(TOKEN)),
        tokens: vec![reader],
        sensitive_kinds: vec![Kind::new("patient").unwrap()],
        limits: Limits { refusal_ms: 1, ..Limits::default() },
        ..Settings::default()
    })
    .await;
    let body =
        json!({"kind": "patient", "payload": {"name": CANARY}, "meta": CANARY, "retry": {"ladder": "none"}});
    let id = house.enqueue(body).await;
    let lease = house.claim("w").await;
    assert_eq!(lease["job"]["payload"]["name"], CANARY, "its worker sees it");
    house.put(&format!("/v1/jobs/{id}/steps/s"), json!({"fence": 1, "output": CANARY})).await;
    house.put(&format!("/v1/jobs/{id}/progress"), json!({"fence": 1, "progress": CANARY})).await;
    let failed = json!({"results": [{"job_id": id, "fence": 1, "outcome": "failed", "error": CANARY}]});
    house.post("/v1/leases/settle", failed).await;
    eventually("the failure is counted", || async {
        (house.get("/v1/stats").await.json()["failures"][0]["count"] == 1).then_some(())
    })
    .await;
    for path in [
        "/v1/jobs",
        "/v1/jobs?kind=patient",
        "/v1/stats",
        "/metrics",
        "/v1/workers",
        "/v1/queues",
        "/",
        "/jobs",
        "/queues",
        "/schedules",
    ] {
        let reply = house.get(path).await;
        assert!(reply.status == 200 && !reply.text.contains(CANARY) && !reply.text.contains(TOKEN), "{path}");
    }
    let read =
        async |path: &str| send(house.addr, "GET", path, &[("authorization", "Bearer reader")], b"").await;
    let hidden = read(&format!("/v1/jobs/{id}")).await;
    assert!(hidden.status == 200 && !hidden.text.contains(CANARY), "{}", hidden.text);
    assert!(hidden.json()["folded"].as_array().unwrap().contains(&json!("payload")));
    assert_eq!(read("/v1/jobs?text=4711").await.json()["jobs"], json!([]), "a search tells nothing");
    assert_eq!(
        read("/v1/jobs?text=PATIENT").await.json()["jobs"].as_array().unwrap().len(),
        1,
        "of the kind it does"
    );
    let page = read(&format!("/jobs/{id}")).await;
    assert!(
        page.status == 200 && !page.text.contains(CANARY) && page.text.contains("Hidden"),
        "{}",
        page.text
    );
    let seen = house.get(&format!("/v1/jobs/{id}")).await;
    assert!(seen.text.contains(CANARY), "an admin sees one job");
    let refused =
        send(house.addr, "GET", "/v1/jobs", &[("authorization", &format!("Bearer {TOKEN}x"))], b"").await;
    assert!(refused.status == 401 && !refused.text.contains(TOKEN));
    assert_eq!(house.post(&format!("/v1/jobs/{id}/cancel"), json!({})).await.status, 409);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains(&id), "what admins do is logged: {log}");
    assert!(!log.contains(CANARY) && !log.contains(TOKEN), "{log}");
}
