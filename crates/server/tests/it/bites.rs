//! What is too large for one call is done in bites.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass_engine::core::id::{JobId, Kind, QueueName};
use windlass_engine::core::job::{JobSpec, NewJob, Start};
use windlass_engine::core::json::Json;
use windlass_engine::core::memory::MemoryStore;
use windlass_engine::core::store::Store;
use windlass_engine::world::SimWorld;
use windlass_server::{Server, Settings, serve};
use windlass_testkit::eventually::answered;

use crate::counting::Counting;
use crate::house::send;

type Served = (SocketAddr, oneshot::Sender<()>, JoinHandle<std::io::Result<()>>);

async fn serving(store: Arc<Counting>, world: SimWorld) -> Served {
    let settings = Settings { no_housekeeping: true, ..Settings::default() };
    let server = Server::in_world(store, settings, Arc::new(world));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    (addr, stop, tokio::spawn(serve(listener, async { drop(stopped.await) }, server)))
}

fn job(n: u128) -> NewJob {
    let payload = Json::payload("{}").unwrap();
    let spec = JobSpec::new(Kind::new("k").unwrap(), QueueName::default(), payload);
    NewJob { id: JobId(uuid::Uuid::from_u128(n)), spec, start: Start::Now }
}

/// A page has 200 jobs, and a commit those of a twentieth of a second.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_over_many_fills_its_commits_from_several_pages() {
    let world = SimWorld::new(7);
    let store = Arc::new(Counting::new(MemoryStore::new(Arc::new(world.clone()))));
    for batch in 0..12 {
        store.enqueue((batch * 100 + 1..=batch * 100 + 100).map(job).collect()).await.unwrap();
    }
    let (addr, stop, served) = serving(store.clone(), world.clone()).await;
    let body = json!({"filter": {"kind": "k"}, "pace": 10_000}).to_string();
    let headers = [("content-type", "application/json")];
    let run = send(addr, "POST", "/v1/jobs/cancel", &headers, body.as_bytes()).await.json();
    let path = format!("/v1/retries/{}", run["id"].as_str().unwrap());
    let ended = answered(async || {
        world.advance(50);
        Some(send(addr, "GET", &path, &[], b"").await.json()).filter(|run| run["state"] == "done")
    });
    assert_eq!(ended.await.expect("the run ends")["done"], 1_200);
    assert_eq!(store.cancels(), [500, 500, 200]);
    drop(stop);
    served.await.unwrap().unwrap();
}

/// Ten bites of three seconds do not fit into a call: it answers what it has, and from where to go on.
#[tokio::test(flavor = "multi_thread")]
async fn an_audit_that_takes_long_is_answered_in_part() {
    let world = SimWorld::new(7);
    let store = MemoryStore::new(Arc::new(world.clone()));
    let (addr, stop, served) =
        serving(Arc::new(Counting::auditing(store, world.clone(), 3_000)), world.clone()).await;
    let get = async |path: &str| send(addr, "GET", path, &[], b"").await.json();
    let first = get("/v1/audit").await;
    assert_eq!((&first["done"], &first["of"], &first["next"]), (&json!(4), &json!(10), &json!("0.4")));
    let one = get("/v1/audit?from=0.4").await;
    assert_eq!((&one["done"], &one["next"]), (&json!(5), &json!("0.5")));
    let last = get("/v1/audit?from=0.9").await;
    assert_eq!((&last["done"], last.get("next")), (&json!(10), None));
    drop(stop);
    served.await.unwrap().unwrap();
}
