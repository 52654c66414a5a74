//! Promise 21 over HTTP: generated sequences are done to a server by the store that speaks to it, and to the book.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use windlass_engine::core::book::Book;
use windlass_engine::core::error::StoreError;
use windlass_engine::core::store::Store;
use windlass_server::{Secret, Server, Settings};
use windlass_testkit::clock::FakeClock;
use windlass_testkit::memory::{MemoryStore, cut};
use windlass_testkit::subject::Subject;

use crate::TOKEN;
use crate::served::Served;

/// A server before a store in memory.
struct ServedSubject {
    near: MemoryStore,
    alive: MemoryStore,
    url: String,
    _end: oneshot::Sender<()>,
}

#[async_trait]
impl Subject for ServedSubject {
    const NAME: &'static str = "remote";
    const SHARED: bool = true;
    const CUTS: bool = true;

    async fn create(clock: FakeClock) -> Self {
        let near = MemoryStore::new(Arc::new(clock.clone()));
        let alive = MemoryStore::new(Arc::new(clock));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        // The sequence says when somebody looks at the leases.
        let token = Some(Secret::new(TOKEN));
        let settings = Settings { token, no_housekeeping: true, ..Settings::default() };
        let server = Server::new(Arc::new(near.clone()), settings);
        let (end, ended) = oneshot::channel();
        tokio::spawn(windlass_server::serve(listener, async { drop(ended.await) }, server));
        Self { near, alive, url, _end: end }
    }

    async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        let far = crate::connect(&self.url, Some(TOKEN)).await?;
        Ok(Arc::new(Served { near: self.near.clone(), far, alive: self.alive.clone() }))
    }

    async fn cut(&self) {
        cut(&self.near).await;
    }

    async fn wipe(&self) {
        *self.near.book() = Book::new();
        *self.alive.book() = Book::new();
    }
}

#[test]
fn p21_generated_sequences_match_the_book() {
    windlass_testkit::conformance::run(
        windlass_testkit::conformance::p21_generated_sequences_match_the_book::<ServedSubject>(),
    );
}
