//! Everything at once, for a minute (half an hour in `./test --full`): see `windlass_testkit::soak`. The store on MongoDB has
//! its own in its folder.

use std::sync::Arc;

use windlass_testkit::binary::windlass;
use windlass_testkit::postgres::Server;
use windlass_testkit::soak::soak;

#[tokio::test(flavor = "multi_thread")]
async fn a_soak_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    soak(windlass(), &format!("sqlite:{}", folder.path().join("soak.db").display()), 2).await;
}

/// A store for one process.
#[tokio::test(flavor = "multi_thread")]
async fn a_soak_on_json() {
    let folder = tempfile::tempdir().unwrap();
    soak(windlass(), &format!("json:{}", folder.path().join("soak.json").display()), 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_soak_on_postgres() {
    let server: Arc<Server> = Server::shared().await;
    let database = server.fresh_database().await;
    soak(windlass(), &database.url(), 2).await;
}
