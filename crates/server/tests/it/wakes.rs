//! Who is woken by new work, and who is not.

use std::sync::Arc;

use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use windlass_engine::core::memory::MemoryStore;
use windlass_engine::core::store::Store;
use windlass_engine::world::SimWorld;
use windlass_server::{Server, Settings, serve};
use windlass_testkit::eventually::answered;

use crate::counting::Counting;
use crate::house::{Reply, send};

const OTHERS: u32 = 100;
const ROUNDS: u32 = 5;

async fn poll(addr: std::net::SocketAddr, queue: String) -> Reply {
    let body = json!({"worker": "w", "queues": [queue], "limit": 1, "wait_ms": 60_000}).to_string();
    send(addr, "POST", "/v1/claim", &[("content-type", "application/json")], body.as_bytes()).await
}

/// In a world whose time stands still nobody asks by himself: who asks again was woken.
#[tokio::test(flavor = "multi_thread")]
async fn an_enqueue_wakes_only_those_who_wait_for_its_queue() {
    let world = SimWorld::new(7);
    let store = Arc::new(Counting::new(MemoryStore::new(Arc::new(world.clone()))));
    let settings = Settings { no_housekeeping: true, ..Settings::default() };
    let server = Server::in_world(store.clone(), settings, Arc::new(world));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let served = tokio::spawn(serve(listener, async { drop(stopped.await) }, server));

    let asked = async |claims: u32| {
        let seen = async || (store.claims().values().sum::<u32>() == claims).then_some(());
        assert_eq!(answered(seen).await, Some(()), "claims: {:?}", store.claims());
    };
    let others: Vec<_> = (0..OTHERS).map(|at| tokio::spawn(poll(addr, format!("other-{at}")))).collect();
    asked(OTHERS).await;
    for round in 0..ROUNDS {
        let ours = tokio::spawn(poll(addr, "q".to_owned()));
        asked(OTHERS + 2 * round + 1).await;
        let body = json!({"kind": "k", "queue": "q"}).to_string();
        send(addr, "POST", "/v1/jobs", &[("content-type", "application/json")], body.as_bytes()).await;
        let reply = ours.await.unwrap().json();
        assert_eq!(reply["leases"].as_array().unwrap().len(), 1);
    }
    let claims = store.claims();
    let again: Vec<_> =
        claims.iter().filter(|(queue, claims)| queue.as_str() != "q" && **claims > 1).collect();
    assert_eq!(again, [], "they were woken by work that is not theirs");
    drop(stop);
    for other in others {
        other.await.unwrap();
    }
    served.await.unwrap().unwrap();
    assert!(store.now().await.is_ok());
}
