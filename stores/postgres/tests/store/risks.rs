//! What `windlass doctor` says of a Postgres: each risk is made, is told with what to do, and is not told where it is not.

use std::sync::Arc;

use windlass_core::store::{Risk, Source, Store};
use windlass_postgres::{Limits, PostgresStore};
use windlass_testkit::eventually::eventually;
use windlass_testkit::postgres::Server;

use crate::scene::{client, job};

/// From where on everything is told.
const AT_ONCE: Limits =
    Limits { behind_bytes: 0, behind_ms: i64::MAX, open_ms: 0, slot_bytes: 0, connections_percent: 90 };

/// The risk that says this; each that is told says what to do.
fn of<'a>(risks: &'a [Risk], says: &str) -> Option<&'a Risk> {
    for risk in risks {
        assert!(!risk.what.is_empty() && !risk.next.is_empty(), "{risk:?}");
    }
    risks.iter().find(|risk| risk.what.contains(says))
}

async fn is_told(store: &PostgresStore, limits: Limits, says: &str) -> bool {
    of(&store.risks_from(limits).await.expect("risks"), says).is_some()
}

async fn store_of(server: &Server, parameters: &str) -> Arc<PostgresStore> {
    let url = format!("{}{parameters}", server.url("postgres"));
    PostgresStore::connect(&url).await.expect("a store")
}

/// Told by these limits and by no others, once it has come about.
async fn is_told_at_once(store: &PostgresStore, says: &str) {
    assert!(!is_told(store, Limits::default(), says).await, "{says}: too early");
    let told = async || is_told(store, AT_ONCE, says).await.then_some(());
    eventually(says, told).await;
}

/// Settings of the server that do without durability.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_written_to_the_disk_is_told() {
    let careful = Server::own().await;
    let store = store_of(&careful, "").await;
    let risks = store.risks().await.expect("risks");
    for says in ["fsync", "full_page_writes", "synchronous_commit"] {
        assert_eq!(of(&risks, says), None, "{says}");
    }
    let careless = Server::own_with(&["fsync=off", "full_page_writes=off"]).await;
    careless.sql("ALTER DATABASE postgres SET synchronous_commit = off").await;
    let store = store_of(&careless, "").await;
    let risks = store.risks().await.expect("risks");
    for says in ["fsync is off", "full_page_writes is off", "synchronous_commit is off"] {
        assert!(of(&risks, says).is_some(), "{says}: {risks:?}");
    }
}

/// Nobody follows, somebody does without being waited for, somebody is waited for; and what the URL says to that.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_failover_would_lose_is_told() {
    const ALONE: &str = "no standby follows";
    const ASYNCHRONOUS: &str = "replicated asynchronously";
    const UNFOUNDED: &str = "the URL said replication=synchronous";
    let primary = Server::own().await;
    let check = async |said: &str, told: &[&str]| {
        let store = store_of(&primary, &format!("?replication={said}")).await;
        let risks = store.risks().await.expect("risks");
        for says in [ALONE, ASYNCHRONOUS, UNFOUNDED] {
            assert_eq!(of(&risks, says).is_some(), told.contains(&says), "{said}, {says}: {risks:?}");
        }
    };
    check("asynchronous", &[ALONE]).await;
    check("synchronous", &[ALONE, UNFOUNDED]).await;
    let standby = Server::standby_of(&primary).await;
    primary.until_followed_by(&standby).await;
    check("asynchronous", &[ASYNCHRONOUS]).await;
    check("synchronous", &[UNFOUNDED]).await;
    primary.commit_with_standby().await;
    check("asynchronous", &[]).await;
    check("synchronous", &[]).await;
}

/// A standby that does not come along.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_lags_is_told() {
    let primary = Server::own().await;
    let standby = Server::standby_of(&primary).await;
    let store = store_of(&primary, "").await;
    primary.until_followed_by(&standby).await;
    standby.sql("SELECT pg_wal_replay_pause()").await;
    store.enqueue(vec![job(1)]).await.expect("something to replay");
    is_told_at_once(&store, "a standby is ").await;
}

/// A standby that has frozen: it says nothing any more, and so nothing of how far it is behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_says_nothing_is_told() {
    const SAYS: &str = "a standby is ";
    let primary = Server::own().await;
    let standby = Server::standby_of(&primary).await;
    let store = store_of(&primary, "").await;
    primary.until_followed_by(&standby).await;
    standby.freeze();
    store.enqueue(vec![job(1)]).await.expect("something to replay");
    let by_time = Limits { behind_bytes: i64::MAX, behind_ms: 2_000, ..Limits::default() };
    eventually(SAYS, async || is_told(&store, by_time, SAYS).await.then_some(())).await;
    standby.thaw();
}

/// Whatever holds back what the database would clear away, and a disk that fills up by it.
#[tokio::test(flavor = "multi_thread")]
async fn what_holds_the_horizon_is_told() {
    let server = Server::own_with(&["max_prepared_transactions=2"]).await;
    let store = store_of(&server, "").await;
    let holder = client(&server.url("postgres")).await;
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.expect("a snapshot");
    is_told_at_once(&store, "a transaction is open for").await;
    holder.batch_execute("COMMIT").await.expect("its end");

    let prepared =
        "CREATE TABLE kept (n int); BEGIN; INSERT INTO kept VALUES (1); PREPARE TRANSACTION 'left'";
    holder.batch_execute(prepared).await.expect("a prepared transaction");
    is_told_at_once(&store, "a prepared transaction is").await;
    holder.batch_execute("ROLLBACK PREPARED 'left'").await.expect("its end");

    holder.batch_execute("SELECT pg_create_physical_replication_slot('left', true)").await.expect("a slot");
    store.enqueue(vec![job(1)]).await.expect("something that it holds");
    is_told_at_once(&store, "a replication slot that nobody reads").await;
}

/// The next program may not get a connection.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_run_out_are_told() {
    const SAYS: &str = "connections are in use";
    let server = Server::own_with(&["max_connections=20"]).await;
    let store = store_of(&server, "").await;
    assert!(!is_told(&store, Limits::default(), SAYS).await);
    let mut others = Vec::new();
    for _ in 0..16 {
        others.push(client(&server.url("postgres")).await);
    }
    // The store has one that listens and one that asks.
    while !is_told(&store, Limits::default(), SAYS).await {
        assert!(others.len() < 20, "nobody was told");
        others.push(client(&server.url("postgres")).await);
    }
}

/// A connection that listens, and does not come back: new ones are refused while those that ask are there.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_listens_no_more_is_told() {
    const SAYS: &str = "the connection that listens for new work is lost";
    let server = Arc::new(Server::own().await);
    let database = server.fresh_database().await;
    let store = PostgresStore::connect(&database.url()).await.expect("a store");
    assert!(!is_told(&store, Limits::default(), SAYS).await, "it has only begun");
    eventually("the store listens", async || store.capabilities().tells.then_some(())).await;
    let allow = |whether: bool| format!("ALTER DATABASE {} ALLOW_CONNECTIONS {whether}", database.name());
    server.sql(&allow(false)).await;
    server
        .sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN windlass_work%'",
        )
        .await;
    let told = async || is_told(&store, Limits::default(), SAYS).await.then_some(());
    eventually("it is told", told).await;
    assert!(!store.capabilities().tells);
    server.sql(&allow(true)).await;
    let healed = async || {
        (!is_told(&store, Limits::default(), SAYS).await && store.capabilities().tells).then_some(())
    };
    eventually("it listens again", healed).await;
}
